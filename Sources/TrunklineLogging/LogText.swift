package import TrunklineCore

/// Texts of several facts for one line of the log.
package enum LogText {
    /// `50 timedOut (fate unknown), 7 closed (not sent)`: the most frequent first.
    package static func list(_ counts: [String: Int]) -> String {
        counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { "\(Quantity.grouped($0.value)) \($0.key)" }
            .joined(separator: ", ")
    }

    /// `the latest, 4 s ago`, or `the latest`.
    package static func latest(_ time: Instant?, at now: Instant) -> String {
        guard let time, now.since(time) >= .seconds(1) else { return "the latest" }
        return "the latest, \(Quantity.time(now.since(time))) ago"
    }
}
