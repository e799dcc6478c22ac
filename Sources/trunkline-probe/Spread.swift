import Foundation
import Trunkline

/// The distribution of some durations, in seconds.
struct Spread: Encodable, Sendable {
    let minimum: Double
    let median: Double
    let mean: Double
    let maximum: Double
    /// The standard deviation of all values (not of a sample).
    let deviation: Double

    /// Returns `nil` if there are no durations.
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

    private enum CodingKeys: String, CodingKey {
        case minimum = "min"
        case median, mean
        case maximum = "max"
        case deviation = "stddev"
    }
}
