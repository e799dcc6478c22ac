extension ClientOptions {
    /// Deadlines, limits and retries of requests.
    public struct Requests: Sendable {
        /// How long a call may take, from the call until the response, if the call does not set its own timeout. `nil`
        /// for no limit. Default 8 s.
        ///
        /// If the deadline passes, the call fails with `timedOut` and the link stays. For a streamed reply, this is the
        /// longest wait for each part, unless the call sets another.
        public var timeout: Duration? = .seconds(8)
        /// How long a streamed reply may take from the call to its end, if the call does not set its own timeout.
        /// Default `nil`: no limit.
        ///
        /// The wait for each part is limited separately, by ``timeout``.
        public var streamTimeout: Duration?
        /// The maximum number of requests on which the server may be working. Further requests wait their turn, within
        /// their deadlines. Default 65,536, at least 1.
        ///
        /// A request counts while it is queued on a link, or written and not yet answered. If it is cancelled or times
        /// out after its first byte was written, it counts until the server answers it, its ``quarantine`` ends or its
        /// link ends (`ClientMetrics.abandoned`); if it ends before that byte, it no longer counts. A one-way message
        /// counts until it is written. Heartbeats are not held back. Requests on a draining link do not hold back the
        /// handshake and the restoration of subscriptions on a new link.
        ///
        /// Limits below 1,024 are assumed to protect the server: requests on draining links count, too, and the link is
        /// never replaced because of the limit. When a limit of 1,024 or more is reached and abandoned requests hold at
        /// least half of it, the link is replaced. See <doc:Requests#Abandoned-requests>.
        public var maximumInFlight = 65_536
        /// The maximum number of requests that wait for a link or for their turn. A further request fails with
        /// `overloaded`, fate `notSent`. Default 1,000,000.
        ///
        /// ``Client/enqueue(_:timeout:)`` accepts the same number of messages in addition.
        public var maximumWaiting = 1_000_000
        /// The maximum memory, in bytes, of requests that wait for a link, for their turn, or because of
        /// `outbound.highWatermark`. A further request fails with `overloaded`, fate `notSent`. Default 256 MiB.
        ///
        /// Each request counts as its body, its named byte fields and 544 bytes: 32 for the rest of its frame, and 512
        /// for its entries in the client's tables and its deadline. So the default is enough for about 490,000 requests
        /// with small bodies. The tasks of the callers are not counted. If no other request waits, a request of any
        /// size is accepted. The memory is released when the requests are written or have failed.
        public var maximumWaitingBytes = 256 * 1024 * 1024
        /// The maximum size, in bytes, of a reply that `send` and `start` reassemble from parts. Only the bodies of the
        /// parts count. Default 16 MiB.
        ///
        /// A longer reply fails with `overloaded`, fate `unknown` (`answered` if the last part exceeded the limit).
        /// Only that request fails: it is cancelled, and the rest of its reply is discarded. The codec's
        /// `maximumFrameSize` limits a reply that comes in one frame, and ``ReplyBuffering`` limits a streamed reply.
        public var maximumReplySize = 16 * 1024 * 1024
        /// The maximum size, in bytes, of all replies together that `send` and `start` are reassembling. Only the
        /// bodies of the parts count. Default 256 MiB.
        ///
        /// A part that exceeds it fails its request with `overloaded`, fate `unknown`, as with ``maximumReplySize``;
        /// the other requests continue.
        public var maximumReassemblyBytes = 256 * 1024 * 1024
        /// Whether failed requests are sent again, if neither the call nor its `TypedRequest` specifies it. Default
        /// `.ifUnsent`: only if no byte was written.
        public var retry = RetryPolicy.ifUnsent
        /// The budget that all retries of the client draw on, or `nil` for no limit. Default: a fifth of all requests,
        /// and 10 per second.
        ///
        /// Raise it for servers that close their links often while requests are pipelined; see <doc:ServerSettings>.
        public var retryBudget: RetryBudget? = RetryBudget()
        /// How long the client waits for the answer to a request in a datagram before it sends the request again.
        /// Default 1 s, at least 10 ms; each further wait is twice as long (RFC 8085 §3.1.1), up to 60 s.
        ///
        /// Only for `udp://` endpoints, and for requests that may be performed twice
        /// (``RetryPolicy/idempotent(tries:backoff:)`` with more than one try). They are sent again until their
        /// deadline, as far as the ``retryBudget`` allows. All copies on one link are one try, with the same serial
        /// number: an answer to any of them ends the request. A further answer counts as a late response.
        public var repeatAfter: Duration {
            get { seldom.value.repeatAfter }
            set { seldom.value.repeatAfter = newValue }
        }
        /// The initial and the minimum size of the congestion window of a link of datagrams, in requests. Default 64,
        /// at least 1.
        ///
        /// Only for `udp://` endpoints. The window grows while answers arrive, up to ``maximumInFlight``, and is halved
        /// when requests must be sent again or time out, so that a path or server that gets too many datagrams recovers
        /// (RFC 8085 §3.1, RFC 5681 §3.1). Further requests and messages wait for their turn. Raise it for servers that
        /// take long for their answers, and for replies in parts, which hold their place until they end. One-way
        /// messages do not count once they are written, and requests do not once they are cancelled or timed out.
        public var datagramWindow: Int {
            get { seldom.value.datagramWindow }
            set { seldom.value.datagramWindow = newValue }
        }
        /// Called with the response to a request that was cancelled or timed out before, for example to release what
        /// the request has created on the server. Default `nil`: such responses are only counted
        /// (`ClientMetrics.lateResponses`).
        ///
        /// Of a reply in parts, it gets the last frame. It is not called after the ``quarantine`` of the request.
        ///
        /// Called on the event loop. It must not block, and must not enter its client with `assumeIsolated`. To send
        /// something, yield the response to an `AsyncStream`, or start a task.
        public var lateResponse: (@Sendable (LateResponse) -> Void)? {
            get { seldom.value.lateResponse }
            set { seldom.value.lateResponse = newValue }
        }
        /// How long the client assumes that the server works on an abandoned request, one that was cancelled or timed
        /// out after its first byte was written. Default 60 s.
        ///
        /// During this time its serial number is not reused, and it counts against ``maximumInFlight``. The quarantine
        /// ends early when the server answers. A part of the reply restarts it, unless it names several requests. If
        /// abandoned requests use up the serials of a link, the link is replaced: see
        /// <doc:Requests#Running-out-of-serials>.
        ///
        /// Protocols matched in order have no serials. There an abandoned request holds its place until it is answered
        /// or the link ends. The link is replaced when an abandoned request has kept other requests from being sent for
        /// longer than the quarantine.
        public var quarantine: Duration = .seconds(60)
        /// Cancels a request on the server by other means than a frame on its link, if it was abandoned: cancelled,
        /// timed out, or its reply longer than the client's limits, after its first byte was written. Default none.
        ///
        /// Some servers are cancelled by a second connection that carries a secret from the handshake of the first one,
        /// as `CancelRequest` of PostgreSQL. The handshake stores the secret with ``Handshaker/setServerInfo(_:)``, and
        /// the closure finds it in its argument, which describes the link of the request. A codec with a cancel frame
        /// (``CancellingCodec``) needs no closure.
        ///
        /// - The closure is scheduled while the request is unanswered. Until it returns, no other request or one-way
        ///   message goes out on the link, so a cancellation that names only the link cannot reach another request.
        ///   Return when nothing of the cancellation can be under way any more: after PostgreSQL has closed the second
        ///   connection.
        /// - Matched in order, the closure runs only if nothing else is in flight on the link and nothing was queued
        ///   behind the request. Otherwise the server might work on another request when the cancellation arrives. Use
        ///   a ``PipeliningCodec``, or ``maximumInFlight`` 1.
        /// - Matched by serial, it must cancel by ``AbandonedRequest/serial``, or ``maximumInFlight`` must be 1.
        /// - At most 64 calls run at a time; requests beyond that are only abandoned.
        /// - One-way messages that were written before are not taken into account: the client does not learn when the
        ///   server has processed them. It is not called for a request that the client abandons because its response is
        ///   malformed.
        /// - If it throws, or does not return within ``cancellingTimeout``, its task is cancelled, and the link is
        ///   replaced: the cancellation might still arrive. Requests in flight on it end there.
        /// - It runs at the same time as other calls, and outlives the link, but not the client: closing the client
        ///   cancels its task. It is not called for requests of handshakes, and not when a link or the client ends.
        ///
        /// While the option is set, the client keeps each request, including its body, until it is answered. See
        /// <doc:Requests#Cancellation-over-a-second-connection>.
        public var cancelling: (@Sendable (AbandonedRequest) async throws -> Void)? {
            get { seldom.value.cancelling }
            set { seldom.value.cancelling = newValue }
        }
        /// How long a call of ``cancelling`` may take. Default 2 s.
        public var cancellingTimeout: Duration {
            get { seldom.value.cancellingTimeout }
            set { seldom.value.cancellingTimeout = newValue }
        }
        /// Whether a request that waits goes to a new session if the server has lost the one for which it was made.
        /// Default true.
        ///
        /// If false, such a request fails with `sessionLost` when a link is ready whose handshake has declared the
        /// session lost (``Handshaker/sessionWasLost()``). The fate is `notSent`, or `unknown` if an earlier try was
        /// written. Requests in flight fail with `connectionLost` when their link is lost, with either value. See
        /// <doc:StayingConnected#Resuming-a-session>.
        public var outlivesSession = true
        /// Whether the metrics have the durations and errors of calls by the name of the request
        /// (``ClientMetrics/durationsByName``), such as a JSON-RPC method, or by its type number. Default
        /// false.
        ///
        /// Exporters then have the metric `trunkline.request.duration`: 17 series of Prometheus for each name, and as
        /// many for each code of an error that its requests had. At most 65 names are told apart. Measuring costs each
        /// request about a microsecond, and, if more than its type number decides the name
        /// (``NamingCodec/namesEachRequest``), the making of the name.
        public var measuresByName: Bool {
            get { seldom.value.measuresByName }
            set { seldom.value.measuresByName = newValue }
        }
        /// The longest time that `close()` waits for requests to end, and for a server that reads the remaining bytes
        /// slowly. Default 30 s.
        ///
        /// After this time the remaining requests fail with `closed`, fate `notSent` or `unknown`. If the server
        /// reads nothing, `close()` waits 2 s after the last request has ended. Slow observers are waited for as well,
        /// for at most 2 s more.
        public var drainTimeout: Duration = .seconds(30)

        /// Each object that keeps the options would have room for these.
        private var seldom = Rare<Seldom>()

        private struct Seldom: EmptyInitializable, Sendable {
            var lateResponse: (@Sendable (LateResponse) -> Void)?
            var cancelling: (@Sendable (AbandonedRequest) async throws -> Void)?
            var cancellingTimeout = Duration.seconds(2)
            var repeatAfter = Duration.seconds(1)
            var datagramWindow = 64
            var measuresByName = false
        }

        /// Creates options with the default values.
        public init() {}
    }
}
