/// A time in which an event loop ran nothing although something was due.
public struct LoopDelay: Sendable, Hashable, CustomStringConvertible {
    /// Why the loop was late.
    @nonexhaustive
    public enum Reason: String, Sendable, Hashable {
        /// The loop waited, and did not wake up in time: the process was stopped, the machine slept, or no processor was
        /// free.
        case stopped
        /// One turn of the loop took that long: code on ``Client/executor`` or an observer on the event loop blocked or
        /// computed. Also if the process was stopped, or had no processor, in that turn.
        case busy
    }

    package let begin: Instant
    package let end: Instant
    /// Why the loop was late.
    public let reason: Reason

    package init(_ reason: Reason, from begin: Instant, to end: Instant) {
        (self.begin, self.end, self.reason) = (begin, max(begin, end), reason)
    }

    /// How long the loop was late: at least this long, and at most 250 ms longer.
    public var duration: Duration { end.since(begin) }

    /// The delay in one line: `this process did not run for 15 s`.
    public var description: String {
        switch reason {
        case .stopped: "this process did not run for \(duration.text)"
        case .busy: "one turn of the event loop took \(duration.text)"
        }
    }
}

extension LoopDelay {
    /// The shortest one that counts: 250 ms.
    package static var nanosecondsOfShortest: Int64 { 250_000_000 }

    /// How long a loop waits at most while a timer is armed that needs to know how long the process did not run: 250 ms.
    static var nanosecondsOfTick: Int64 { 250_000_000 }

    /// The part of this delay after `instant`.
    func overlap(from instant: Instant) -> Duration { max(.zero, end.since(max(begin, instant))) }

    /// `instant`, from which a time is counted, later by the part of this delay that was counted.
    func shifted(_ instant: Instant) -> Instant { instant.advanced(by: overlap(from: instant)) }

    /// `deadline`, which ends a time of at most `timeout`, with the time of this delay given back: after a long one, the
    /// whole time, because the network and the other side may have to recover, too.
    func prolonging(_ deadline: Instant, of timeout: Duration) -> Instant {
        duration > timeout / 10 ? max(deadline, end.advanced(by: timeout)) : deadline.advanced(by: duration)
    }
}

/// The delays of one event loop.
package struct LoopDelays: Sendable {
    /// The latest delays, oldest first.
    private var latest: [LoopDelay] = []
    /// How long all delays were.
    package private(set) var durations = LatencyHistogram()

    private static let capacity = 32

    package init() {}

    package mutating func note(_ delay: LoopDelay) {
        durations.record(delay.duration)
        if latest.count == Self.capacity { latest.removeFirst() }
        latest.append(delay)
    }

    package var last: LoopDelay? { latest.last }

    /// How long the loop was late between `start` and `end`.
    func overlap(from start: Instant, to end: Instant) -> Duration {
        // The usual case first.
        guard let last, last.end > start else { return .zero }
        let nanoseconds = latest.reduce(into: Int64(0)) { sum, delay in
            sum += max(0, min(delay.end, end).nanoseconds - max(delay.begin, start).nanoseconds)
        }
        return .nanoseconds(nanoseconds)
    }

    /// Whether the loop was late just before `now`, so that what has not come in time by then tells nothing about the
    /// server: for as long after the delay as it lasted, but at most a second.
    func excuses(at now: Instant) -> Bool {
        guard let last else { return false }
        return now <= last.end.advanced(by: min(last.duration, .seconds(1)))
    }
}
