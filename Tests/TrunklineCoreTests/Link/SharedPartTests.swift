import Testing

@testable import TrunklineCore

/// Parts that belong to several requests, compared with a model that searches all requests.
@Suite struct SharedPartTests {}

extension SharedPartTests {
    private struct Request {
        let id: RequestID
        let number: SerialNumber
        let type: UInt32
        let channel: UInt64
        let position: OutboundPosition
        var isAbandoned = false
    }

    /// A table and what must be in it.
    private struct Model {
        let matching: ResponseMatching
        let start: SerialNumber
        var table: InFlightTable
        /// In the order of their frames.
        var requests: [Request] = []
        var unstarted = OutboundPosition.first
        private var last: UInt64 = 0
        private var latest: SerialNumber?

        init(_ matching: ResponseMatching, start: SerialNumber) {
            (self.matching, self.start) = (matching, start)
            table = InFlightTable(matching: matching, firstSerial: matching.isInOrder ? nil : start)
        }

        mutating func insert(type: UInt32, channel: UInt64) {
            last += 1
            let (id, position) = (RequestID(last), OutboundPosition.first.advanced(by: Int(last)))
            guard let number = table.insert(id, type: type, at: position) else { return }
            if table.hasChannels { table.note(number, onChannel: channel, holdsOthers: false) }
            requests.append(Request(id: id, number: number, type: type, channel: channel, position: position))
            latest = number
        }

        /// Removes a request of which nothing was written.
        mutating func removeUnsent(_ request: Request) {
            guard request.position >= unstarted else { return }
            let removed =
                table.isInOrder ? table.removeInOrder(at: request.position) : table.remove(request.number)
            #expect(removed?.id == request.id)
            requests.removeAll { $0.id == request.id }
        }

        mutating func abandon(_ request: Request) {
            guard request.position < unstarted, !request.isAbandoned else { return }
            _ = table.abandon(request.number, until: at(1000))
            table.noteAbandoned(request.number, isTimeout: false, holdingUntil: at(1000))
            for index in requests.indices where requests[index].id == request.id { requests[index].isAbandoned = true }
        }

        /// Answers `request` or, matched in order, the oldest one of its channel.
        mutating func answer(_ request: Request) {
            let first = table.isInOrder ? line(request.channel).first : request
            guard let first else { return }
            let key = table.hasChannels ? request.channel : request.number
            switch table.takeAnswered(key, before: unstarted) {
            case .request(let id, _): #expect(id == first.id && first.position < unstarted && !first.isAbandoned)
            case .late(let id, _): #expect(id == first.id && first.isAbandoned)
            default:
                #expect(first.position >= unstarted)
                return
            }
            requests.removeAll { $0.id == first.id }
        }

        /// The requests among which a channel has its order.
        private func line(_ channel: UInt64) -> [Request] {
            table.hasChannels ? requests.filter { $0.channel == channel } : requests
        }

        /// The requests to which a part belongs.
        func named(_ answers: Frame.Answers, _ request: Request, _ types: Set<UInt32>?) -> [Request] {
            let started = requests.filter { $0.position < unstarted }
            let ofTypes = started.filter { types?.contains($0.type) ?? true }
            switch answers {
            case .all: return ofTypes
            case .next(let count) where table.isInOrder:
                return Array(line(request.channel).prefix { $0.position < unstarted }.prefix(max(0, count)))
            case .through where !table.isInOrder: return ofTypes.filter { age($0.number) >= age(request.number) }
            case .serials(let ranges) where !table.isInOrder:
                return ofTypes.filter { request in ranges.contains { $0.contains(request.number) } }
            default: return []
            }
        }

        private func age(_ number: SerialNumber) -> UInt64 {
            guard case .serial(let range) = matching else { return 0 }
            let latest = latest ?? (start == range.lowerBound ? range.upperBound : start - 1)
            return number <= latest
                ? latest - number : latest - range.lowerBound + (range.upperBound - number) + 1
        }
    }

    /// Ranges that overlap, are huge, in any order, or name serials that were never used; parts among responses,
    /// abandoned requests, and requests that were never sent.
    @Test func everyPartReachesTheRequestsOfTheModelOnce() {
        for seed in seeds(400) {
            var random = SeededGenerator(seed: seed)
            let range = [1...SerialNumber.max, 0...400, 0xFFFF_FF00...0xFFFF_FFFF].randomElement(using: &random)!
            let matching: ResponseMatching = [.serial(range), .serial(range), .inOrder, .inOrderByChannel]
                .randomElement(using: &random)!
            let start = [range.lowerBound, range.upperBound - 20].randomElement(using: &random)!
            var model = Model(matching, start: start)
            for _ in 0..<300 {
                let some = model.requests.randomElement(using: &random)
                switch Int.random(in: 0..<12, using: &random) {
                case 0..<4 where model.requests.count < 100:
                    model.insert(type: .random(in: 1...3, using: &random), channel: .random(in: 1...3, using: &random))
                    continue
                case 4:
                    model.unstarted = max(model.unstarted, some?.position.advanced(by: 1) ?? model.unstarted)
                    continue
                case 5:
                    if let some { model.abandon(some) }
                    continue
                case 6:
                    if let some { model.answer(some) }
                    continue
                case 7:
                    if let some { model.removeUnsent(some) }
                    continue
                default: break
                }
                guard let some else { continue }
                let types: Set<UInt32>? = [nil, [1], [2, 3], []].randomElement(using: &random)!
                let answers: Frame.Answers
                switch Int.random(in: 0..<5, using: &random) {
                case 0: answers = .all
                case 1: answers = .through
                case 2: answers = .next(.random(in: -1...6, using: &random))
                default:
                    var ranges: [ClosedRange<SerialNumber>] = []
                    for _ in 0..<Int.random(in: 0...6, using: &random) {
                        let numbers = [some, model.requests.randomElement(using: &random)!].map(\.number)
                        let ends = Bool.random(using: &random) ? numbers : [numbers[0], numbers[0]]
                        ranges.append(ends.min()!...ends.max()!)
                    }
                    if Int.random(in: 0..<9, using: &random) == 0 { ranges.append(0...SerialNumber.max) }
                    answers = .serials(ranges)
                }
                let named = model.named(answers, some, types)
                let found = model.table.matchAll(
                    answers,
                    model.table.hasChannels ? some.channel : some.number,
                    types: types,
                    before: model.unstarted,
                    prolongingTo: at(1000)
                )
                let note = Comment(rawValue: "seed \(seed), \(answers)")
                #expect(found.requests.map(\.entry.id) == named.filter { !$0.isAbandoned }.map(\.id), note)
                #expect(found.requests.map(\.number) == named.filter { !$0.isAbandoned }.map(\.number), note)
                #expect(found.hasLate == named.contains(where: \.isAbandoned), note)
                #expect(found.visitedCount == named.count, note)
                #expect(model.table.count == model.requests.count { !$0.isAbandoned }, note)
                #expect(model.table.heldCount == model.requests.count, note)
            }
        }
    }

    /// A part that names one request alone: the server still works on it. Regression: a server that sent its status to
    /// all requests held the place of each abandoned one for ever.
    @Test(
        arguments: [
            (Frame.Answers.all, false), (.through, false), (.serials([1...1]), true), (.serials([3...9, 1...1]), true),
            (.serials([1...2]), false), (.serials([0...SerialNumber.max]), false), (.serials([1...1, 1...1]), true),
        ]
    )
    func onlyAPartThatNamesItAloneProlongsTheQuarantineOfARequest(_ answers: Frame.Answers, prolongs: Bool) {
        var table = InFlightTable(matching: .serial(1...100))
        _ = table.insert(RequestID(1), type: 1, at: .first)
        _ = table.abandon(1, until: at(10))
        for second in [5, 9] as [Double] {
            let found = table.matchAll(answers, 1, types: nil, before: .max, prolongingTo: at(second + 10))
            #expect(found.requests.isEmpty && found.hasLate && found.visitedCount == 1)
        }
        table.endQuarantine(at: at(9.9))
        #expect(table.heldCount == 1)
        table.endQuarantine(at: at(18))
        #expect(table.heldCount == (prolongs ? 1 : 0))
        table.endQuarantine(at: at(19))
        #expect(table.heldCount == 0)
    }

    // MARK: Hostile parts

    /// Returns a table with `count` requests of the type 1, of which `started` were started, and the first position
    /// that was not.
    private func table(of count: Int, started: Int, _ matching: ResponseMatching) -> (InFlightTable, OutboundPosition) {
        var table = InFlightTable(matching: matching)
        for number in 0..<count {
            _ = table.insert(RequestID(UInt64(number + 1)), type: 1, at: .first.advanced(by: number))
        }
        return (table, .first.advanced(by: started))
    }

    /// At most one search of all requests, and then a few steps for each range and for each request that receives the
    /// part, or was abandoned. The steps for the latter were not counted, so a link did not leave further parts for the
    /// next turn.
    @Test(arguments: [0, 5000, 10_000], [0, 1000, 10_000])
    func noPartCostsMoreThanItNamesAndReaches(started: Int, abandoned: Int) {
        var (full, unstarted) = table(of: 10_000, started: started, .serial(1...SerialNumber.max))
        let abandoned = min(started, abandoned)
        for number in 0..<abandoned { _ = full.abandon(SerialNumber(number + 1), until: at(1000)) }
        let far = SerialNumber(1 << 40)
        let limit = SerialNumber(Frame.Answers.maximumRanges)
        let nested = (0..<limit).map { far + $0...SerialNumber.max - $0 }
        let apart = (0..<limit).map { far + 2 * $0...far + 2 * $0 }
        let some = (0..<limit).map { 1 + $0 % 10_000...10_000 }
        for types in [nil, [2]] as [Set<UInt32>?] {
            for (answers, serial, count) in [
                (.serials(nested), 0, 3), (.serials(apart.reversed()), 0, 3), (.serials(some.reversed()), 0, 3),
                (.serials(Array(repeating: 1...1, count: Int(limit))), 0, 3), (.serials([7000...7000]), 0, 10_000),
                (.serials([far...SerialNumber.max]), 0, 10_000), (.all, 0, 20), (.through, 10_000, 20),
                (.through, 3, 10_000), (.through, far, 20), (.serials([5001...9000]), 0, 20),
            ] as [(Frame.Answers, SerialNumber, Int)] {
                var table = full
                let before = table.visitedCount
                var reached = 0
                for _ in 0..<count {
                    let found = table.matchAll(answers, serial, types: types, before: unstarted, prolongingTo: at(9))
                    reached += found.visitedCount
                }
                let ranges = if case .serials(let ranges) = answers { ranges.count } else { 1 }
                let visited = table.visitedCount - before
                #expect(visited <= 3 * full.capacity + 2 * (count * ranges + reached), "\(serial) \(ranges) \(count)")
                #expect(table.count == 10_000 - abandoned)
            }
        }
    }

    /// Requests that were answered one by one leave the index, so that later parts do not pass them.
    @Test func answeredRequestsArePassedOnce() {
        var (table, unstarted) = table(of: 10_000, started: 10_000, .serial(1...SerialNumber.max))
        let capacity = table.capacity
        let found = table.matchAll(.all, 0, types: nil, before: unstarted, prolongingTo: at(9))
        #expect(found.requests.count == 10_000)
        for number in 1...9_999 as ClosedRange<SerialNumber> { _ = table.takeAnswered(number, before: unstarted) }
        let before = table.visitedCount
        for _ in 0..<10_000 {
            let found = table.matchAll(.all, 0, types: nil, before: unstarted, prolongingTo: at(9))
            #expect(found.requests.map(\.number) == [10_000])
        }
        #expect(table.visitedCount - before <= 3 * capacity + 4 * 10_000)
    }

    /// Matched in order, there may be many numbers of requests between them that were never sent.
    @Test func gapsArePassedOnce() {
        var (table, _) = table(of: 10_000, started: 0, .inOrder)
        let capacity = table.capacity
        for number in 1..<9_999 {
            let removed = table.removeInOrder(at: .first.advanced(by: number))
            #expect(removed != nil)
        }
        let before = table.visitedCount
        for _ in 0..<10_000 {
            let found = table.matchAll(.next(3), 0, types: nil, before: .max, prolongingTo: at(9))
            #expect(found.requests.map(\.number) == [1, 10_000])
        }
        #expect(table.visitedCount - before <= 3 * capacity + 5 * 10_000)
    }
}
