import Testing

@testable import Trunkline

/// Responses that answer several requests, compared with a model that searches all requests.
@Suite struct AcknowledgementTests {
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
}
