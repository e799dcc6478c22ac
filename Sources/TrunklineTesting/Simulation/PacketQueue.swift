import TrunklineCore

/// One end of a link: the one that connected or the one that accepted.
enum Side: Int {
    case client, server

    var other: Side { self == .client ? .server : .client }
}

/// What travels over a link.
enum Packet {
    case connect
    case accept
    case refuse(TransportError)
    case data(Int)
    case datagram([UInt8])
    /// Datagrams: no server receives them.
    case unreachable
    case end
    case reset
}

/// What the network does at a certain time.
enum NetworkEvent {
    /// A packet arrives at one side of a link. The link is named and not referenced, so that a closed one is found
    /// missing.
    case arrival(Packet, link: UInt64, at: Side)
    /// A name has been resolved.
    case resolved(@Sendable () -> Void)
    /// Connecting failed on the client's host.
    case connectFailed(TransportError, link: UInt64)
    /// Clients learn of a change of their host's network.
    case change(NetworkChange)
}

/// The future events, in the order of their times; at the same time, in the order in which they were scheduled.
struct PacketQueue {
    private typealias Entry = (time: Instant, order: UInt64, event: NetworkEvent)
    private var heap: [Entry] = []
    private var order: UInt64 = 0

    /// The time of the next event.
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

    /// Removes and returns the next event that is due at `now`.
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
