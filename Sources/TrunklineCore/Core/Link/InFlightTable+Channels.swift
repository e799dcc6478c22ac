/// Requests that are matched in order within their channels. Each channel with requests has a line of their numbers.
extension InFlightTable {
    struct Channels: EmptyInitializable, Sendable {
        var lines: [UInt64: Line] = [:]
        var byNumber: [SerialNumber: UInt64] = [:]
        /// The channels that requests have left since `dropFreed`, in this order, each once.
        var freed = Deque<UInt64>()
        var isFreed: Set<UInt64> = []
        var awaited: Set<UInt64> = []
        /// The channels in which a request has timed out since the latest `judgeChannels`.
        var timedOut: Set<UInt64> = []
        /// Abandoned requests included.
        var limit = Int.max
    }

    struct Line: Sendable {
        /// The oldest first. Those that have left the table may still be among them.
        var numbers = Deque<SerialNumber>()
        var count = 0
        var abandonedCount = 0
        /// The latest request, if it must be answered before the next one may be sent.
        var holder: (number: SerialNumber, abandonedUntil: Instant?)?
        /// The number of stalls in a row: see `LinkMachine.judge`.
        var stalls = 0
    }

    // MARK: Requests

    mutating func note(_ number: SerialNumber, onChannel channel: UInt64, holdsOthers: Bool) {
        channels.byNumber[number] = channel
        channels.lines[channel, default: Line()].numbers.append(number)
        channels.lines[channel]?.count += 1
        if holdsOthers { channels.lines[channel]?.holder = (number, nil) }
    }

    mutating func leaveChannel(_ number: SerialNumber, wasAbandoned: Bool) {
        guard let channel = channels.byNumber.removeValue(forKey: number), let count = channels.lines[channel]?.count
        else { return }
        if channels.isFreed.insert(channel).inserted { channels.freed.append(channel) }
        guard count > 1 else {
            channels.lines[channel] = nil
            return
        }
        channels.lines[channel]?.count -= 1
        if wasAbandoned { channels.lines[channel]?.abandonedCount -= 1 }
        if channels.lines[channel]?.holder?.number == number { channels.lines[channel]?.holder = nil }
        // Otherwise the numbers of requests that were never sent would stay behind one that is not answered.
        if let kept = channels.lines[channel]?.numbers.count, kept > 2 * count + 64 {
            let slots = slots
            channels.lines[channel]?.numbers.removeAll { !slots.contains($0) }
        }
    }

    mutating func noteAbandoned(_ number: SerialNumber, isTimeout: Bool, holdingUntil instant: Instant) {
        guard let channel = channels.byNumber[number] else { return }
        channels.lines[channel]?.abandonedCount += 1
        if isTimeout { channels.timedOut.insert(channel) }
        if channels.lines[channel]?.holder?.number == number {
            channels.lines[channel]?.holder?.abandonedUntil = instant
        }
    }

    /// Including abandoned requests.
    mutating func first(onChannel channel: UInt64) -> SerialNumber? {
        while let number = channels.lines[channel]?.numbers.first {
            if slots.contains(number) { return number }
            _ = channels.lines[channel]?.numbers.popFirst()
        }
        return nil
    }

    // MARK: Room

    func takesMore(onChannel channel: UInt64, expectsResponse: Bool) -> Bool {
        guard let line = channels.lines[channel] else { return true }
        return line.holder == nil && (!expectsResponse || line.count < channels.limit)
    }

    mutating func noteAwaited(_ channel: UInt64) { channels.awaited.insert(channel) }

    mutating func dropAwaited(unless isAwaited: (UInt64) -> Bool) {
        guard !channels.awaited.isEmpty else { return }
        let awaited = channels.awaited.filter(isAwaited)
        channels.awaited = awaited
    }

    /// The channel that may take more than before for the longest time, until `dropFreed`.
    var freedChannel: UInt64? { channels.freed.first }

    mutating func dropFreed() {
        if let channel = channels.freed.popFirst() { channels.isFreed.remove(channel) }
    }

    mutating func awaitedChannelsUntil() -> Instant? {
        guard abandonedCount > 0 else { return nil }
        let awaited = channels.awaited
        var earliest: Instant?
        for channel in awaited {
            guard let line = channels.lines[channel], line.abandonedCount > 0 else { continue }
            var until = line.holder?.abandonedUntil
            if until == nil, line.count >= channels.limit, let oldest = first(onChannel: channel),
                case .abandoned(_, _, let end)? = slots[oldest]
            {
                until = end
            }
            if let until { earliest = min(earliest ?? until, until) }
        }
        return earliest
    }

    // MARK: Judging

    /// If every request that was sent before is answered, no response is missing.
    mutating func noteAnswered(onChannel channel: UInt64, before unstarted: OutboundPosition) {
        guard let line = channels.lines[channel], line.stalls > 0 else { return }
        if let first = first(onChannel: channel), let position = self[first]?.position, position >= unstarted {
            channels.lines[channel]?.stalls = 0
        }
    }

    /// Returns the number of stalls in a row of a channel that has had `maximumStalls`.
    mutating func judgeChannels(counts: Bool, maximumStalls: Int?) -> Int? {
        let timedOut = channels.timedOut
        guard !timedOut.isEmpty else { return nil }
        channels.timedOut = []
        guard counts, let maximumStalls else { return nil }
        var most: Int?
        for channel in timedOut {
            guard let line = channels.lines[channel], line.count == line.abandonedCount else { continue }
            let stalls = line.stalls + 1
            channels.lines[channel]?.stalls = stalls
            if stalls >= max(1, maximumStalls) { most = max(most ?? 0, stalls) }
        }
        return most
    }
}
