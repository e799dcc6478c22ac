import Testing

@testable import TrunklineCore

@Suite struct ResponseOrderTests {
    /// Thousands of requests wait for a link and time out together. Each looked through all that were left: 20,000 of
    /// them kept the loop busy for the better part of a minute (in a debug build).
    @Test(.timeLimit(.minutes(5)))
    func manyUnsentRequestsAreGivenUpInReasonableTime() {
        var table = RequestTable<Int>(matching: .inOrder, quarantine: .seconds(60))
        for ticket in 1...60_000 as ClosedRange<Ticket> {
            table.register(ticket, waiter: 0, type: 0, expectsResponse: true, deadline: nil)
            _ = table.admit(ticket, at: ticket)
        }
        for ticket in 1...60_000 as ClosedRange<Ticket> {
            _ = table.cancel(ticket, now: Instant(nanoseconds: 0), hasStarted: { _ in false })
        }
        #expect(table.isEmpty)
        #expect(table.order.places.count < 100)
    }

    @Test func behavesLikeAListFromWhichPlacesAreTaken() {
        for seed in seeds(200) {
            var generator = SeededGenerator(seed: seed)
            var order = ResponseOrder()
            var model: [(ticket: Ticket, position: OutboundPosition)] = []
            var next: UInt64 = 1
            var unstarted: OutboundPosition = 1
            for _ in 0..<300 {
                switch Int.random(in: 0..<8, using: &generator) {
                case 0...2:
                    next += UInt64.random(in: 1...3, using: &generator)
                    order.append(next + 1000, at: next)
                    model.append((next + 1000, next))
                case 3...4:
                    // Only what has not started can be dropped.
                    guard let place = model.filter({ $0.position >= unstarted }).randomElement(using: &generator)
                    else { continue }
                    order.drop(place.position)
                    order.drop(place.position)
                    model.removeAll { $0.position == place.position }
                case 5: unstarted = UInt64.random(in: unstarted...max(unstarted, next), using: &generator)
                case 6:
                    let expected = model.first.flatMap { $0.position < unstarted ? $0.ticket : nil }
                    #expect(order.popFirst(before: unstarted) == expected, "seed \(seed)")
                    if expected != nil { model.removeFirst() }
                default:
                    guard Int.random(in: 0..<10, using: &generator) == 0 else { continue }
                    order.removeAll { $0 < unstarted }
                    model.removeAll { $0.position < unstarted }
                }
            }
            var rest: [Ticket] = []
            while let ticket = order.popFirst(before: .max) { rest.append(ticket) }
            #expect(rest == model.map(\.ticket), "seed \(seed)")
            #expect(order.droppedCount == 0)
        }
    }
}
