/// How long a link may be idle before a device between the two sides forgets it, learned for one endpoint on one path.
///
/// The figures are the practice of a large mobile messenger, but here the first failure shortens the interval, so that
/// each step costs at most one link. The first failure of an interval that links have survived says as much about the
/// server or the network as about the interval: it is only a doubt, and is not remembered.
///
/// While no interval has survived, each failure in a row doubles the step: 80 s, 160 s, 320 s. So if a device forgets
/// links after a constant time above the lower bound, at most `k + 1` are lost until the latest loss is seven days old,
/// where `k` is the least number with `80 s · (2ᵏ − 1) ≥ start − lower bound`. Proof: `k` failures in a row lead to the
/// lower bound, which survives; a failure after a success settles the interval below the longest one that has survived.
package struct AdaptiveInterval: Sendable, Equatable {
    static let start = Duration.seconds(210)
    static let successesNeeded = 5
    static let growth = Duration.seconds(60)
    /// How far below a survived interval it stays after a longer one has failed. Together with `growth`, 80 s.
    static let margin = Duration.seconds(20)
    package static let memory = Duration.seconds(7 * 86_400)

    private(set) var range: ClosedRange<Duration>
    private(set) var interval: Duration
    private(set) var change = LearnedInterval.Change.started
    private(set) var shortestLost: Duration?
    private var lostAt: Instant?
    /// The longest interval that has survived since a doubt, or at all.
    private var survivor: Duration?
    /// The longest interval that had survived when a failure cast doubt on it.
    private var doubted: Duration?
    /// The longest interval to try until the failure is forgotten.
    private var ceiling: Duration?
    private var (successes, failures) = (0, 0)

    init(within range: ClosedRange<Duration>) {
        self.range = Self.clamped(range)
        interval = Self.start.clamped(to: self.range)
    }

    var longestSurvived: Duration? { [survivor, doubted].compactMap { $0 }.max() }

    mutating func limit(to range: ClosedRange<Duration>) {
        let range = Self.clamped(range)
        guard range != self.range else { return }
        self.range = range
        interval = (change == .started ? Self.start : interval).clamped(to: range)
    }

    /// The ping after an idle `interval` was answered. Returns whether `change` is news.
    mutating func survived(at now: Instant) -> Bool {
        let isRelearning = forgetOldLoss(at: now)
        failures = 0
        survivor = max(survivor ?? .zero, interval)
        // Longer intervals than the ceiling are not tried.
        if let doubted, interval >= min(doubted, ceiling ?? doubted) { self.doubted = nil }
        successes += 1
        guard successes >= Self.successesNeeded else { return isRelearning }
        successes = 0
        let longer = min(interval.addingClamped(Self.growth), range.upperBound, ceiling ?? .century)
        guard longer > interval, shortestLost.map({ longer < $0 }) ?? true else { return isRelearning }
        (interval, change) = (longer, .grown)
        return true
    }

    /// A link was lost in silence after `idle`, at least the lower bound. Returns whether `change` is news.
    mutating func lost(afterIdle idle: Duration, at now: Instant) -> Bool {
        _ = forgetOldLoss(at: now)
        let idle = min(idle, interval)
        successes = 0
        failures += 1
        var shorter = interval
        if let survivor, survivor >= idle, doubted == nil {
            (doubted, self.survivor) = (survivor, nil)
            shorter = interval.subtractingClamped(step)
        } else {
            shortestLost = min(shortestLost ?? idle, idle)
            (lostAt, doubted, ceiling) = (now, nil, nil)
            if let survivor, survivor >= idle { self.survivor = nil }
            if let survivor {
                ceiling = max(range.lowerBound, survivor.subtractingClamped(Self.margin))
                shorter = survivor.subtractingClamped(Self.margin)
            } else {
                shorter = idle.subtractingClamped(step)
            }
        }
        shorter = max(shorter, range.lowerBound)
        guard shorter < interval else {
            defer { change = .lostAtMinimum }
            return change != .lostAtMinimum
        }
        (interval, change) = (shorter, .shortened)
        return true
    }

    private var step: Duration { (Self.growth + Self.margin) * (1 << (min(failures, 16) - 1)) }

    private mutating func forgetOldLoss(at now: Instant) -> Bool {
        guard let lostAt, now.since(lostAt) >= Self.memory else { return false }
        (self.lostAt, shortestLost, doubted, ceiling) = (nil, nil, nil, nil)
        (successes, failures, change) = (0, 0, .relearning)
        return true
    }

    private static func clamped(_ range: ClosedRange<Duration>) -> ClosedRange<Duration> {
        range.clamped(to: .milliseconds(1)...(.century))
    }
}

extension Duration {
    fileprivate func clamped(to range: ClosedRange<Duration>) -> Duration {
        min(max(self, range.lowerBound), range.upperBound)
    }
}
