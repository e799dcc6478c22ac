/// Splits what a child process writes to standard error into lines, and bounds them: their number in a second and their
/// length. A pure value; the time is a parameter.
package struct OutputLines: Sendable {
    /// A line.
    package struct Line: Hashable, Sendable {
        /// The line without its end, escaped.
        package let text: String
        /// The number of lines before this one that were left out.
        package let omitted: Int

        package init(_ text: String, omitted: Int = 0) { (self.text, self.omitted) = (text, omitted) }
    }

    /// The most bytes of a line. What follows is left out, and the line ends with " …".
    package static let maximumLength = 1024
    /// The most lines in a second. Further ones are counted, and the last of them are reported at the end.
    package static let maximumPerSecond = 20

    /// The beginning of a line that is not complete.
    private var incomplete: [UInt8] = []
    /// Whether the incomplete line is longer than the maximum.
    private var isCut = false
    /// When the present second began, and the number of lines in it.
    private var second: Instant?
    private var count = 0
    private var omitted = 0
    /// The latest of the lines that were left out since the last one that was reported: they usually explain the exit.
    /// They are escaped when they are reported, because there may be very many.
    private var latest: [Raw] = []
    /// The most of these that are reported at the end.
    private static let maximumLatest = 5

    /// A line as it was written.
    private struct Raw {
        var bytes: [UInt8]
        var isCut: Bool

        package var text: String {
            var text = String(decoding: bytes, as: UTF8.self)
            // The cut may have been within a character.
            if isCut { text = (text.last == "\u{FFFD}" ? String(text.dropLast()) : text) + " …" }
            return text.asMessage
        }
    }

    package init() {}

    /// Takes bytes that arrived at `now`. Returns the lines that they complete. Empty lines are dropped.
    package mutating func append(_ bytes: some Sequence<UInt8>, at now: Instant) -> [Line] {
        let bytes = [UInt8](copying: bytes)
        var (lines, start): ([Line], Int) = ([], 0)
        while start < bytes.count {
            // Safe: the range is within the bytes.
            let found = unsafe bytes.withUnsafeBytes { unsafe $0.firstOffset(of: 0x0A, from: start, to: bytes.count) }
            let end = found ?? bytes.count
            let room = Self.maximumLength - incomplete.count
            if start < end { incomplete += bytes[start..<min(end, start + room)] }
            if end - start > room { isCut = true }
            if found != nil, !incomplete.isEmpty { endLine(&lines, at: now) }
            start = end + 1
        }
        return lines
    }

    /// Takes the end of the output. Returns the last line, if it has no end, and the latest lines that were left out.
    package mutating func finish(at now: Instant) -> [Line] {
        var lines: [Line] = []
        endLine(&lines, at: now)
        let before = exchange(&omitted, with: 0) - latest.count
        for (index, raw) in exchange(&latest, with: []).enumerated() {
            lines.append(Line(raw.text, omitted: index == 0 ? before : 0))
        }
        return lines
    }

    private mutating func endLine(_ lines: inout [Line], at now: Instant) {
        defer {
            incomplete.removeAll(keepingCapacity: true)
            isCut = false
        }
        if incomplete.last == 0x0D, !isCut { incomplete.removeLast() }
        guard !incomplete.isEmpty else { return }
        if second.map({ now.since($0) >= .seconds(1) }) ?? true { (second, count) = (now, 0) }
        guard count < Self.maximumPerSecond else {
            omitted += 1
            // The memory of the oldest one is used again.
            let oldest = latest.count == Self.maximumLatest ? latest.removeFirst().bytes : []
            latest.append(Raw(bytes: exchange(&incomplete, with: oldest), isCut: isCut))
            return
        }
        count += 1
        latest = []
        lines.append(Line(Raw(bytes: incomplete, isCut: isCut).text, omitted: exchange(&omitted, with: 0)))
    }
}
