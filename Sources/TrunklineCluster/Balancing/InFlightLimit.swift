package import TrunklineCore

/// An adaptive limit of the requests in flight at one server: additive increase, multiplicative decrease, as in TCP and
/// in `AIMDLimit` of Netflix's concurrency-limits.
///
/// The limit grows by one per round trip of `value` successful requests, and only while at least half of it is in use:
/// a limit that is not reached proves nothing. It shrinks when the server is overloaded.
///
/// Invariant: `value` is within the bounds.
package struct InFlightLimit: Sendable {
    /// A burst of timeouts counts as one signal of overload: the limit shrinks at most once in this time. Ours: Netflix
    /// shrinks with every signal, which after a pause of the server takes the limit down to the lower bound at once.
    private static let quietTime = Duration.milliseconds(100)

    /// The maximum number of requests in flight.
    package private(set) var value: Int
    private let bounds: ClosedRange<Int>
    private let backoffRatio: Double
    /// The number of successes since the limit last changed that count towards its growth. Less than `value`.
    private var successes = 0
    /// The end of the quiet time after the last decrease.
    private var quietUntil = Instant.distantPast

    /// Creates a limit.
    ///
    /// - Parameters:
    ///   - initial: The first value, clamped to `bounds`.
    ///   - bounds: The range of the limit; at least 1.
    ///   - backoffRatio: What remains of the limit after a decrease: 0.5 through 1; NaN counts as 0.9, the value of
    ///     Netflix. A decrease is at least one request.
    package init(initial: Int, bounds: ClosedRange<Int>, backoffRatio: Double = 0.9) {
        self.bounds = max(1, bounds.lowerBound)...max(1, bounds.upperBound)
        self.backoffRatio = backoffRatio.isNaN ? 0.9 : min(max(backoffRatio, 0.5), 1)
        value = min(max(initial, self.bounds.lowerBound), self.bounds.upperBound)
    }

    /// Records that a request was answered in time. `inFlight` is the number of requests in flight before the answer,
    /// including this one.
    ///
    /// During the quiet time a success does not count: it may answer a request from before the overload.
    package mutating func succeeded(inFlight: Int, at now: Instant) {
        guard now >= quietUntil, inFlight >= value - value / 2, value < bounds.upperBound else { return }
        successes += 1
        guard successes >= value else { return }
        value += 1
        successes = 0
    }

    /// Records that the server is overloaded: a request timed out, or the server rejected it for that reason.
    package mutating func overloaded(at now: Instant) {
        guard now >= quietUntil else { return }
        quietUntil = now.advanced(by: Self.quietTime)
        successes = 0
        value = max(bounds.lowerBound, min(value - 1, scaled(value)))
    }

    /// Returns `value` times the ratio, rounded down.
    private func scaled(_ value: Int) -> Int {
        let scaled = (Double(value) * backoffRatio).rounded(.down)
        return scaled < 0x1p62 ? Int(scaled) : value
    }
}
