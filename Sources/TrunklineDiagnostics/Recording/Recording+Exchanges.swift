import Trunkline

extension Recording {
    /// A request that was sent, and what the server sent in reply to it.
    package struct Exchange: Sendable {
        package let time: Duration
        package let request: Header
        package fileprivate(set) var replies: [(time: Duration, header: Header)] = []
        /// The response that answered the request as one of several. It is among the replies of another exchange.
        fileprivate var sharedResponse: (time: Duration, header: Header)?
        /// Whether the request had been sent before the oldest entry.
        package fileprivate(set) var isOfBeginning = false

        package var lastReply: (time: Duration, header: Header)? { sharedResponse ?? replies.last }
    }

    /// The requests that were sent, in order, with their replies; and the frames that the server sent unasked. If no
    /// request has a serial, responses are matched in order, of each channel. Requests that had been sent before the oldest
    /// entry come first, with its time.
    package var exchanges: (matched: [Exchange], unasked: [(time: Duration, header: Header)]) {
        var matcher = Matcher()
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

/// Matches the responses of a recording with its requests.
private struct Matcher {
    /// The requests of a link that have the same serial number. There are several only if they are matched in order, of the
    /// same channel.
    private struct Key: Hashable {
        let session: SessionID
        let serial: SerialNumber
        let channel: UInt64

        init(_ session: SessionID, _ serial: SerialNumber) {
            (self.session, self.serial, channel) = (session, serial, 0)
        }

        init(_ header: Recording.Header) {
            (session, serial) = (header.session, header.serial)
            channel = header.serial == 0 ? header.channel : 0
        }
    }

    private(set) var exchanges: [Recording.Exchange] = []
    private(set) var unasked: [(time: Duration, header: Recording.Header)] = []
    /// Whether each exchange awaits a response.
    private var isOpen: [Bool] = []
    /// The places of exchanges, oldest first. Some may not be open any more.
    private var places: [Key: Deque<Int>] = [:]
    private var placesOfSession: [SessionID: Deque<Int>] = [:]
    /// The place of the latest request with a serial, open or not.
    private var latest: [Key: Int] = [:]

    mutating func add(_ exchange: Recording.Exchange, awaitsResponse: Bool) {
        let (place, key) = (exchanges.count, Key(exchange.request))
        exchanges.append(exchange)
        isOpen.append(awaitsResponse)
        if key.serial != 0 {
            // The number of a request that was never answered may be used again.
            if let earlier = latest[key] { isOpen[earlier] = false }
            latest[key] = place
            places[key] = nil
        }
        guard awaitsResponse else { return }
        places[key, default: Deque()].append(place)
        placesOfSession[key.session, default: Deque()].append(place)
    }

    mutating func receive(_ header: Recording.Header, at time: Duration) {
        switch header.kind {
        case .pong, .ignored: break
        case .response where header.answers != .one, .part where header.answers != .one:
            let named = places(namedBy: header)
            guard let last = named.last else { return unasked.append((time, header)) }
            if header.kind == .response {
                for place in named {
                    isOpen[place] = false
                    exchanges[place].sharedResponse = (time, header)
                }
            }
            // The server repeats it when it has received the request to which it belongs.
            let place = if case .next = header.answers { named[0] } else { last }
            exchanges[place].replies.append((time, header))
        case .response, .part:
            guard let place = firstOpenPlace(of: Key(header)) else { return unasked.append((time, header)) }
            exchanges[place].replies.append((time, header))
            if header.kind == .response { isOpen[place] = false }
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

    /// Returns the places of the open exchanges that a frame names, each once, in ascending order.
    private mutating func places(namedBy header: Recording.Header) -> [Int] {
        let types = header.marks.answeredTypes
        if case .next(let count) = header.answers {
            guard firstOpenPlace(of: Key(header)) != nil, let line = places[Key(header)] else { return [] }
            var named: [Int] = []
            for index in 0..<line.count {
                guard named.count < count else { break }
                if isOpen[line[index]] { named.append(line[index]) }
            }
            return named
        }
        var limit = Int.max
        var ranges: [ClosedRange<SerialNumber>]?
        if case .through = header.answers {
            guard let place = latest[Key(header)] else { return [] }
            limit = place
        } else if case .serials(let serials) = header.answers {
            let count = serials.reduce(0.0) { $0 + Double($1.upperBound - $1.lowerBound) + 1 }
            if count <= Double(placesOfSession[header.session]?.count ?? 0) {
                return places(of: serials, namedBy: header)
            }
            ranges = serials
        }
        var (named, open): ([Int], [Int]) = ([], [])
        while let place = placesOfSession[header.session]?.first, place <= limit {
            _ = placesOfSession[header.session]?.popFirst()
            guard isOpen[place] else { continue }
            open.append(place)
            let request = exchanges[place].request
            let isNamed =
                types?.contains(request.type) ?? true && ranges?.contains { $0.contains(request.serial) } ?? true
            if isNamed { named.append(place) }
        }
        for place in open.reversed() { placesOfSession[header.session]?.prepend(place) }
        return named
    }

    /// Does what `places(namedBy:)` does, for serials that are fewer than the requests of the link.
    private mutating func places(of ranges: [ClosedRange<SerialNumber>], namedBy header: Recording.Header) -> [Int] {
        let types = header.marks.answeredTypes
        var named: Set<Int> = []
        for range in ranges {
            for serial in range {
                guard serial != 0, let place = firstOpenPlace(of: Key(header.session, serial)) else { continue }
                guard types?.contains(exchanges[place].request.type) ?? true else { continue }
                named.insert(place)
            }
        }
        return named.sorted()
    }
}

extension Recording.Beginning.Request {
    /// The header of the frame, as far as it is known; `nil` if the request was on no link.
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
