import TrunklineCore

extension OutlierRules {
    struct Settings: Sendable, Hashable {
        /// In a row; at least 1. `nil` for off. Envoy: 5.
        var consecutiveFailures: Int? = 5
        /// The time of the first ejection. The nth in a row lasts n times as long. Envoy: 30 s.
        var baseTime: Duration = .seconds(30)
        /// Without jitter; at least `baseTime`. Envoy: 300 s.
        var maximumTime: Duration = .seconds(300)
        /// In 0...1, so that clients do not probe a server all at once. Envoy only lengthens, by an absolute time.
        var jitter = 0.1
        /// The share of members that may be out at once: 0 through 0.5, rounded down, but at least one of two or more
        /// members. 0 for no ejections. Envoy: 10 %.
        var maximumShare = 0.5
        /// The same for comparisons. Envoy and gRPC: 10 %.
        var comparedShare = 0.1
        /// Between two calls of `closeInterval`. The caller has the timer. Envoy: 10 s.
        var interval: Duration = .seconds(10)
        /// How long a member waits for a successful probe before it returns without one, as in Envoy and gRPC. Longer
        /// than the default timeout of a request (8 s), so that a probe that hangs has failed by then.
        var probingTime: Duration = .seconds(10)
        /// How long, of `probingTime`, only requests that may be performed twice are probes.
        var preferenceTime: Duration = .seconds(5)
        var successRate: SuccessRate? = SuccessRate()
        var errorRate: ErrorRate? = ErrorRate()
        var latency: Latency? = Latency()

        init() {}
    }

    /// An outlier's success rate is below the mean by `deviations` standard deviations of the population, as in Envoy.
    /// Of `n` members, one is at most √(n − 1) deviations below the mean: with 1.9, fewer than five never have an
    /// outlier, and of five, one is an outlier only if the others hardly differ.
    struct SuccessRate: Sendable, Hashable {
        /// In the interval; at least 1. Envoy: 100.
        var minimumRequests = 100
        /// Envoy: 5.
        var minimumMembers = 5
        /// Envoy: `success_rate_stdev_factor`, 1900 thousandths.
        var deviations = 1.9
        /// From the mean. Without it, a member at 99.9 % is an outlier among nine at 100 %.
        var minimumDifference = 0.05

        init() {}

        func outliers(_ facts: [Facts]) -> [(id: UInt64, reason: Reason)] {
            let rates = facts.compactMap { facts -> (id: UInt64, value: Double)? in
                let successes = Double(max(0, facts.successes))
                let requests = successes + Double(max(0, facts.failures))
                return requests >= max(1, Double(minimumRequests)) ? (facts.id, successes / requests) : nil
            }
            guard !rates.isEmpty, rates.count >= minimumMembers else { return [] }
            let count = Double(rates.count)
            let mean = rates.reduce(0) { $0 + $1.value } / count
            let variance = rates.reduce(0) { $0 + ($1.value - mean) * ($1.value - mean) } / count
            let limit = mean - max(deviations * variance.squareRoot(), minimumDifference)
            return rates.filter { $0.value < limit }.sorted { ($0.value, $0.id) < ($1.value, $1.id) }
                .map { ($0.id, .successRate($0.value, limit: limit)) }
        }
    }

    /// The failure percentage of Envoy and gRPC (A50: above 85 %) is absolute. Compared with the median instead: errors
    /// of all members have their cause in the requests.
    struct ErrorRate: Sendable, Hashable {
        var minimumRequests = 20
        /// Of two, the median does not tell which one is wrong.
        var minimumMembers = 3
        /// From the median. Below this, the members may only have had different requests.
        var minimumDifference = 0.5

        init() {}

        func outliers(_ facts: [Facts]) -> [(id: UInt64, reason: Reason)] {
            let rates = facts.compactMap { facts -> (id: UInt64, value: Double)? in
                let requests = Double(max(0, facts.successes)) + Double(max(0, facts.failures))
                guard requests >= max(1, Double(minimumRequests)) else { return nil }
                return (facts.id, min(1, Double(max(0, facts.errors)) / requests))
            }.sorted { ($0.value, $1.id) > ($1.value, $0.id) }
            guard !rates.isEmpty, rates.count >= minimumMembers else { return [] }
            let median = (rates[rates.count / 2].value + rates[(rates.count - 1) / 2].value) / 2
            return rates.filter { $0.value - median >= minimumDifference }
                .map { ($0.id, .errorRate($0.value, median: median)) }
        }
    }

    struct Latency: Sendable, Hashable {
        /// In the interval; at least 1. One slow answer does not decide a mean of 20, unless it is very slow.
        var minimumAnswers = 20
        var minimumMembers = 3
        /// Above the usual differences between machines and zones.
        var factor = 5.0
        /// Below this, the differences between fast servers do not matter.
        var minimumDifference: Duration = .milliseconds(10)

        init() {}

        func outliers(_ facts: [Facts]) -> [(id: UInt64, reason: Reason)] {
            let means = facts.compactMap { facts -> (id: UInt64, value: Double)? in
                guard facts.answers >= max(1, minimumAnswers) else { return nil }
                return (facts.id, Double(max(0, facts.latencyNanoseconds)) / Double(facts.answers))
            }.sorted { ($0.value, $1.id) > ($1.value, $0.id) }
            guard !means.isEmpty, means.count >= minimumMembers else { return [] }
            let median = (means[means.count / 2].value + means[(means.count - 1) / 2].value) / 2
            let difference = Double(max(0, minimumDifference.clampedNanoseconds))
            return means.filter { $0.value > factor * median && $0.value - median >= difference }
                .map { ($0.id, .latency(Self.duration($0.value), median: Self.duration(median))) }
        }

        private static func duration(_ nanoseconds: Double) -> Duration {
            .nanoseconds(Int64(min(nanoseconds, 0x1p62)))
        }
    }
}

extension OutlierRules.Settings {
    func mostOut(of count: Int) -> Int { Self.most(of: count, maximumShare) }

    func mostCompared(of count: Int) -> Int { Self.most(of: count, comparedShare) }

    private static func most(of count: Int, _ share: Double) -> Int {
        count > 1 && share > 0 ? max(1, Int(Double(count) * min(share, 0.5))) : 0
    }

    func ejectionTime(_ n: Int) -> Duration {
        let base = max(0, baseTime.clampedNanoseconds)
        let (product, overflow) = base.multipliedReportingOverflow(by: Int64(max(1, n)))
        return .nanoseconds(min(overflow ? .max : product, max(base, maximumTime.clampedNanoseconds)))
    }

    func jittered(_ time: Duration, using generator: inout SeededGenerator) -> Duration {
        let share = jitter > 0 ? min(jitter, 1) : 0
        let factor = 1 + share * (2 * generator.nextUnit() - 1)
        return .nanoseconds(Int64(min(Double(time.clampedNanoseconds) * factor, 0x1p62)))
    }
}
