import TrunklineCore

/// In seconds.
package struct Spread: Sendable {
    package let minimum: Double
    package let median: Double
    package let mean: Double
    package let maximum: Double
    /// Of all values, not of a sample.
    package let deviation: Double

    package init?(_ durations: [Duration]) {
        let seconds = durations.map(\.inSeconds).sorted()
        guard let first = seconds.first, let last = seconds.last else { return nil }
        let middle = seconds.count / 2
        (minimum, maximum) = (first, last)
        median = seconds.count.isMultiple(of: 2) ? (seconds[middle - 1] + seconds[middle]) / 2 : seconds[middle]
        let mean = seconds.reduce(0, +) / Double(seconds.count)
        deviation = (seconds.map { ($0 - mean) * ($0 - mean) }.reduce(0, +) / Double(seconds.count)).squareRoot()
        self.mean = mean
    }
}
