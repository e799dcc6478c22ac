import TrunklineCore

/// An adaptive limit of the requests in flight at one server: additive increase, multiplicative decrease, as in TCP and
/// in `AIMDLimit` of Netflix's concurrency-limits. It grows by one after `value` successes, and only while at least
/// half of it is in use: a limit that is not reached proves nothing.
struct InFlightLimit: Sendable {
    /// A burst of timeouts counts as one signal of overload. Netflix shrinks with every signal, so a pause of the
    /// server takes the limit to its lower bound at once.
    private static let quietTime = Duration.milliseconds(100)

    private(set) var value: Int
    private let bounds: ClosedRange<Int>
    private let backoffRatio: Double
    private var successes = 0
    private var quietUntil = Instant.distantPast

    /// `backoffRatio` is clamped to 0.5 through 1; Netflix uses 0.9.
    init(initial: Int, bounds: ClosedRange<Int>, backoffRatio: Double = 0.9) {
        self.bounds = max(1, bounds.lowerBound)...max(1, bounds.upperBound)
        self.backoffRatio = backoffRatio.isNaN ? 0.9 : min(max(backoffRatio, 0.5), 1)
        value = min(max(initial, self.bounds.lowerBound), self.bounds.upperBound)
    }

    /// `inFlight` includes this request. A success in the quiet time does not count: its request may be from before the
    /// overload.
    mutating func succeeded(inFlight: Int, at now: Instant) {
        guard now >= quietUntil, inFlight >= value - value / 2, value < bounds.upperBound else { return }
        successes += 1
        guard successes >= value else { return }
        value += 1
        successes = 0
    }

    mutating func overloaded(at now: Instant) {
        guard now >= quietUntil else { return }
        quietUntil = now.advanced(by: Self.quietTime)
        successes = 0
        value = max(bounds.lowerBound, min(value - 1, scaled(value)))
    }

    private func scaled(_ value: Int) -> Int {
        let scaled = (Double(value) * backoffRatio).rounded(.down)
        return scaled < 0x1p62 ? Int(scaled) : value
    }
}
