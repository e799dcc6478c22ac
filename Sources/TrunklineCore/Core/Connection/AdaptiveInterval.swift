/// The rule that learns the interval of heartbeats for one endpoint on one path: how long a link may be idle before a
/// device between the two sides forgets it.
///
/// The inputs are facts: `survived` for every whole interval without traffic after which the ping was answered, and
/// `lost` for every link that was lost in silence after a time without traffic. The figures are those of the field, the
/// practice of a large mobile messenger: a start of 3.5 min, 60 s more after five successes, 80 s less after two failures,
/// and learning again after seven days.
///
/// Here the first failure shortens the interval, so that each step costs at most one link. The second one matters if an
/// interval fails that links have survived: the first such failure is a doubt, which says as much about the server or the
/// network as about the interval. The interval may grow again after successes. Only the second failure is remembered.
///
/// While no interval has survived, each failure in a row doubles the step: 80 s, 160 s, 320 s. So if a device forgets
/// links after a constant time that is longer than the lower bound of the range, then at most `k + 1` links are lost until
/// the latest loss is seven days old. `k` is the least number with `80 s · (2ᵏ − 1) ≥ start − lower bound`: at most two for
/// a start of 3.5 min. Proof: `k` failures without a success in between lead to the lower bound, which survives. A failure
/// after a success settles the interval below the longest one that has survived. If the start survives, the only loss is of
/// this second kind.
package struct AdaptiveInterval: Sendable, Equatable {
    /// The interval to begin with, within the range.
    package static let start = Duration.seconds(210)
    /// The number of successes in a row after which the interval grows.
    package static let successesNeeded = 5
    /// By how much it grows.
    package static let growth = Duration.seconds(60)
    /// How far below an interval that has survived it stays after a longer one has failed. Together with `growth`, 80 s.
    package static let margin = Duration.seconds(20)
    /// How long a failure is remembered.
    package static let memory = Duration.seconds(7 * 86_400)

    /// The allowed intervals.
    package private(set) var range: ClosedRange<Duration>
    /// The interval to use. Always within `range`.
    package private(set) var interval: Duration
    package private(set) var change = LearnedInterval.Change.started
    /// The shortest time after which a link was lost, and when that happened last.
    package private(set) var shortestLost: Duration?
    private var lostAt: Instant?
    /// The longest interval that has survived since a doubt, or at all.
    private var survivor: Duration?
    /// The longest interval that had survived when a failure cast doubt on it.
    private var doubted: Duration?
    /// The longest interval that is tried before the failure is forgotten.
    private var ceiling: Duration?
    /// The number of successes at `interval`, and of failures since the latest success.
    private var (successes, failures) = (0, 0)

    package init(within range: ClosedRange<Duration>) {
        self.range = Self.clamped(range)
        interval = Self.start.clamped(to: self.range)
    }

    /// The longest interval that has survived; `nil` for none.
    package var longestSurvived: Duration? { [survivor, doubted].compactMap { $0 }.max() }

    /// Changes the range, for a link whose handshake has negotiated another one.
    package mutating func limit(to range: ClosedRange<Duration>) {
        let range = Self.clamped(range)
        guard range != self.range else { return }
        self.range = range
        interval = (change == .started ? Self.start : interval).clamped(to: range)
    }

    // MARK: Facts

    /// Records that a link was idle for `interval`, and that its ping was then answered. Returns whether `change` is news.
    package mutating func survived(at now: Instant) -> Bool {
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

    /// Records that a link was lost in silence after it had been idle for `idle`: at least the lower bound of the range,
    /// and no longer than `interval`, which is the limit here. Returns whether `change` is news.
    package mutating func lost(afterIdle idle: Duration, at now: Instant) -> Bool {
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

    /// By how much the interval shrinks while nothing is known to survive.
    private var step: Duration { (Self.growth + Self.margin) * (1 << (min(failures, 16) - 1)) }

    /// Forgets the latest loss if it is too old, so that longer intervals are tried again. Returns whether it did.
    private mutating func forgetOldLoss(at now: Instant) -> Bool {
        guard let lostAt, now.since(lostAt) >= Self.memory else { return false }
        (self.lostAt, shortestLost, doubted, ceiling) = (nil, nil, nil, nil)
        (successes, failures, change) = (0, 0, .relearning)
        return true
    }

    /// At least 1 ms, and at most a century.
    private static func clamped(_ range: ClosedRange<Duration>) -> ClosedRange<Duration> {
        range.clamped(to: .milliseconds(1)...(.century))
    }
}

extension Duration {
    fileprivate func clamped(to range: ClosedRange<Duration>) -> Duration {
        min(max(self, range.lowerBound), range.upperBound)
    }
}
