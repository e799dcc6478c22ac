/// Responses that answer several requests, and parts that belong to several.
extension InFlightTable {
    /// Matched by serial: the order of numbers since the latest cumulative acknowledgement.
    struct Acknowledged: Sendable {
        /// Every request of `types` with an earlier number has left the table.
        var first: SerialNumber = 0
        var types: Set<UInt32>?
        /// Whether `first` is not known, or numbers were not used in ascending order since then.
        var isOutOfOrder = true
    }

    package struct AnsweredRequests: Sendable, Equatable {
        package struct Request: Sendable, Equatable {
            let id: RequestID
            let position: OutboundPosition
            /// 0 if matched in order.
            let serial: SerialNumber
        }

        struct Late: Sendable, Equatable {
            let id: RequestID
            let type: UInt32
        }

        var requests: [Request] = []
        var late: [Late] = []

        var hasCancelFrame = false

        var isEmpty: Bool { requests.isEmpty && late.isEmpty && !hasCancelFrame }
    }

    /// `serial` is that of the response or, matched in order by channel, its channel. `types`: `nil` for all. No frame
    /// from `unstarted` on has been written, so the response cannot belong to one of those.
    mutating func takeAnswered(
        _ answers: Frame.Answers,
        _ serial: SerialNumber,
        types: Set<UInt32>?,
        before unstarted: OutboundPosition
    ) -> AnsweredRequests {
        var answered = AnsweredRequests()
        switch answers {
        case .one: break  // see `takeAnswered(_:before:)`
        case .next(let count):
            guard isInOrder else { break }
            var rest = count
            while rest > 0, let number = number(of: serial), take(number, nil, unstarted, into: &answered) { rest -= 1 }
        case .through:
            if !isInOrder, range.contains(serial) { takeThrough(serial, types, unstarted, into: &answered) }
        case .serials(let ranges):
            guard !isInOrder else { break }
            takeAll(in: ranges, types, unstarted, into: &answered)
        case .all: takeIndexed(in: [0...SerialNumber.max], types, unstarted, into: &answered)
        }
        answered.requests.sort { $0.position < $1.position }
        return answered
    }

    @discardableResult
    private mutating func take(
        _ number: SerialNumber,
        _ types: Set<UInt32>?,
        _ unstarted: OutboundPosition,
        into answered: inout AnsweredRequests
    ) -> Bool {
        switch slots[number] {
        case .inFlight(let entry)?:
            guard entry.position < unstarted, types?.contains(entry.type) ?? true, remove(number, wasSent: true) != nil
            else {
                return false
            }
            answered.requests.append(
                AnsweredRequests.Request(id: entry.id, position: entry.position, serial: isInOrder ? 0 : number)
            )
        case .abandoned(let id, let type, _)?:
            guard types?.contains(type) ?? true else { return false }
            if isFlushed(number) {
                // The answer to its cancel frame frees the number.
            } else if endRepeated(number) {
                abandonedCount -= 1
                beginEcho(number, of: id, type: type)
            } else {
                removeAbandoned(number)
            }
            answered.late.append(AnsweredRequests.Late(id: id, type: type))
        case .cancelFrame?:
            guard types == nil, let frame = cancellations.frames[number], frame.position < unstarted else {
                return false
            }
            endCancelFrame(number)
            answered.hasCancelFrame = true
        case .released?, .echo?: return false
        case nil: return false
        }
        return true
    }

    private mutating func takeAll(
        in ranges: [ClosedRange<SerialNumber>],
        _ types: Set<UInt32>?,
        _ unstarted: OutboundPosition,
        into answered: inout AnsweredRequests
    ) {
        guard maySearchOneByOne(ranges, unstarted) else {
            takeIndexed(in: ranges, types, unstarted, into: &answered)
            return
        }
        for range in ranges {
            for number in range { take(number, types, unstarted, into: &answered) }
        }
    }

    /// If false, the ranges are searched in an index: they have many numbers, or the peer has named as many numbers as
    /// there are places since a frame was last written.
    private mutating func maySearchOneByOne(
        _ ranges: [ClosedRange<SerialNumber>],
        _ unstarted: OutboundPosition
    ) -> Bool {
        if lookups.unstarted != unstarted { lookups = Lookups(unstarted: unstarted) }
        let limit = max(64, slots.capacity)
        var named = lookups.count
        for range in ranges where named <= limit {
            let width = range.upperBound - range.lowerBound
            named = width < UInt64(limit) ? named + Int(width) + 1 : .max
        }
        visitedCount += ranges.count
        guard named <= limit else { return false }
        visitedCount += named - lookups.count
        lookups.count = named
        return true
    }

    /// Usually the search begins behind the latest acknowledgement. So all searches together pass each number once.
    private mutating func takeThrough(
        _ serial: SerialNumber,
        _ types: Set<UInt32>?,
        _ unstarted: OutboundPosition,
        into answered: inout AnsweredRequests
    ) {
        if isDrawn {
            self.take(serial, types, unstarted, into: &answered)
            return
        }
        var isComplete = true
        // Numbers that were never used must not be passed one by one.
        let isFar = serial >= acknowledged.first && serial - acknowledged.first > UInt64(max(64, slots.capacity))
        if isFar || acknowledged.isOutOfOrder || acknowledged.types != types {
            isComplete = takeUpTo(serial, types, unstarted, into: &answered)
        } else {
            guard serial >= acknowledged.first, serial < next else { return }
            visitedCount += Int(clamping: serial - acknowledged.first + 1)
            for number in acknowledged.first...serial {
                if let entry = self[number], entry.position >= unstarted { isComplete = false }
                take(number, types, unstarted, into: &answered)
            }
        }
        // Without a sequence, the order of numbers says nothing about the next acknowledgement.
        let isInSequence = isComplete && serial < next && !listsFree
        acknowledged = Acknowledged(first: serial &+ 1, types: types, isOutOfOrder: !isInSequence)
    }

    /// Returns whether all requests that are not younger than `serial` were started.
    private mutating func takeUpTo(
        _ serial: SerialNumber,
        _ types: Set<UInt32>?,
        _ unstarted: OutboundPosition,
        into answered: inout AnsweredRequests
    ) -> Bool {
        let index = takeIndexed(in: ranges(through: serial), types, unstarted, into: &answered)
        if let oldest = index.oldestUnstarted { return age(of: serial) > age(of: oldest) }
        return age(of: serial) >= age(of: index.latest)
    }

    private func ranges(through serial: SerialNumber) -> [ClosedRange<SerialNumber>] {
        // Numbers behind the latest one were used before the end of the range was reached.
        let last = latest
        if serial > last { return [last + 1...serial] }
        let ranges = [range.lowerBound...serial]
        return last < range.upperBound ? ranges + [last + 1...range.upperBound] : ranges
    }

    private var latest: SerialNumber { next == range.lowerBound ? range.upperBound : next - 1 }

    private func age(of number: SerialNumber) -> UInt64 {
        let last = latest
        return number <= last ? last - number : last - range.lowerBound + (range.upperBound - number) + 1
    }
}

// MARK: - Parts

extension InFlightTable {
    package struct NamedRequests: Sendable {
        package struct Request: Sendable {
            let entry: Entry
            let number: SerialNumber
        }

        var requests: [Request] = []
        var hasLate = false
        /// The steps that each such part takes.
        var visitedCount = 0

        var isEmpty: Bool { requests.isEmpty && !hasLate }
    }

    /// If the part names one abandoned request alone, its number is held until `instant` at least, because the server
    /// still works on it. A part for all requests, or a range, says nothing about each.
    mutating func matchAll(
        _ answers: Frame.Answers,
        _ serial: SerialNumber,
        types: Set<UInt32>?,
        before unstarted: OutboundPosition,
        prolongingTo instant: Instant
    ) -> NamedRequests {
        var search = PartSearch(types: types, unstarted: unstarted, prolongation: instant)
        switch answers {
        case .one: break  // see `match`
        case .next(let count):
            search.types = nil
            search.namesOne = count == 1
            if isInOrder { findNext(count, onChannel: serial, &search) }
        case .through:
            guard !isInOrder, range.contains(serial) else { break }
            // Without an order, there are no earlier ones.
            if isDrawn {
                search.namesOne = true
                find(serial, &search)
            } else {
                findIndexed(in: ranges(through: serial), &search)
            }
        case .serials(let ranges): if !isInOrder { findAll(in: Self.disjoint(ranges), &search) }
        case .all: findIndexed(in: [0...SerialNumber.max], &search)
        }
        search.found.requests.sort { $0.entry.position < $1.entry.position }
        return search.found
    }

    private struct PartSearch {
        var types: Set<UInt32>?
        let unstarted: OutboundPosition
        let prolongation: Instant
        var namesOne = false
        var found = NamedRequests()
    }

    /// Returns whether the part can belong to the request, or could once a further frame is written.
    @discardableResult
    private mutating func find(_ number: SerialNumber, _ search: inout PartSearch) -> Bool {
        switch slots[number] {
        case .inFlight(let entry)?:
            guard entry.position < search.unstarted, search.types?.contains(entry.type) ?? true else { return false }
            search.found.requests.append(NamedRequests.Request(entry: entry, number: number))
        case .abandoned(let id, let type, let until)?:
            guard search.types?.contains(type) ?? true else { return false }
            if search.namesOne, until < search.prolongation {
                hold(number, of: id, type: type, until: search.prolongation)
            }
            search.found.hasLate = true
        case .cancelFrame?:
            guard search.types == nil else { return false }
            if let frame = cancellations.frames[number], frame.position < search.unstarted {
                search.found.hasLate = true
            }
        case .released?, .echo?: return false
        case nil: return false
        }
        search.found.visitedCount += 1
        return true
    }

    private mutating func findAll(in ranges: [ClosedRange<SerialNumber>], _ search: inout PartSearch) {
        guard maySearchOneByOne(ranges, search.unstarted) else {
            return findIndexed(in: ranges, isNamed: true, &search)
        }
        for range in ranges {
            search.namesOne = range.lowerBound == range.upperBound
            for number in range { find(number, &search) }
        }
    }

    private static func disjoint(_ ranges: [ClosedRange<SerialNumber>]) -> [ClosedRange<SerialNumber>] {
        if zip(ranges, ranges.dropFirst()).allSatisfy({ $0.upperBound < $1.lowerBound }) { return ranges }
        var disjoint: [ClosedRange<SerialNumber>] = []
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = disjoint.last, range.lowerBound <= last.upperBound {
                disjoint[disjoint.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
            } else {
                disjoint.append(range)
            }
        }
        return disjoint
    }

    private mutating func findNext(_ count: Int, onChannel channel: UInt64, _ search: inout PartSearch) {
        guard count > 0, let first = number(of: channel) else { return }
        var rest = count
        if hasChannels {
            let line = channels.lines[channel]?.numbers ?? Deque()
            // At most about half of them have left the table.
            for place in 0..<line.count {
                visitedCount += 1
                guard slots.contains(line[place]) else { continue }
                guard rest > 0, find(line[place], &search) else { return }
                rest -= 1
            }
            return
        }
        if lookups.unstarted != search.unstarted { lookups = Lookups(unstarted: search.unstarted) }
        // Between them there may be many numbers of requests that were never sent.
        let limit = max(64, slots.capacity)
        var number = first
        while rest > 0, number < next, lookups.count <= limit {
            lookups.count += 1
            visitedCount += 1
            if slots.contains(number) {
                guard find(number, &search) else { return }
                rest -= 1
            }
            number += 1
        }
        if rest > 0, number < next { findIndexed(in: [number...SerialNumber.max], atMost: rest, &search) }
    }

    /// For ascending ranges without common numbers. `isNamed`: one of a single number names a request alone.
    private mutating func findIndexed(
        in ranges: [ClosedRange<SerialNumber>],
        atMost most: Int = .max,
        isNamed: Bool = false,
        _ search: inout PartSearch
    ) {
        var index = takeIndex(search.types, search.unstarted)
        var rest = most
        for range in ranges where !index.isEmpty {
            if isNamed { search.namesOne = range.lowerBound == range.upperBound }
            visitedCount += 1
            var start: Int?
            while rest > 0, let place = index.next(in: range, from: start) {
                visitedCount += 1
                start = place + 1
                rest -= 1
                // Answered since the index was made. It must not be passed again.
                if !find(index[place], &search) {
                    index.remove(place)
                    rest += 1
                }
            }
        }
        keep(index)
    }
}

// MARK: - The index

extension InFlightTable {
    /// What is known about the requests that can have been answered, until a further frame is written.
    ///
    /// Until then they only become fewer. So all that a peer sends meanwhile costs one search of all requests for each
    /// set of types, and a binary search for each range. Otherwise each frame that names many serials would search all.
    struct Lookups: EmptyInitializable, Sendable {
        /// No frame from here on had been written.
        var unstarted = OutboundPosition.first
        var count = 0
        var indexes: [StartedIndex] = []

        /// A protocol has few sets of types that are answered together.
        static let maximumIndexes = 8
    }

    /// The numbers of requests, abandoned ones and cancel frames that a response for `types` can have answered.
    struct StartedIndex: Sendable {
        let types: Set<UInt32>?
        let latest: SerialNumber
        fileprivate(set) var oldestUnstarted: SerialNumber?
        /// In ascending order. Those that were taken stay.
        private var numbers: [SerialNumber] = []
        /// For each place in `numbers`, itself, or a later place up to which everything was taken.
        private var following: [Int] = []
        private var remaining = 0

        fileprivate init(_ types: Set<UInt32>?, latest: SerialNumber) { (self.types, self.latest) = (types, latest) }

        fileprivate mutating func fill(_ numbers: [SerialNumber]) {
            self.numbers = numbers.sorted()
            following = Array(0...numbers.count)
            remaining = numbers.count
        }

        var isEmpty: Bool { remaining == 0 }

        fileprivate subscript(place: Int) -> SerialNumber { numbers[place] }

        fileprivate mutating func next(in range: ClosedRange<SerialNumber>, from start: Int?) -> Int? {
            guard remaining > 0 else { return nil }
            let place = firstRemaining(from: start ?? partition(range.lowerBound))
            return place < numbers.count && numbers[place] <= range.upperBound ? place : nil
        }

        fileprivate mutating func remove(_ place: Int) {
            following[place] = place + 1
            remaining -= 1
        }

        private func partition(_ number: SerialNumber) -> Int {
            var (low, high) = (0, numbers.count)
            while low < high {
                let middle = (low + high) / 2
                if numbers[middle] < number { low = middle + 1 } else { high = middle }
            }
            return low
        }

        /// Shortens the way for the next search.
        private mutating func firstRemaining(from place: Int) -> Int {
            var place = place
            while following[place] != place {
                following[place] = following[following[place]]
                place = following[place]
            }
            return place
        }
    }

    @discardableResult
    private mutating func takeIndexed(
        in ranges: [ClosedRange<SerialNumber>],
        _ types: Set<UInt32>?,
        _ unstarted: OutboundPosition,
        into answered: inout AnsweredRequests
    ) -> StartedIndex {
        var index = takeIndex(types, unstarted)
        for range in ranges where !index.isEmpty {
            visitedCount += 1
            var start: Int?
            while let place = index.next(in: range, from: start) {
                visitedCount += 1
                start = place + 1
                index.remove(place)
                take(index[place], types, unstarted, into: &answered)
            }
        }
        keep(index)
        return index
    }

    private mutating func takeIndex(_ types: Set<UInt32>?, _ unstarted: OutboundPosition) -> StartedIndex {
        if lookups.unstarted != unstarted { lookups = Lookups(unstarted: unstarted) }
        guard let place = lookups.indexes.firstIndex(where: { $0.types == types }) else {
            return startedIndex(types, unstarted)
        }
        return lookups.indexes.remove(at: place)
    }

    private mutating func keep(_ index: StartedIndex) {
        if lookups.indexes.count == Lookups.maximumIndexes { lookups.indexes.removeFirst() }
        lookups.indexes.append(index)
    }

    private mutating func startedIndex(_ types: Set<UInt32>?, _ unstarted: OutboundPosition) -> StartedIndex {
        var index = StartedIndex(types, latest: latest)
        var numbers: [SerialNumber] = []
        visitedCount += slots.capacity
        slots.forEach { number, slot in
            switch slot {
            case .inFlight(let entry) where entry.position >= unstarted:
                if index.oldestUnstarted.map({ age(of: $0) < age(of: number) }) ?? true {
                    index.oldestUnstarted = number
                }
            case .inFlight(let entry): if types?.contains(entry.type) ?? true { numbers.append(number) }
            case .abandoned(_, let type, _): if types?.contains(type) ?? true { numbers.append(number) }
            case .cancelFrame: if types == nil { numbers.append(number) }
            case .released, .echo: break
            }
        }
        index.fill(numbers)
        return index
    }
}
