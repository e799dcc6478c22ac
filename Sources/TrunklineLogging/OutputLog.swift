import TrunklineCore

/// Decides which lines of the standard error of child processes are logged.
///
/// A healthy process is quoted in full. While attempts fail or links are lost, each of them starts a process that says the
/// same as the one before, so a line is written if it was not written lately. The reports of failures quote the last line of
/// their process.
struct OutputLog: Sendable {
    /// The latest lines, without their digits: times, and numbers of processes, differ each time.
    private var latest: [String] = []

    /// The number of lines that are remembered.
    private static let memory = 64

    /// Whether `line` is to be logged. Remembers it.
    ///
    /// - Parameter isInTrouble: Whether attempts have failed, or links were lost, and no link has lasted since.
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
