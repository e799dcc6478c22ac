/// When the frames of one link were encoded and written.
///
/// Every write adds one entry, however many frames it contains. The times of a frame are found by its position in the
/// outbound order. Entries are dropped when no frame that is still of interest needs them: the log does not grow with
/// the age of a request.
package struct WriteLog: Sendable {
    /// The times of one frame.
    package struct Times: Sendable, Hashable {
        /// When the frame was encoded; `nil` if it was not.
        package var encoded: Instant?
        /// When the transport took its first byte; `nil` if it has not.
        package var firstByte: Instant?
        /// When the transport took its last byte; `nil` if it has not.
        package var lastByte: Instant?

        package init() {}
    }

    /// What a write left behind. Every frame before `encoded` was encoded at `instant` or earlier, and so on.
    private struct Entry {
        let instant: Instant
        var encoded, started, written: OutboundPosition
    }

    private var entries: [Entry] = []
    /// The times of the frames of interest that the dropped entries contained.
    private var kept: [OutboundPosition: Times] = [:]
    /// The number of entries at which some are dropped.
    private var limit = Self.minimumLimit

    private static let minimumLimit = 64

    package init() {}

    /// The number of entries, and of frames whose times were kept.
    package var count: Int { entries.count + kept.count }

    /// Whether `dropOld` must be called before the next `note`.
    package var isFull: Bool { entries.count >= limit }

    /// Records the result of a write at `now`: every frame before these positions is encoded, started or written.
    package mutating func note(
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

    /// Drops the older half of the entries. Keeps the times of the frames at `positions`, which are of interest.
    ///
    /// The next call is needed after as many writes as there are such frames, or more.
    package mutating func dropOld(keeping positions: [OutboundPosition]) {
        let half = entries.count / 2
        guard half > 0 else { return }
        let end = entries[half].encoded
        var kept: [OutboundPosition: Times] = [:]
        for position in positions where position < end { kept[position] = times(of: position) }
        self.kept = kept
        entries.removeSubrange(..<half)
        limit = entries.count + max(Self.minimumLimit / 2, positions.count)
    }

    /// The times of the frame at `position`.
    package func times(of position: OutboundPosition) -> Times {
        var times = kept[position] ?? Times()
        times.encoded = times.encoded ?? first { $0.encoded > position }
        times.firstByte = times.firstByte ?? first { $0.started > position }
        times.lastByte = times.lastByte ?? first { $0.written > position }
        return times
    }

    /// The time of the first entry that fulfils `condition`, which all later ones fulfil too.
    private func first(_ condition: (Entry) -> Bool) -> Instant? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if condition(entries[middle]) { high = middle } else { low = middle + 1 }
        }
        return low < entries.count ? entries[low].instant : nil
    }
}
