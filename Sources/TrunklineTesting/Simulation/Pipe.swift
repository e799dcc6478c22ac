import Trunkline

/// One direction of a link: the sender's buffer, what is under way, and the receiver's buffer, in one queue.
///
/// The queue holds first the bytes that have arrived, then those under way, then those not sent yet; a packet moves
/// a border and never a byte, so the order of bytes cannot change whatever the packets do.
struct Pipe {
    private var bytes = ByteQueue()
    /// Bytes that the receiver can read.
    private(set) var arrived = 0
    /// Bytes that left the sender and have not arrived.
    private(set) var underWay = 0
    /// Bytes in the sender's buffer.
    var unsent: Int { bytes.count - arrived - underWay }

    private enum Ending { case none, asked, sent, arrived }
    private var ending = Ending.none
    /// After a reset: everything was discarded, and stragglers are ignored.
    private(set) var isBroken = false

    /// No packet arrives before this: packets do not overtake each other.
    private var lastArrival = Instant(nanoseconds: 0)
    /// When everything sent so far has left the sender, where bandwidth is limited.
    private var busyUntil = Instant(nanoseconds: 0)

    /// Whether the sender has ended this direction.
    var isFinished: Bool { ending != .none }
    /// Whether the receiver has read everything and the end is next.
    var isAtEnd: Bool { ending == .arrived && bytes.count == 0 }

    /// How many bytes the sender's buffer takes now.
    func room(_ traits: LinkTraits) -> Int { isBroken ? 0 : max(0, traits.sendBuffer - unsent) }

    mutating func append(_ piece: Slice<UnsafeRawBufferPointer>) { unsafe bytes.append(piece) }

    mutating func finish() {
        if ending == .none { ending = .asked }
    }

    /// The size of the next packet to send; `nil` when there is nothing to send or the window is full.
    mutating func nextPacket(_ traits: LinkTraits, _ random: inout SeededGenerator) -> Int? {
        let most = min(unsent, traits.receiveWindow - arrived - underWay)
        guard most > 0 else { return nil }
        let count = random.part(of: most, probability: traits.fragmentation)
        underWay += count
        return count
    }

    /// Whether the end is to be sent now, after the last byte. True once.
    mutating func endIsDue() -> Bool {
        guard ending == .asked, unsent == 0, !isBroken else { return false }
        ending = .sent
        return true
    }

    /// When a packet of `count` bytes that is sent now arrives.
    mutating func arrival(
        of count: Int,
        sentAt now: Instant,
        _ traits: LinkTraits,
        _ random: inout SeededGenerator
    ) -> Instant {
        var departure = now.nanoseconds
        if let bandwidth = traits.bandwidth {
            departure = max(departure, busyUntil.nanoseconds) + Int64(count) * 1_000_000_000 / bandwidth
            busyUntil = Instant(nanoseconds: departure)
        }
        lastArrival = max(lastArrival, Instant(nanoseconds: departure + random.number(in: traits.latency)))
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
