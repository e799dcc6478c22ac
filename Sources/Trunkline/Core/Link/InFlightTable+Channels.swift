/// Requests that are matched in order within their channels.
///
/// They have numbers as in a protocol matched in order, and each channel has a line of the numbers of its requests. A
/// channel without requests has none.
extension InFlightTable {
    struct Channels: Sendable {
        var lines: [UInt64: Line] = [:]
        /// The channels of all requests, by their numbers.
        var byNumber: [SerialNumber: UInt64] = [:]
        /// The channels that requests have left since `takeFreed` has looked at them.
        var freed: Set<UInt64> = []
        /// The channels in which a request has timed out since the latest `judgeChannels`.
        var timedOut: Set<UInt64> = []
        /// The number of requests that may be in flight on a channel, abandoned ones included.
        let limit: Int
    }

    struct Line: Sendable {
        /// The numbers of the requests, the oldest first. Those that have left the table may still be among them.
        var numbers = Deque<SerialNumber>()
        /// The number of requests that have not left the table.
        var count = 0
        /// The latest request, if it must be answered before the next one may be sent, and until when, if it is abandoned.
        var holder: (number: SerialNumber, abandonedUntil: Instant?)?
        /// The number of stalls in a row: see `LinkMachine.judge`.
        var stalls = 0
        /// Whether a request waits because of the line.
        var isAwaited = false
    }

    /// Whether requests are matched in order within their channels.
    package var hasChannels: Bool { channels != nil }

    // MARK: Requests

    /// Adds the request with `number`, which was inserted last, to its channel.
    package mutating func note(_ number: SerialNumber, onChannel channel: UInt64, holdsOthers: Bool) {
        channels?.byNumber[number] = channel
        channels?.lines[channel, default: Line()].numbers.append(number)
        channels?.lines[channel]?.count += 1
        if holdsOthers { channels?.lines[channel]?.holder = (number, nil) }
    }

    /// Removes the request with `number`, which has left the table, from its channel.
    mutating func leaveChannel(_ number: SerialNumber) {
        guard let channel = channels?.byNumber.removeValue(forKey: number), let line = channels?.lines[channel] else {
            return
        }
        channels?.freed.insert(channel)
        guard line.count > 1 else {
            channels?.lines[channel] = nil
            return
        }
        channels?.lines[channel]?.count -= 1
        if line.holder?.number == number { channels?.lines[channel]?.holder = nil }
    }

    /// Notes that the request with `number` is abandoned, which holds others until `instant` at most if it holds any.
    package mutating func noteAbandoned(_ number: SerialNumber, isTimeout: Bool, holdingUntil instant: Instant) {
        guard let channel = channels?.byNumber[number] else { return }
        if isTimeout { channels?.timedOut.insert(channel) }
        if channels?.lines[channel]?.holder?.number == number {
            channels?.lines[channel]?.holder?.abandonedUntil = instant
        }
    }

    /// The number of the oldest request of `channel`, including abandoned ones; `nil` if there is none.
    mutating func first(onChannel channel: UInt64) -> SerialNumber? {
        while let number = channels?.lines[channel]?.numbers.first {
            if slots.contains(number) { return number }
            _ = channels?.lines[channel]?.numbers.popFirst()
        }
        return nil
    }

    // MARK: Room

    /// Whether `channel` takes one more request, or a message, now.
    package func takesMore(onChannel channel: UInt64, expectsResponse: Bool) -> Bool {
        guard let channels, let line = channels.lines[channel] else { return true }
        return line.holder == nil && (!expectsResponse || line.count < channels.limit)
    }

    /// Notes that a request waits because `channel` takes none.
    package mutating func noteAwaited(_ channel: UInt64) { channels?.lines[channel]?.isAwaited = true }

    /// Returns a channel that may take more than before, until it is passed to `dropFreed`.
    package var freedChannel: UInt64? { channels?.freed.first }

    /// Forgets that `channel` may take more.
    package mutating func dropFreed(_ channel: UInt64) { channels?.freed.remove(channel) }

    /// Until when the server may answer an abandoned request for which others wait: the earliest of all channels. `nil` if
    /// there is none.
    package func awaitedChannelsUntil() -> Instant? {
        guard abandonedCount > 0, let channels else { return nil }
        var earliest: Instant?
        for line in channels.lines.values where line.isAwaited {
            var until = line.holder?.abandonedUntil
            if until == nil, line.count >= channels.limit, let oldest = oldest(of: line),
                case .abandoned(_, _, let end)? = slots[oldest]
            {
                until = end
            }
            if let until { earliest = min(earliest ?? until, until) }
        }
        return earliest
    }

    private func oldest(of line: Line) -> SerialNumber? {
        for index in 0..<line.numbers.count where slots.contains(line.numbers[index]) { return line.numbers[index] }
        return nil
    }

    // MARK: Judging

    /// Notes that a response to `channel` was received. If every request that was sent before is answered, no response
    /// is missing.
    package mutating func noteAnswered(onChannel channel: UInt64, before unstarted: OutboundPosition) {
        guard let line = channels?.lines[channel], line.stalls > 0 else { return }
        if let first = first(onChannel: channel), let position = self[first]?.position, position >= unstarted {
            channels?.lines[channel]?.stalls = 0
        }
    }

    /// Judges the channels in which requests have timed out since the last call. Returns whether one of them has had
    /// `maximumStalls` stalls in a row.
    package mutating func judgeChannels(before unstarted: OutboundPosition, counts: Bool, maximumStalls: Int?) -> Bool {
        guard let timedOut = channels?.timedOut, !timedOut.isEmpty else { return false }
        channels?.timedOut = []
        guard counts, let maximumStalls else { return false }
        var isSpent = false
        for channel in timedOut where awaitsOnlyAbandoned(onChannel: channel, before: unstarted) {
            let stalls = (channels?.lines[channel]?.stalls ?? 0) + 1
            channels?.lines[channel]?.stalls = stalls
            if stalls >= max(1, maximumStalls) { isSpent = true }
        }
        return isSpent
    }

    private mutating func awaitsOnlyAbandoned(onChannel channel: UInt64, before unstarted: OutboundPosition) -> Bool {
        guard first(onChannel: channel) != nil, let line = channels?.lines[channel] else { return false }
        for index in 0..<line.numbers.count {
            if let entry = self[line.numbers[index]] { return entry.position >= unstarted }
        }
        return true
    }
}
