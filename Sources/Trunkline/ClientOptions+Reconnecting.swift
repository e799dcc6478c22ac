public import TrunklineCore

extension ClientOptions {
    /// Replacing links that failed or were lost.
    public struct Reconnecting: Sendable {
        /// Whether to try again, and when. Default: `Backoff()`, exponential with full jitter.
        public var policy: any ReconnectPolicy = Backoff()
        /// After how many failed attempts in a row callers who wait are told `unavailable`; `nil`, the default, for
        /// never: they wait until their own deadline. The next request starts over. At least 1.
        public var maximumAttempts: Int?
        /// How long a link must stay ready for the policy to start anew after it. Default 10 s.
        public var stableAfter: Duration = .seconds(10)
        /// Tries again even after a cause that time does not mend (a greeting refused for good, a certificate rejected).
        /// Default false: callers who wait are told `unavailable`, and the next request starts over.
        public var retriesPermanentCauses = false
    }
}
