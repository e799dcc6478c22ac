import TrunklineCore

/// One direction of a link: the sender's buffer, the bytes in transit, and the receiver's buffer, in one queue.
///
/// The queue holds the bytes that have arrived, then those in transit, then those not sent yet. A packet moves a border
/// and never a byte, so the order of bytes cannot change.
struct Pipe {
    private var bytes = ByteQueue()
    /// The number of bytes that the receiver can read.
    private(set) var arrived = 0
    /// The number of bytes that have left the sender and not arrived.
    private(set) var underWay = 0
    /// The number of bytes in the sender's buffer.
    var unsent: Int { bytes.count - arrived - underWay }

    private enum Ending { case none, asked, sent, arrived }
    private var ending = Ending.none
    /// Whether the pipe was reset: everything was discarded, and packets in transit are ignored.
    private(set) var isBroken = false

    /// The earliest time at which a packet may arrive: packets do not overtake each other.
    private var lastArrival = Instant(nanoseconds: 0)
    /// The time at which everything sent so far has left the sender, if bandwidth is limited.
    private var busyUntil = Instant(nanoseconds: 0)

    /// Whether the sender has ended this direction.
    var isFinished: Bool { ending != .none }
    /// Whether the receiver has read everything and the end comes next.
    var isAtEnd: Bool { ending == .arrived && bytes.count == 0 }

    /// How many bytes the sender's buffer accepts now.
    func room(_ traits: LinkTraits) -> Int { isBroken ? 0 : max(0, traits.sendBuffer - unsent) }

    mutating func append(_ piece: Slice<UnsafeRawBufferPointer>) { unsafe bytes.append(piece) }

    mutating func finish() {
        if ending == .none { ending = .asked }
    }

    /// The size of the next packet, or `nil` if there is nothing to send or the window is full.
    mutating func nextPacket(_ traits: LinkTraits, _ random: inout SeededGenerator) -> Int? {
        let most = min(unsent, traits.receiveWindow - arrived - underWay)
        guard most > 0 else { return nil }
        let count = random.part(of: most, probability: traits.fragmentation)
        underWay += count
        return count
    }

    /// Whether the end must be sent now, after the last byte. Returns true once.
    mutating func endIsDue() -> Bool {
        guard ending == .asked, unsent == 0, !isBroken else { return false }
        ending = .sent
        return true
    }

    /// The arrival time of a packet of `count` bytes that is sent now.
    mutating func arrival(
        of count: Int,
        sentAt now: Instant,
        _ traits: LinkTraits,
        _ random: inout SeededGenerator
    ) -> Instant {
        var departure = now
        if let bandwidth = traits.bandwidth {
            departure = max(departure, busyUntil).advanced(by: .nanoseconds(Int64(count) * 1_000_000_000 / bandwidth))
            busyUntil = departure
        }
        lastArrival = max(lastArrival, departure.advanced(by: .nanoseconds(random.number(in: traits.latency))))
        return lastArrival
    }

    mutating func arrive(_ count: Int) {
        guard !isBroken else { return }
        arrived += count
        underWay -= count
    }

    mutating func endArrives() { ending = .arrived }

    mutating func read(_ count: Int, into buffer: UnsafeMutableRawBufferPointer) {
        unsafe bytes.take(count, into: buffer)
        arrived -= count
    }

    /// Discards everything, sent or not.
    mutating func tearDown() {
        isBroken = true
        bytes.removeAll()
        arrived = 0
        underWay = 0
    }
}
