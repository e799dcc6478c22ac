public import TrunklineCore

extension ClientOptions {
    /// Replacing links that failed or were lost.
    ///
    /// After giving up, the next request starts over: with as many attempts as before, but not before the wait is over
    /// that would have come next. So callers who ask again as soon as they are told `unavailable` are no storm; they
    /// learn that there is (still) no server at the pace of the policy, or meet their own deadline.
    public struct Reconnecting: Sendable {
        /// Whether to try again, and when. Default: `Backoff()`, exponential with full jitter.
        public var policy: any ReconnectPolicy = Backoff()
        /// After how many failed attempts in a row callers who wait are told `unavailable`; `nil`, the default, for
        /// never: they wait until their own deadline. At least 1.
        public var maximumAttempts: Int?
        /// How long a link must stay ready for the policy to start anew after it. Default 10 s.
        public var stableAfter: Duration = .seconds(10)
        /// Tries again even after a cause that time does not mend (a greeting refused for good, an address that is none).
        /// Default false: an endpoint with such a cause is left out until its failure is forgotten
        /// (`Failover.halfLife`), and when all have one, callers who wait are told `unavailable`.
        public var retriesPermanentCauses = false
    }
}
