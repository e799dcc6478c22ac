/// A time in which an event loop ran nothing although something was due.
public struct LoopDelay: Sendable, Hashable, CustomStringConvertible {
    /// Why the loop was late.
    @nonexhaustive
    public enum Reason: String, Sendable, Hashable {
        /// The process did not run: it was stopped, the machine slept, or no processor was free. The loop waited and
        /// did not wake up in time, or one turn of it took that long and the process used almost no processor
        /// meanwhile.
        case stopped
        /// One turn of the loop took that long, and its thread ran for most of it: code on ``Client/executor``, a codec
        /// or an observer on the event loop computed.
        case busy
        /// One turn of the loop took that long, and its thread hardly ran while others of the process did: code on
        /// ``Client/executor`` or an observer on the event loop waited for something, or no processor was free.
        case blocked
        /// One turn of the loop took that long, most of it in one call of a codec that decoded what a server had sent:
        /// ``LoopDelay/endpoint``. A call that finds less than 4 KiB to decode is not timed, and counts as ``busy``.
        case decoding
    }

    package let begin: Instant
    package let end: Instant
    /// Why the loop was late.
    public let reason: Reason
    /// The endpoint of the link whose bytes a codec decoded, if that took most of the turn
    /// (``Reason-swift.enum/decoding``); otherwise `nil`.
    public let endpoint: Endpoint?
    package let isInTurn: Bool

    package init(
        _ reason: Reason,
        from begin: Instant,
        to end: Instant,
        isInTurn: Bool = false,
        decoding endpoint: Endpoint? = nil
    ) {
        (self.begin, self.end, self.reason, self.isInTurn) = (begin, max(begin, end), reason, isInTurn)
        self.endpoint = endpoint
    }

    /// How long the loop was late: at least this long, and at most 250 ms longer.
    public var duration: Duration { end.since(begin) }

    /// The delay in one line: `this process did not run for 15 s`.
    public var description: String {
        switch reason {
        case .stopped where isInTurn: "this process hardly ran for \(duration.text), within a turn of the event loop"
        case .stopped: "this process did not run for \(duration.text)"
        case .busy: "one turn of the event loop took \(duration.text)"
        case .blocked: "one turn of the event loop took \(duration.text), and its thread hardly ran"
        case .decoding:
            "one turn of the event loop took \(duration.text), most of it in the codec that decodes what"
                + " \(endpoint.map { "\($0)" } ?? "a server") has sent"
        }
    }
}

extension LoopDelay {
    package struct Turn: Sendable {
        var begin: Instant
        var end: Instant
        /// The most nanoseconds that the loop's thread and the process can have run.
        var processorTime: (thread: Int64, process: Int64)?
        package var decoding: Decoding?

        package init(from begin: Instant, to end: Instant) { (self.begin, self.end) = (begin, end) }
    }

    package struct Decoding: Sendable {
        let endpoint: Endpoint
        let nanoseconds: Int64

        package static let shortest: Int64 = 50_000_000
        /// So that reading the clock twice costs nothing in comparison.
        package static let fewestBytes = 4 * 1024

        package init(of endpoint: Endpoint, nanoseconds: Int64) {
            (self.endpoint, self.nanoseconds) = (endpoint, nanoseconds)
        }
    }

    package struct LongestDecoding: Sendable {
        private let decoding: Decoding
        private let turn: Instant

        package init(_ decoding: Decoding, in turn: Instant, or other: LongestDecoding?) {
            self.turn = turn
            let other = other?.of(turn)
            self.decoding = other.map { $0.nanoseconds > decoding.nanoseconds ? $0 : decoding } ?? decoding
        }

        package func of(_ turn: Instant) -> Decoding? { turn == self.turn ? decoding : nil }
    }

    package init(_ turn: Turn) {
        let duration = turn.end.since(turn.begin).clampedNanoseconds
        var reason = Reason.busy
        if let ran = turn.processorTime, ran.thread < duration / 2 {
            reason = ran.process < duration / 10 ? .stopped : .blocked
        } else if let decoding = turn.decoding, decoding.nanoseconds > duration / 2 {
            reason = .decoding
        }
        self.init(
            reason,
            from: turn.begin,
            to: turn.end,
            isInTurn: true,
            decoding: reason == .decoding ? turn.decoding?.endpoint : nil
        )
    }
}

extension LoopDelay {
    package static var nanosecondsOfShortest: Int64 { 250_000_000 }

    /// How long a loop waits at most while a ticking timer is armed: 250 ms.
    static var nanosecondsOfTick: Int64 { 250_000_000 }

    func overlap(from instant: Instant) -> Duration { max(.zero, end.since(max(begin, instant))) }

    /// Leaves the delay out of the time that begins at `instant`.
    package func shifted(_ instant: Instant) -> Instant { instant.advanced(by: overlap(from: instant)) }

    /// After a long delay, gives back the whole `timeout`: the network and the other side may have to recover, too.
    package func prolonging(_ deadline: Instant, of timeout: Duration) -> Instant {
        duration > timeout / 10 ? max(deadline, end.advanced(by: timeout)) : deadline.advanced(by: duration)
    }
}

package struct LoopDelays: Sendable {
    private var latest: [LoopDelay] = []
    package private(set) var durations = LatencyHistogram()

    private static let capacity = 32

    package init() {}

    package mutating func note(_ delay: LoopDelay) {
        durations.record(delay.duration)
        if latest.count == Self.capacity { latest.removeFirst() }
        latest.append(delay)
    }

    var last: LoopDelay? { latest.last }

    package func overlap(from start: Instant, to end: Instant) -> Duration {
        guard let last, last.end > start else { return .zero }
        let nanoseconds = latest.reduce(into: Int64(0)) { sum, delay in
            sum += max(0, min(delay.end, end).nanoseconds - max(delay.begin, start).nanoseconds)
        }
        return .nanoseconds(nanoseconds)
    }

    /// What is missing just after a delay tells nothing about the server: for as long as the delay, at most a second.
    package func excuses(at now: Instant) -> Bool {
        guard let last else { return false }
        return now <= last.end.advanced(by: min(last.duration, .seconds(1)))
    }
}

/// Each fact once: if the process is stopped, every loop is late.
package struct DistinctDelays: Sendable {
    private var latest: [LoopDelay] = []

    private static let capacity = 16

    package init() {}

    package mutating func note(_ delay: LoopDelay) -> Bool {
        let isKnown = latest.contains { known in
            guard known.reason == delay.reason, known.endpoint == delay.endpoint else { return false }
            let overlap = min(known.end, delay.end).since(max(known.begin, delay.begin))
            return overlap.clampedNanoseconds > delay.duration.clampedNanoseconds / 2
        }
        if isKnown { return false }
        if latest.count == Self.capacity { latest.removeFirst() }
        latest.append(delay)
        return true
    }
}
