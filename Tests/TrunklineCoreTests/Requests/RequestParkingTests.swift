import Testing

@testable import TrunklineCore

/// The queue of requests that wait for their channels, compared with a list.
@Suite struct RequestParkingTests {}

extension RequestParkingTests {
    @Test func everyRequestGoesInTheOrderOfItsChannel() {
        for seed in seeds(300) {
            var random = SeededGenerator(seed: seed)
            var queue = RequestQueue()
            var (model, turns) = ([(id: RequestID, channel: UInt64)](), [RequestID: Int]())
            var (last, session) = (UInt64(0), SessionID(1))
            // Nothing has left the channels of a new link yet.
            var isNew = true
            for _ in 0..<300 {
                switch Int.random(in: 0..<10, using: &random) {
                case 0...3:
                    last += 1
                    let channel = UInt64.random(in: 1...4, using: &random)
                    turns[RequestID(last)] = queue.append(request(last, channel))
                    model.append((RequestID(last), channel))
                case 4...6:
                    let open: Set<UInt64> = Set((1...4).filter { _ in Bool.random(using: &random) })
                    queue.beginParking(on: session)
                    var popped: QueuedRequest?
                    for channel in open.sorted() where popped == nil && !isNew {
                        popped = queue.popParked(channel) { _ in true }
                    }
                    isNew = false
                    if popped == nil {
                        popped = queue.popFirst(
                            channel: { UInt64($0.type) },
                            mayGo: { channel, _ in open.contains(channel) }
                        )
                    }
                    guard let popped else {
                        #expect(!model.contains { open.contains($0.channel) }, "seed \(seed)")
                        continue
                    }
                    let channel = UInt64(popped.frame.type)
                    #expect(open.contains(channel), "seed \(seed)")
                    #expect(model.first { $0.channel == channel }?.id == popped.id, "seed \(seed)")
                    model.removeAll { $0.id == popped.id }
                case 7:
                    guard let victim = model.randomElement(using: &random) else { continue }
                    #expect(queue.waiting(turns[victim.id]!, id: victim.id)?.id == victim.id, "seed \(seed)")
                    #expect(queue.remove(turns[victim.id]!, id: victim.id)?.id == victim.id, "seed \(seed)")
                    #expect(queue.remove(turns[victim.id]!, id: victim.id) == nil, "seed \(seed)")
                    model.removeAll { $0.id == victim.id }
                case 8: (session, isNew) = (SessionID(session.number + 1), true)
                default: #expect(queue.waiting.map(\.id) == model.map(\.id), "seed \(seed)")
                }
                #expect(queue.waitingCount == model.count, "seed \(seed)")
                #expect(queue.hasWaiting != model.isEmpty, "seed \(seed)")
            }
            #expect(queue.removeAll().map(\.id) == model.map(\.id), "seed \(seed)")
            #expect(queue.waitingBytes == 0 && !queue.hasWaiting, "seed \(seed)")
        }
    }

    /// A link has returned requests while others wait for its channels.
    @Test func returnedRequestsGoFirst() {
        var queue = RequestQueue()
        for id in 1...3 as ClosedRange<UInt64> { queue.append(request(id, 1)) }
        queue.beginParking(on: 1)
        #expect(queue.popFirst(channel: { _ in 1 }, mayGo: { _, _ in false }) == nil)
        let turn = queue.prepend(request(9, 1))
        #expect(queue.popFirst(channel: { _ in 1 }, mayGo: { _, _ in true }) == nil, "it would pass those before it")
        #expect(queue.waiting(turn, id: 9)?.id == 9)
        queue.beginParking(on: 2)
        #expect(queue.popFirst(channel: { _ in 1 }, mayGo: { _, _ in true })?.id == 9)
    }

    /// Regression: the place of a request that had been cancelled stayed in the line of its channel. On the next link the
    /// requests behind it waited for a channel that was free.
    @Test func aCancelledRequestDoesNotHoldItsChannelOnTheNextLink() {
        var queue = RequestQueue()
        let turns = (1...2).map { queue.append(request($0, 1)) }
        queue.beginParking(on: 1)
        #expect(queue.popFirst(channel: { _ in 1 }, mayGo: { _, _ in false }) == nil)
        #expect(queue.remove(turns[1], id: 2)?.id == 2)
        #expect(queue.popParked(1) { _ in true }?.id == 1)
        queue.append(request(3, 1))
        queue.beginParking(on: 2)
        #expect(queue.popFirst(channel: { _ in 1 }, mayGo: { _, _ in true })?.id == 3)
    }

    private func request(_ id: UInt64, _ channel: UInt64) -> QueuedRequest {
        QueuedRequest(id: RequestID(id), frame: Frame(.request, type: UInt32(channel)), expectsResponse: true)
    }
}
