import Testing

@testable import TrunklineCore

/// Responses that answer several requests, compared with a model that searches all requests.
@Suite struct AcknowledgementTests {}

extension AcknowledgementTests {
    private struct Request {
        let id: RequestID
        let number: SerialNumber
        let type: UInt32
        let position: OutboundPosition
        var isAbandoned = false
    }

    @Test func everyAcknowledgementTakesTheRequestsOfTheModel() {
        for seed in seeds(300) {
            var random = SeededGenerator(seed: seed)
            let isInOrder = seed % 4 == 0
            // No request outlasts a round through all numbers.
            let count = [400, UInt64(UInt32.max)].randomElement(using: &random)!
            let range = SerialNumber(50)...(49 + count)
            var table = InFlightTable(
                matching: isInOrder ? .inOrder : .serial(range),
                firstSerial: isInOrder ? nil : range.upperBound - 7
            )
            var (requests, last) = ([Request](), UInt64(0))
            var unstarted = OutboundPosition.first
            for _ in 0..<300 {
                if requests.count < 8 || Int.random(in: 0..<2, using: &random) == 0, requests.count * 2 < count {
                    last += 1
                    let (id, type) = (RequestID(last), UInt32.random(in: 1...2, using: &random))
                    let position = OutboundPosition.first.advanced(by: Int(last))
                    guard let number = table.insert(id, type: type, at: position) else { continue }
                    requests.append(Request(id: id, number: number, type: type, position: position))
                    if Bool.random(using: &random) {
                        unstarted = position.advanced(by: Int.random(in: 0...1, using: &random))
                    }
                    continue
                }
                let started = requests.filter { $0.position < unstarted }
                if Int.random(in: 0..<4, using: &random) == 0, let request = started.randomElement(using: &random) {
                    _ = table.abandon(request.number, until: at(1000))
                    requests[requests.firstIndex { $0.id == request.id }!].isAbandoned = true
                    continue
                }
                let types: Set<UInt32>? = Int.random(in: 0..<3, using: &random) == 0 ? [1] : nil
                let serial = requests.randomElement(using: &random)?.number ?? range.lowerBound
                var (answers, expected) = (Frame.Answers.all, started)
                switch Int.random(in: 0..<8, using: &random) {
                case 0..<4 where !isInOrder:
                    answers = .through
                    // The latest request is the one with the highest ID, so their order is that of the numbers.
                    let latest = requests.first { $0.number == serial }.map(\.id) ?? RequestID(0)
                    expected = started.filter { $0.id <= latest }
                case 4..<7 where !isInOrder:
                    let end = min(range.upperBound, serial + UInt64.random(in: 0...30, using: &random))
                    answers = .serials([serial...end, 0...0])
                    expected = started.filter { (serial...end).contains($0.number) }
                case 0..<7 where isInOrder:
                    let count = Int.random(in: -1...5, using: &random)
                    answers = .next(count)
                    expected = Array(started.prefix(max(0, count)))
                default: break
                }
                if case .next = answers {
                } else if let types {
                    expected = expected.filter { types.contains($0.type) }
                }
                let taken = table.takeAnswered(answers, serial, types: types, before: unstarted)
                #expect(
                    taken.requests.map(\.id) == expected.filter { !$0.isAbandoned }.map(\.id),
                    "seed \(seed), \(answers)"
                )
                #expect(
                    Set(taken.late.map(\.id)) == Set(expected.filter(\.isAbandoned).map(\.id)),
                    "seed \(seed), \(answers)"
                )
                requests.removeAll { request in expected.contains { $0.id == request.id } }
                #expect(table.count == requests.count { !$0.isAbandoned } && table.heldCount == requests.count)
            }
        }
    }

    /// A server that acknowledges one message at a time must not cost a search of all.
    @Test func aCumulativeAcknowledgementPassesEachNumberOnce() {
        var table = InFlightTable(matching: .serial(1...SerialNumber.max))
        for number in 1...65_536 as ClosedRange<UInt64> {
            _ = table.insert(RequestID(number), type: 0, at: .first.advanced(by: Int(number)))
        }
        for serial in 1...65_536 as ClosedRange<SerialNumber> {
            #expect(table.takeAnswered(.through, serial, types: nil, before: .max).requests.map(\.serial) == [serial])
        }
        #expect(table.count == 0)
    }

    // MARK: Hostile acknowledgements

    /// Ranges that overlap, are huge, in descending order, or name serials that were never used; several responses between
    /// two written frames; few requests that hold numbers far apart.
    @Test func anyRangesTakeTheRequestsOfTheModel() {
        for seed in seeds(300) {
            var random = SeededGenerator(seed: seed)
            let range = [1...SerialNumber.max, 0...400, 0xFFFF_FF00...0xFFFF_FFFF].randomElement(using: &random)!
            let start = [range.lowerBound, range.upperBound - 20].randomElement(using: &random)!
            var table = InFlightTable(matching: .serial(range), firstSerial: start)
            var (requests, last) = ([Request](), UInt64(0))
            var (unstarted, latest) = (OutboundPosition.first, SerialNumber?.none)
            func number() -> SerialNumber {
                switch Int.random(in: 0..<6, using: &random) {
                case 0: range.lowerBound
                case 1: range.upperBound
                case 2: SerialNumber.random(in: range, using: &random)
                default: requests.randomElement(using: &random)?.number ?? start
                }
            }
            for _ in 0..<200 {
                switch Int.random(in: 0..<8, using: &random) {
                case 0..<4 where requests.count < 100:
                    last += 1
                    let (id, type) = (RequestID(last), UInt32.random(in: 1...3, using: &random))
                    let position = OutboundPosition.first.advanced(by: Int(last))
                    guard let number = table.insert(id, type: type, at: position) else { continue }
                    requests.append(Request(id: id, number: number, type: type, position: position))
                    latest = number
                    continue
                case 4:
                    unstarted = max(unstarted, requests.randomElement(using: &random)?.position ?? unstarted)
                    continue
                case 5:
                    let started = requests.indices.filter { requests[$0].position < unstarted }
                    guard let index = started.randomElement(using: &random) else { continue }
                    if !requests[index].isAbandoned { _ = table.abandon(requests[index].number, until: at(1000)) }
                    requests[index].isAbandoned = true
                    continue
                default: break
                }
                let types: Set<UInt32>? = [nil, [1], [2, 3], []].randomElement(using: &random)!
                let serial = number()
                var (answers, isNamed) = (Frame.Answers.all, { (_: SerialNumber) in true })
                switch Int.random(in: 0..<4, using: &random) {
                case 0: break
                case 1:
                    answers = .through
                    let age = { (number: SerialNumber) -> UInt64 in
                        let latest = latest ?? (start == range.lowerBound ? range.upperBound : start - 1)
                        return number <= latest
                            ? latest - number : latest - range.lowerBound + (range.upperBound - number) + 1
                    }
                    isNamed = { age($0) >= age(serial) }
                default:
                    var ranges: [ClosedRange<SerialNumber>] = []
                    for _ in 0..<Int.random(in: 0...6, using: &random) {
                        let bounds = [number(), Bool.random(using: &random) ? number() : serial]
                        ranges.append(bounds.min()!...bounds.max()!)
                    }
                    if Int.random(in: 0..<9, using: &random) == 0 { ranges.append(0...SerialNumber.max) }
                    ranges.shuffle(using: &random)
                    answers = .serials(ranges)
                    isNamed = { number in ranges.contains { $0.contains(number) } }
                }
                let expected = requests.filter {
                    $0.position < unstarted && isNamed($0.number) && types?.contains($0.type) ?? true
                }
                let taken = table.takeAnswered(answers, serial, types: types, before: unstarted)
                #expect(
                    taken.requests.map(\.id) == expected.filter { !$0.isAbandoned }.map(\.id),
                    "seed \(seed), \(answers) \(serial)"
                )
                #expect(
                    taken.late.map(\.id).sorted() == expected.filter(\.isAbandoned).map(\.id).sorted(),
                    "seed \(seed), \(answers) \(serial)"
                )
                requests.removeAll { request in expected.contains { $0.id == request.id } }
                #expect(table.count == requests.count { !$0.isAbandoned } && table.heldCount == requests.count)
            }
        }
    }

    /// Returns a table with `count` requests of the type 1, of which `started` were started, and the first position that
    /// was not.
    private func table(of count: Int, started: Int) -> (InFlightTable, OutboundPosition) {
        var table = InFlightTable(matching: .serial(1...SerialNumber.max))
        for number in 0..<count {
            _ = table.insert(RequestID(UInt64(number + 1)), type: 1, at: .first.advanced(by: number))
        }
        return (table, .first.advanced(by: started))
    }

    /// Each range, and each number that was never sent, sorted all requests: one frame of 640 KB stopped the loop for 6 s.
    @Test(arguments: [0, 5000, 10_000])
    func noFrameCostsASearchOfAllRequestsForEachRange(started: Int) {
        let (full, unstarted) = table(of: 10_000, started: started)
        let far = SerialNumber(1 << 40)
        let wide = (0..<SerialNumber(Frame.Answers.maximumRanges)).map { far + $0...SerialNumber.max - $0 }
        let some = (0..<SerialNumber(Frame.Answers.maximumRanges)).map { 1 + $0 % 10_000...10_000 }
        let unsent = (Frame.Answers.through, far)
        for types in [nil, [2]] as [Set<UInt32>?] {
            // At most one search of all places, and a few steps for each range or response, and for each request.
            for (answers, serial, count) in [
                (.serials(wide), 0, 1), (.serials(some.reversed()), 0, 1),
                (.serials([0...SerialNumber.max]), 0, 10_000),
                (.all, 0, 10_000), (unsent.0, unsent.1, 10_000), (.through, 10_000, 10_000),
                (.serials([1...10_000]), 0, 10_000), (.serials([5001...9000]), 0, 10_000),
            ] as [(Frame.Answers, SerialNumber, Int)] {
                var table = full
                let before = table.visitedCount
                for _ in 0..<count { _ = table.takeAnswered(answers, serial, types: types, before: unstarted) }
                let ranges = if case .serials(let ranges) = answers { ranges.count } else { 1 }
                let visited = table.visitedCount - before
                #expect(visited <= 3 * full.capacity + 2 * count * ranges, "\(answers == .all) \(serial) \(ranges)")
            }
        }
    }

    /// The same for responses that answer something: together they search once, and then pass what they answer.
    @Test func responsesThatNameMuchPassEachRequestOnce() {
        let (full, unstarted) = table(of: 10_000, started: 10_000)
        for isDescending in [false, true] {
            var table = full
            for number in 1...10_000 as ClosedRange<SerialNumber> {
                let serial = isDescending ? 10_001 - number : number
                let ranges = isDescending ? [serial...SerialNumber.max] : [0...serial]
                let taken = table.takeAnswered(.serials(ranges), 0, types: nil, before: unstarted)
                #expect(taken.requests.map(\.serial) == [serial])
            }
            #expect(table.count == 0 && table.visitedCount <= 3 * full.capacity + 4 * 10_000)
        }
    }
}
