/// A histogram for equal durations in a row, those of requests sent and answered together: each costs a comparison.
struct DurationCounter: Sendable {
    private var recorded = LatencyHistogram()
    /// In nanoseconds. Not in `recorded` yet.
    private var latest: Int64 = 0
    private var times = 0

    init() {}

    @inline(__always)
    mutating func record(nanoseconds: Int64) {
        if nanoseconds == latest {
            times &+= 1
        } else {
            recorded.record(nanoseconds: latest, times: times)
            (latest, times) = (nanoseconds, 1)
        }
    }

    var histogram: LatencyHistogram {
        var histogram = recorded
        histogram.record(nanoseconds: latest, times: times)
        return histogram
    }
}
