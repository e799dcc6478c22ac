import TrunklineCore

/// Decides which lines of the standard error of child processes are logged. While attempts fail or links are lost, each
/// process repeats the one before, so a line is written only if it was not written lately.
struct OutputLog: Sendable {
    /// Without digits: times and process numbers differ each time.
    private var latest: [String] = []

    private static let memory = 64

    mutating func isNew(_ line: String, isInTrouble: Bool) -> Bool {
        let text = String(String.UnicodeScalarView(line.unicodeScalars.filter { !("0"..."9").contains($0) }))
        let isKnown = latest.contains(text)
        if !isKnown {
            if latest.count == Self.memory { latest.removeFirst() }
            latest.append(text)
        }
        return !isKnown || !isInTrouble
    }
}
