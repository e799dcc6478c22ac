import TrunklineCore

enum Side: Int {
    case client, server

    var other: Side { self == .client ? .server : .client }
}

enum Packet {
    case connect
    case accept
    case refuse(TransportError)
    case data(Int)
    case datagram([UInt8])
    /// No server receives the datagrams.
    case unreachable
    case end
    case reset
}

/// What the network does at a certain time.
enum NetworkEvent {
    /// The link is named and not referenced, so that a closed one is found missing.
    case arrival(Packet, link: UInt64, at: Side)
    case resolved(@Sendable () -> Void)
    case connectFailed(TransportError, link: UInt64)
    case change(NetworkChange)
}

/// Future events in the order of their times, then in the order in which they were scheduled.
struct PacketQueue {
    private typealias Entry = (time: Instant, order: UInt64, event: NetworkEvent)
    private var heap: [Entry] = []
    private var order: UInt64 = 0

    var next: Instant? { heap.first?.time }

    mutating func push(_ event: NetworkEvent, at time: Instant) {
        order += 1
        heap.append((time, order, event))
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard precedes(child, parent) else { break }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    mutating func popDue(at now: Instant) -> NetworkEvent? {
        guard let first = heap.first, first.time <= now else { return nil }
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in 2 * parent + 1...2 * parent + 2 where child < heap.count && precedes(child, least) {
                least = child
            }
            guard least != parent else { return first.event }
            heap.swapAt(least, parent)
            parent = least
        }
    }

    private func precedes(_ a: Int, _ b: Int) -> Bool {
        (heap[a].time, heap[a].order) < (heap[b].time, heap[b].order)
    }
}
