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
        /// never: they wait until their own deadline. At least 1. An attempt whose link ended without any work counts,
        /// too.
        public var maximumAttempts: Int?
        /// How long a link that did no work must stay ready for the policy to start anew after it. Default 10 s.
        ///
        /// A link that answered a request, that delivered a push and lasted for a second, or that completed its handshake
        /// and ended in order with nothing in flight, makes the policy start anew however short it was. Only a server that
        /// accepts and closes without any work is paced.
        public var stableAfter: Duration = .seconds(10)
        /// Whether a link that the server closed in order is replaced although no request waits and nothing is
        /// subscribed. Default false: the client goes to `idle`, and the next request connects.
        ///
        /// Set it where the next request must not pay for connecting. A link that was lost in any other way is replaced
        /// in any case.
        public var keepsLinkWarm = false
        /// Tries again even after a cause that time does not mend (a handshake refused for good, an address that is
        /// none). Default false: an endpoint with such a cause is left out until its failure is forgotten
        /// (`Failover.halfLife`), and when all have one, callers who wait are told `unavailable`.
        public var retriesPermanentCauses = false
    }
}
