extension ClientOptions {
    /// The options for reconnecting after a link failed or was lost.
    ///
    /// When the client gives up (see ``maximumAttempts`` and ``policy``), waiting callers receive `unavailable`, and
    /// the next request starts over with the full number of attempts. The first of these attempts begins only after the
    /// wait that would have followed if the client had not given up. So callers that retry immediately do not cause
    /// more attempts than the policy allows: they fail again only after these attempts have failed, or at their own
    /// deadlines.
    public struct Reconnecting: Sendable {
        /// The policy that decides whether and when the client tries again. Default: `Backoff()`, exponential back-off
        /// with full jitter.
        ///
        /// With `nil`, the client does not replace a link that failed or was lost until the next request needs one.
        public var policy: (any ReconnectPolicy)? = Backoff()
        /// The number of failed attempts in a row after which waiting callers receive `unavailable`. Default `nil`:
        /// callers wait until their own deadlines. At least 1.
        ///
        /// An attempt also counts as failed if its link did no work (see ``stableAfter``). Attempts at all endpoints
        /// count together, so with several endpoints the limit may be reached before each was tried.
        public var maximumAttempts: Int?
        /// How long a link that did no work must stay ready before the back-off starts over. Default 10 s.
        ///
        /// A link did work in each of these cases. The back-off then starts over, however briefly the link was ready:
        ///
        /// - It answered a request.
        /// - It delivered a push and was ready for at least a second.
        /// - It completed its handshake, was ready for at least a second, and ended cleanly with nothing in flight.
        ///
        /// So the back-off grows only for a server that accepts connections and closes them without any work.
        public var stableAfter: Duration = .seconds(10)
        /// Whether a link that the server closed cleanly is replaced even if no request waits and there is no
        /// subscription and no stream of pushes. Default false: the client becomes `idle`, and the next request
        /// connects.
        ///
        /// Set it to true if the next request must not wait for connecting. A link that was lost in any other way is
        /// always replaced.
        public var keepsLinkWarm = false
        /// Whether the client tries again after a permanent failure, such as a refused login or an invalid address.
        /// Default false.
        ///
        /// If false, an endpoint with a permanent failure is not tried until the failure is forgotten (see
        /// ``ClientOptions/Failover-swift.struct/halfLife``). When all endpoints have one, waiting callers receive
        /// `unavailable`, and the next request tries again at the pace of ``policy``, after a refused login not before
        /// ``refusalPause`` is over.
        public var retriesPermanentCauses = false
        /// How long an endpoint is not tried after its server has refused the login (``HandshakeRefusal``), or a proxy
        /// has refused the login or the connection (``ProxyFailure``), unless the refusal names a time of its own.
        /// Default 30 s, plus up to a tenth; at least zero.
        ///
        /// So however many callers send requests, a wrong password makes a client log in at most twice a minute.
        /// Requests that come meanwhile wait within their deadlines if there is no other endpoint, and their errors
        /// name the refusal. ``Client/reconnectNow()`` tries at once. Without effect if the refusal is not permanent.
        public var refusalPause: Duration = .seconds(30)
        /// The longest time that a server can keep the client from connecting if no other endpoint can be used. Default
        /// 60 s, at least zero, at most an hour. With zero, the client does not wait for a server that is its only one.
        ///
        /// A server asks for a delay in a `goAway` frame (``GoAwayCodec/retryAfter(in:)``), and a handshake in
        /// ``HandshakeRefusal/retryAfter``. For the delay, up to an hour, the other endpoints are tried instead. If the
        /// client has no others, or if they fail, it tries the endpoint when this time is over. So a wrong delay does
        /// not make a client unavailable for long. A random time of up to a tenth is added to each wait.
        ///
        /// Raise it if a server relies on longer delays, for example because an early login counts as an abuse.
        public var maximumRetryAfter: Duration = .seconds(60)

        /// Creates options with the default values.
        public init() {}
    }
}

extension ReconnectMachine.Policy {
    init(_ reconnecting: ClientOptions.Reconnecting, _ failover: ClientOptions.Failover) {
        self.init()
        reconnect = reconnecting.policy ?? NoRetries()
        maximumAttempts = reconnecting.maximumAttempts.map { max(1, $0) }
        stableAfter = reconnecting.stableAfter
        keepsLinkWarm = reconnecting.keepsLinkWarm
        maximumLinkAge = failover.maximumLinkAge
        overlapsLinks = failover.overlap == .allowed
        sendsAfterGoAway = failover.sendsAfterGoAway
        retriesPermanentCauses = reconnecting.retriesPermanentCauses
        maximumRetryAfter = reconnecting.maximumRetryAfter
        refusalPause = reconnecting.refusalPause
        order = failover.order
        halfLife = failover.halfLife
        returnsToPreferredAfter = failover.returnsToPreferredAfter
    }
}
