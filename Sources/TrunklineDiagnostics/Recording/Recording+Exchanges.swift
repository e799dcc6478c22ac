import TrunklineCore

extension Recording {
    /// A request that was sent, and what the server sent in reply to it.
    package struct Exchange: Sendable {
        package let time: Duration
        package let request: Header
        package fileprivate(set) var replies: [(time: Duration, header: Header)] = []
        /// Answers the request as one of several. It is among the replies of another exchange.
        fileprivate var sharedResponse: (time: Duration, header: Header)?
        package fileprivate(set) var isOfBeginning = false

        package var lastReply: (time: Duration, header: Header)? { sharedResponse ?? replies.last }
    }

    /// Matched by serial or, if no request has one, in order, by channel. Requests that were sent before the oldest
    /// entry come first, with its time.
    package var exchanges: (matched: [Exchange], unasked: [(time: Duration, header: Header)]) {
        let sent = entries.compactMap { entry in
            if case .sent(let header) = entry.content, header.kind == .request { header } else { nil }
        }
        var matcher = Matcher(beginning.requests.compactMap(\.header) + sent)
        for request in beginning.requests {
            guard let header = request.header else { continue }
            var exchange = Exchange(time: entries.first?.time ?? .zero, request: header)
            exchange.isOfBeginning = true
            matcher.add(exchange, awaitsResponse: true)
        }
        let posted = Set(
            entries.compactMap { entry in
                if case .call(let call) = entry.content, call.isOneWay { call.id } else { nil }
            }
        )
        for entry in entries {
            switch entry.content {
            case .sent(let header) where header.kind == .request:
                let isPosted = header.id.map { posted.contains($0) } ?? false
                let exchange = Exchange(time: entry.time, request: header)
                matcher.add(exchange, awaitsResponse: !header.isOneWay && !isPosted)
            case .received(let header): matcher.receive(header, at: entry.time)
            default: break
            }
        }
        return (matcher.exchanges, matcher.unasked)
    }
}

private struct Matcher {
    /// Several requests have the same key only if they are matched in order.
    private struct Key: Hashable {
        let session: SessionID
        let serial: SerialNumber
        let channel: UInt64

        init(_ header: Recording.Header) {
            (session, serial) = (header.session, header.serial)
            channel = header.serial == 0 ? header.channel : 0
        }
    }

    private(set) var exchanges: [Recording.Exchange] = []
    private(set) var unasked: [(time: Duration, header: Recording.Header)] = []
    private var isOpen: [Bool] = []
    /// Oldest first. Some may be closed.
    private var places: [Key: Deque<Int>] = [:]
    /// The latest request with a serial, open or not.
    private var latest: [Key: Int] = [:]
    private var open: [Group: OpenPlaces] = [:]

    private struct Group: Hashable {
        let session: SessionID
        let type: UInt32?

        static func all(of request: Recording.Header) -> [Group] {
            [Group(session: request.session, type: nil), Group(session: request.session, type: request.type)]
        }
    }

    init(_ requests: [Recording.Header]) {
        var serials: [Group: [SerialNumber]] = [:]
        for request in requests {
            for group in Group.all(of: request) { serials[group, default: []].append(request.serial) }
        }
        open = serials.mapValues { OpenPlaces(serials: $0) }
    }

    mutating func add(_ exchange: Recording.Exchange, awaitsResponse: Bool) {
        let (place, key) = (exchanges.count, Key(exchange.request))
        exchanges.append(exchange)
        isOpen.append(awaitsResponse)
        if key.serial != 0 {
            // The number of a request that was never answered may be used again.
            if let earlier = latest[key] { close(earlier) }
            latest[key] = place
            places[key] = nil
        }
        guard awaitsResponse else { return }
        places[key, default: Deque()].append(place)
        for group in Group.all(of: exchange.request) { open[group]?.append(place, key.serial) }
    }

    private mutating func close(_ place: Int) {
        guard isOpen[place] else { return }
        isOpen[place] = false
        let request = exchanges[place].request
        for group in Group.all(of: request) { open[group]?.remove(place, request.serial) }
    }

    mutating func receive(_ header: Recording.Header, at time: Duration) {
        switch header.kind {
        case .pong, .ignored: break
        case .response where header.answers != .one:
            guard let place = takeAll(namedBy: header, at: time) else { return unasked.append((time, header)) }
            exchanges[place].replies.append((time, header))
        case .part where header.answers != .one:
            guard let place = place(ofPart: header) else { return unasked.append((time, header)) }
            exchanges[place].replies.append((time, header))
        case .response, .part:
            guard let place = firstOpenPlace(of: Key(header)) else { return unasked.append((time, header)) }
            exchanges[place].replies.append((time, header))
            if header.kind == .response { close(place) }
        default: unasked.append((time, header))
        }
    }

    private mutating func firstOpenPlace(of key: Key) -> Int? {
        while let place = places[key]?.first {
            if isOpen[place] { return place }
            _ = places[key]?.popFirst()
        }
        return nil
    }

    /// The place of the exchange to which a frame for several requests is added: the server repeats it when it has
    /// received the request there. It is the latest that the frame names, or the oldest of those in order.
    private mutating func place(ofPart header: Recording.Header) -> Int? {
        if case .next(let count) = header.answers { return count > 0 ? firstOpenPlace(of: Key(header)) : nil }
        var last: Int?
        for group in groups(namedBy: header) {
            for search in searches(of: header) {
                if let place = open[group]?.last(search) { last = max(last ?? place, place) }
            }
        }
        return last
    }

    /// Returns the place of the exchange to which the response is added.
    private mutating func takeAll(namedBy header: Recording.Header, at time: Duration) -> Int? {
        let place = place(ofPart: header)
        if case .next(let count) = header.answers {
            var rest = count
            while rest > 0, let place = firstOpenPlace(of: Key(header)) {
                end(place, header, at: time)
                rest -= 1
            }
            return place
        }
        for group in groups(namedBy: header) {
            for search in searches(of: header) {
                while let place = open[group]?.last(search) { end(place, header, at: time) }
            }
        }
        return place
    }

    private mutating func end(_ place: Int, _ header: Recording.Header, at time: Duration) {
        close(place)
        exchanges[place].sharedResponse = (time, header)
    }

    private func groups(namedBy header: Recording.Header) -> [Group] {
        guard let types = header.marks.answeredTypes else { return [Group(session: header.session, type: nil)] }
        return types.map { Group(session: header.session, type: $0) }.filter { open[$0] != nil }
    }

    private func searches(of header: Recording.Header) -> [OpenPlaces.Search] {
        switch header.answers {
        case .all: [.through(.max)]
        case .through: latest[Key(header)].map { [.through($0)] } ?? []
        case .serials(let ranges): ranges.map { .serials($0) }
        default: []
        }
    }
}

/// The places of exchanges that await a response. All searches take logarithmic time.
private struct OpenPlaces {
    enum Search {
        case through(Int)
        case serials(ClosedRange<SerialNumber>)
    }

    /// All that may occur, ascending.
    private let serials: [SerialNumber]
    /// A tree over `serials`: the leaves are the second half, and each other node has the maximum of its two children.
    /// The values are places plus 1, or 0 for none.
    private var tree: [Int]
    private var places: [Int] = []
    /// For each number of the first `places`, itself if the last of them is open, else a smaller number. 0 is the end.
    private var earlier = [0]

    init(serials: [SerialNumber]) {
        self.serials = Set(serials).subtracting([0]).sorted()
        tree = Array(repeating: 0, count: 2 * self.serials.count)
    }

    mutating func append(_ place: Int, _ serial: SerialNumber) {
        places.append(place)
        earlier.append(places.count)
        setPlace(place + 1, of: serial)
    }

    mutating func remove(_ place: Int, _ serial: SerialNumber) {
        let number = places.partition { $0 >= place }
        earlier[number + 1] = number
        setPlace(0, of: serial)
    }

    mutating func last(_ search: Search) -> Int? {
        switch search {
        case .through(let limit):
            var number = limit == .max ? places.count : places.partition { $0 > limit }
            while earlier[number] != number {
                // Shortens the way for the next search.
                earlier[number] = earlier[earlier[number]]
                number = earlier[number]
            }
            return number == 0 ? nil : places[number - 1]
        case .serials(let range):
            var low = serials.count + serials.partition { $0 >= range.lowerBound }
            var high = serials.count + serials.partition { $0 > range.upperBound }
            var last = 0
            while low < high {
                if !low.isMultiple(of: 2) {
                    last = max(last, tree[low])
                    low += 1
                }
                if !high.isMultiple(of: 2) {
                    high -= 1
                    last = max(last, tree[high])
                }
                (low, high) = (low / 2, high / 2)
            }
            return last == 0 ? nil : last - 1
        }
    }

    private mutating func setPlace(_ value: Int, of serial: SerialNumber) {
        guard serial != 0 else { return }
        var node = serials.count + serials.partition { $0 >= serial }
        tree[node] = value
        while node > 1 {
            node /= 2
            tree[node] = max(tree[2 * node], tree[2 * node + 1])
        }
    }
}

extension Array {
    /// Binary search: all elements after the first that meets `condition` must meet it.
    fileprivate func partition(_ condition: (Element) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if condition(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

extension Recording.Beginning.Request {
    fileprivate var header: Recording.Header? {
        guard let session, abandonedFor == nil else { return nil }
        return Recording.Header(
            session: session,
            id: id,
            kind: .request,
            type: type,
            serial: serial,
            status: 0,
            isErrorResponse: false,
            isMalformed: false,
            endsLink: false,
            bodyCount: 0
        )
    }
}
