import TrunklineCore

/// How the endpoint does.
extension Exchange {
    /// A request that was written had no answer in time.
    mutating func countTimedOut() { errors?.countFailed() }

    /// Whether so many requests failed that the endpoint is to be left.
    mutating func hasTooManyErrors(at now: Instant) -> Bool {
        errors?.roll(to: now)
        return errors?.isExceeded ?? false
    }

    /// The endpoint is another now.
    mutating func forgetErrors() {
        errors?.reset()
        silence.end()
    }
}
