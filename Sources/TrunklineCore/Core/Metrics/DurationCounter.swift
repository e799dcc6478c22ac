/// A histogram to which equal durations are often added in a row: those of requests that were sent together and answered
/// together. Such a duration costs a comparison.
package struct DurationCounter: Sendable {
    private var recorded = LatencyHistogram()
    /// The latest duration, in nanoseconds, which is not in `recorded` yet, and how often it was counted.
    private var latest: Int64 = 0
    private var times = 0

    package init() {}

    @inline(__always)
    package mutating func record(nanoseconds: Int64) {
        if nanoseconds == latest {
            times &+= 1
        } else {
            recorded.record(nanoseconds: latest, times: times)
            (latest, times) = (nanoseconds, 1)
        }
    }

    /// All durations.
    package var histogram: LatencyHistogram {
        var histogram = recorded
        histogram.record(nanoseconds: latest, times: times)
        return histogram
    }
}
