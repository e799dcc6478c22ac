/// When the frames of one link were encoded and written.
///
/// Every write adds one entry, however many frames it contains. Entries that no frame of interest needs are dropped:
/// the log does not grow with the age of a request.
struct WriteLog: Sendable {
    struct Times: Sendable, Hashable {
        var encoded: Instant?
        var firstByte: Instant?
        var lastByte: Instant?

        init() {}
    }

    /// Every frame before `encoded` was encoded at `instant` or earlier, and so on.
    private struct Entry {
        let instant: Instant
        var encoded, started, written: OutboundPosition
    }

    private var entries: [Entry] = []
    private var kept: [OutboundPosition: Times] = [:]
    private var limit = Self.minimumLimit

    private static let minimumLimit = 64

    init() {}

    var count: Int { entries.count + kept.count }

    var isFull: Bool { entries.count >= limit }

    mutating func note(
        encoded: OutboundPosition,
        started: OutboundPosition,
        written: OutboundPosition,
        at now: Instant
    ) {
        var entry = Entry(instant: now, encoded: encoded, started: started, written: written)
        if let last = entries.last {
            // Frames that are encoded again after a removal were encoded before.
            entry.encoded = max(entry.encoded, last.encoded)
            if entry.encoded == last.encoded, entry.started == last.started, entry.written == last.written { return }
        }
        entries.append(entry)
    }

    /// Keeps the times of the frames at `positions`. The next call is needed after at least as many writes.
    mutating func dropOld(keeping positions: [OutboundPosition]) {
        let half = entries.count / 2
        guard half > 0 else { return }
        let end = entries[half].encoded
        var kept: [OutboundPosition: Times] = [:]
        for position in positions where position < end { kept[position] = times(of: position) }
        self.kept = kept
        entries.removeSubrange(..<half)
        limit = entries.count + max(Self.minimumLimit / 2, positions.count)
    }

    func times(of position: OutboundPosition) -> Times {
        var times = kept[position] ?? Times()
        times.encoded = times.encoded ?? first { $0.encoded > position }
        times.firstByte = times.firstByte ?? first { $0.started > position }
        times.lastByte = times.lastByte ?? first { $0.written > position }
        return times
    }

    /// All entries after the first that fulfils `condition` fulfil it too.
    private func first(_ condition: (Entry) -> Bool) -> Instant? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if condition(entries[middle]) { high = middle } else { low = middle + 1 }
        }
        return low < entries.count ? entries[low].instant : nil
    }
}
