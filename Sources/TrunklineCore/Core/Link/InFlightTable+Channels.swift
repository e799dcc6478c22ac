/// Requests that are matched in order within their channels.
///
/// They have numbers as in a protocol matched in order, and each channel has a line of the numbers of its requests. A
/// channel without requests has none.
extension InFlightTable {
    struct Channels: EmptyInitializable, Sendable {
        var lines: [UInt64: Line] = [:]
        /// The channels of all requests, by their numbers.
        var byNumber: [SerialNumber: UInt64] = [:]
        /// The channels that requests have left since `dropFreed`, in this order, each once.
        var freed = Deque<UInt64>()
        var isFreed: Set<UInt64> = []
        /// The channels for which requests wait.
        var awaited: Set<UInt64> = []
        /// The channels in which a request has timed out since the latest `judgeChannels`.
        var timedOut: Set<UInt64> = []
        /// The number of requests that may be in flight on a channel, abandoned ones included.
        var limit = Int.max
    }

    struct Line: Sendable {
        /// The numbers of the requests, the oldest first. Those that have left the table may still be among them.
        var numbers = Deque<SerialNumber>()
        /// The number of requests that have not left the table.
        var count = 0
        /// The number of abandoned ones among them.
        var abandonedCount = 0
        /// The latest request, if it must be answered before the next one may be sent, and until when, if it is abandoned.
        var holder: (number: SerialNumber, abandonedUntil: Instant?)?
        /// The number of stalls in a row: see `LinkMachine.judge`.
        var stalls = 0
    }

    // MARK: Requests

    /// Adds the request with `number`, which was inserted last, to its channel.
    package mutating func note(_ number: SerialNumber, onChannel channel: UInt64, holdsOthers: Bool) {
        channels.byNumber[number] = channel
        channels.lines[channel, default: Line()].numbers.append(number)
        channels.lines[channel]?.count += 1
        if holdsOthers { channels.lines[channel]?.holder = (number, nil) }
    }

    /// Removes the request with `number`, which has left the table, from its channel.
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

    /// Notes that the request with `number` is abandoned, which holds others until `instant` at most if it holds any.
    package mutating func noteAbandoned(_ number: SerialNumber, isTimeout: Bool, holdingUntil instant: Instant) {
        guard let channel = channels.byNumber[number] else { return }
        channels.lines[channel]?.abandonedCount += 1
        if isTimeout { channels.timedOut.insert(channel) }
        if channels.lines[channel]?.holder?.number == number {
            channels.lines[channel]?.holder?.abandonedUntil = instant
        }
    }

    /// The number of the oldest request of `channel`, including abandoned ones; `nil` if there is none.
    mutating func first(onChannel channel: UInt64) -> SerialNumber? {
        while let number = channels.lines[channel]?.numbers.first {
            if slots.contains(number) { return number }
            _ = channels.lines[channel]?.numbers.popFirst()
        }
        return nil
    }

    // MARK: Room

    /// Whether `channel` takes one more request, or a message, now.
    package func takesMore(onChannel channel: UInt64, expectsResponse: Bool) -> Bool {
        guard let line = channels.lines[channel] else { return true }
        return line.holder == nil && (!expectsResponse || line.count < channels.limit)
    }

    /// Notes that a request waits because `channel` takes none.
    package mutating func noteAwaited(_ channel: UInt64) { channels.awaited.insert(channel) }

    /// Forgets the channels for which no request waits any more.
    package mutating func dropAwaited(unless isAwaited: (UInt64) -> Bool) {
        guard !channels.awaited.isEmpty else { return }
        let awaited = channels.awaited.filter(isAwaited)
        channels.awaited = awaited
    }

    /// Returns the channel that may take more than before for the longest time, until `dropFreed`.
    package var freedChannel: UInt64? { channels.freed.first }

    /// Forgets that `freedChannel` may take more.
    package mutating func dropFreed() {
        if let channel = channels.freed.popFirst() { channels.isFreed.remove(channel) }
    }

    /// Until when the server may answer an abandoned request for which others wait: the earliest of all channels. `nil` if
    /// there is none.
    package mutating func awaitedChannelsUntil() -> Instant? {
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

    /// Notes that a response to `channel` was received. If every request that was sent before is answered, no response
    /// is missing.
    package mutating func noteAnswered(onChannel channel: UInt64, before unstarted: OutboundPosition) {
        guard let line = channels.lines[channel], line.stalls > 0 else { return }
        if let first = first(onChannel: channel), let position = self[first]?.position, position >= unstarted {
            channels.lines[channel]?.stalls = 0
        }
    }

    /// Judges the channels in which requests have timed out since the last call. If one of them has had `maximumStalls`
    /// stalls in a row, returns their number.
    package mutating func judgeChannels(counts: Bool, maximumStalls: Int?) -> Int? {
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
