/// The lines of a child's standard error, bounded in their number per second and their length.
package struct OutputLines: Sendable {
    package struct Line: Hashable, Sendable {
        package let text: String
        package let omitted: Int

        init(_ text: String, omitted: Int = 0) { (self.text, self.omitted) = (text, omitted) }
    }

    /// In bytes. What follows is left out, and the line ends with " …".
    static let maximumLength = 1024
    /// Further lines are counted, and the last of them are reported at the end.
    static let maximumPerSecond = 20

    private var incomplete: [UInt8] = []
    private var isCut = false
    private var second: Instant?
    private var count = 0
    private var omitted = 0
    /// Left out since the last reported line: they usually explain the exit. Escaped only when they are reported.
    private var latest: [Raw] = []
    private static let maximumLatest = 5

    private struct Raw {
        var bytes: [UInt8]
        var isCut: Bool

        var text: String {
            var text = String(decoding: bytes, as: UTF8.self)
            // The cut may have been within a character.
            if isCut { text = (text.last == "\u{FFFD}" ? String(text.dropLast()) : text) + " …" }
            return text.asMessage
        }
    }

    package init() {}

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
