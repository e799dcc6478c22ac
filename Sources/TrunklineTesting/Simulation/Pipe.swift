import TrunklineCore

/// One direction of a link. The queue holds the bytes that have arrived, then those in transit, then those not sent
/// yet. A packet moves a border and never a byte, so the order of bytes cannot change.
struct Pipe {
    private var bytes = ByteQueue()
    private(set) var arrived = 0
    private(set) var underWay = 0
    var unsent: Int { bytes.count - arrived - underWay }

    private enum Ending { case none, asked, sent, arrived }
    private var ending = Ending.none
    /// Everything was discarded, and packets in transit are ignored.
    private(set) var isBroken = false

    /// The earliest arrival of the next packet: packets do not overtake each other.
    private var lastArrival = Instant(nanoseconds: 0)
    /// When everything sent so far has left the sender, if bandwidth is limited.
    private var busyUntil = Instant(nanoseconds: 0)

    var isFinished: Bool { ending != .none }
    var isAtEnd: Bool { ending == .arrived && bytes.count == 0 }

    func room(_ traits: LinkTraits) -> Int { isBroken ? 0 : max(0, traits.sendBuffer - unsent) }

    mutating func append(_ piece: Slice<UnsafeRawBufferPointer>) { unsafe bytes.append(piece) }

    mutating func finish() {
        if ending == .none { ending = .asked }
    }

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

    mutating func tearDown() {
        isBroken = true
        bytes.removeAll()
        arrived = 0
        underWay = 0
    }
}
