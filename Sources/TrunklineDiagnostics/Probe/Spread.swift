import TrunklineCore

/// In seconds.
struct Spread: Sendable {
    let minimum: Double
    let median: Double
    let mean: Double
    let maximum: Double
    /// Of all values, not of a sample.
    let deviation: Double

    init?(_ durations: [Duration]) {
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
