/// The options of a client. The defaults suit a server in the same region.
///
/// ```swift
/// let options = ClientOptions {
///     $0.requests.timeout = .seconds(2)
///     $0.failover.maximumLinkAge = .seconds(3600)
/// }
/// let client = Client(to: "gateway.example:7000", speaking: .standard, options: options)
/// ```
///
/// A client reads its options once, when it is created. <doc:ServerSettings> has recipes for particular kinds of
/// server.
///
/// Every number and duration may have any value. A value outside the range that the documentation of an option names
/// counts as the nearest one within the range. Without a named minimum, a negative duration or limit counts as zero. A
/// duration of more than 292 years counts as endless.
public struct ClientOptions: Sendable {
    /// The options for establishing links.
    public var connecting = Connecting()
    /// The TLS options of links to `tls://` endpoints.
    public var tls = TLS()
    /// The options for reconnecting after a link failed or was lost.
    public var reconnecting = Reconnecting()
    /// The options of the handshake, which runs on every new link before any other traffic.
    public var handshake = Handshake()
    /// The options for choosing among endpoints and for replacing links that still work.
    public var failover = Failover()
    /// The options for reacting to changes of the host's network.
    public var network = Network()
    /// The options for detecting dead links.
    public var liveness = Liveness()
    /// Deadlines, limits and retries of requests.
    public var requests = Requests()
    /// The limits of the response cache.
    public var cache = Cache()
    /// The options for diagnosing why links end.
    public var diagnosis = Diagnosis()
    /// The limits for bytes that wait to be written.
    public var outbound = Outbound()
    /// The limits for bytes that were received and are not yet delivered.
    public var inbound = Inbound()

    /// The observers of the client. Default: none.
    public var observers: [any ClientObserver] = []
    /// The recorder of the client; `nil` for none. Set by the library `TrunklineDiagnostics`.
    package var recorderSettings: (any RecorderSettings)?
    /// The log of the client. Default `nil`: none. Without it, logging costs nothing.
    public var logging: ClientLogging?
    /// The interceptors through which every call passes, in this order. Default: none.
    public var interceptors: [any ClientInterceptor] = []

    /// Creates options with the default values.
    public init() {}

    /// Creates options with the default values, modified by `change`.
    public init(_ change: (inout ClientOptions) throws -> Void) rethrows { try change(&self) }
}

extension ClientOptions {
    /// The options for establishing links.
    ///
    /// The client tries all addresses of a name, following RFC 8305 (Happy Eyeballs version 2): IPv6 first, then the
    /// families alternate. An attempt at one address goes on while the next one starts. The client uses the first
    /// attempt that succeeds and closes the others.
    public struct Connecting: Sendable {
        /// How long an attempt may take, from its start until its link is ready. Default 3 s.
        ///
        /// Name resolution, connecting to any of the addresses, the TLS handshake and `handshake.perform` share this
        /// time. Restoring subscriptions is not counted: it is bounded by `handshake.timeout`. Raise `timeout` for
        /// servers that are far away or slow to accept.
        public var timeout: Duration = .seconds(3)
        /// The delay between the attempt at one address of an endpoint and the attempt at the next. Default 250 ms (RFC
        /// 8305 §8), clamped to 100 ms to 2 s.
        ///
        /// If an attempt fails, the next one starts at once. When every known address has failed, this is also how long
        /// the client waits for addresses of the other family.
        public var attemptDelay: Duration = .milliseconds(250)
        /// How long the client waits for a name's IPv6 addresses when the IPv4 addresses are known first. Default 50 ms
        /// (RFC 8305 §8), clamped to 0 to 2 s.
        public var resolutionDelay: Duration = .milliseconds(50)
        /// The IP address (not a name) to connect from, with a zone if it needs one: `fe80::1%eth0`. Default `nil`: the
        /// system chooses.
        ///
        /// The server's addresses of the other family are skipped. An invalid or unusable address fails every attempt
        /// with `TransportError.Code.invalidAddress`:
        ///
        /// - Text that is not an IP address, or a server without an address of its family, is a permanent failure:
        ///   callers receive `unavailable` at once.
        /// - An address that is not one of this host's is not permanent, because an interface may come up.
        public var sourceAddress: String?
        /// Whether small segments are sent at once (TCP_NODELAY). Default true.
        ///
        /// The client already writes requests in batches, so Nagle's algorithm would only add delay.
        public var noDelay = true
        /// How the kernel probes the server on an idle link (SO_KEEPALIVE), or `nil` for never. Default: after 60 s,
        /// then every 10 s, three times.
        public var keepAlive: KeepAliveOptions? = KeepAliveOptions()
        /// How long written bytes may stay unacknowledged, or the server's receive window may stay full, before the
        /// link is lost (TCP_USER_TIMEOUT, RFC 5482). Default 30 s; rounded up to whole milliseconds.
        ///
        /// `nil` uses the system's limit, about 15 minutes on Linux. Ignored on systems other than Linux.
        ///
        /// The default allows about seven retransmissions. It outlasts a route that changes or a Wi-Fi client that
        /// roams, and it is shorter than a heartbeat's interval plus deadline. Raise it for a server that intentionally
        /// stops reading for longer.
        public var userTimeout: Duration? = .seconds(30)

        /// Creates options with the default values.
        public init() {}
    }

    /// The TLS options of links to endpoints of the form `tls://host:port`.
    ///
    /// By default the server's certificate must chain to one of the system's roots, be valid now, and be issued for the
    /// endpoint's name or address. See <doc:TLS>.
    public struct TLS: Sendable {
        /// The root certificates to which a server's certificate must chain.
        public enum Roots: Sendable {
            /// The certificate authorities that the system trusts.
            case system
            /// Only these certificates.
            case only(PEM)
            /// The system's certificate authorities and these certificates.
            case systemAnd(PEM)
        }

        /// The check of a server's identity.
        public enum Verification: Sendable, Hashable {
            /// The server's certificate must chain to one of the roots and be issued for the server's name (RFC 9525)
            /// or IP address.
            case full
            /// The server need not prove its identity: an attacker on the network path can read and change everything.
            /// Use this only in tests.
            ///
            /// Pins are still checked. With pins, the server must at least own a pinned key.
            case insecureNone
        }

        /// The minimum TLS version. Default TLS 1.2; older versions cannot be chosen (RFC 8996).
        ///
        /// If the system's OpenSSL configuration requires a later version, that version is the minimum.
        public var minimumVersion = TLSVersion.tls12
        /// The root certificates to trust. Default: the system's.
        ///
        /// The system's roots are in the directory or file that OpenSSL was built to use, or that the environment
        /// variables `SSL_CERT_DIR` and `SSL_CERT_FILE` name.
        public var roots = Roots.system
        /// The check of a server's identity. Default `full`.
        public var verification = Verification.full
        /// The server name that the client requests (SNI, RFC 6066 §3) and that the certificate must be issued for.
        /// Default `nil`: the host of the endpoint.
        ///
        /// Required for Unix domain sockets. Set it if the endpoint is an IP address and the certificate has a name.
        public var serverName: String?
        /// The certificate and private key that the client presents if the server requests a certificate (mutual TLS).
        /// Default none.
        public var identity: TLSIdentity?
        /// The application protocols that the client offers by ALPN (RFC 7301), in order of preference. Default none;
        /// each has 1 to 255 bytes of UTF-8.
        ///
        /// If there are any and the server chooses none of them, the attempt fails with `noApplicationProtocol`.
        public var applicationProtocols: [String] = []
        /// The pinned public keys. The server's certificate chain must contain at least one of them, in addition to all
        /// other checks. Default none.
        ///
        /// Use at least two pins, one of them for a key kept in reserve. If the only pinned key is lost, no client can
        /// connect.
        public var pins: Set<PublicKeyPin> = []
        /// How often the client checks whether a PEM file of ``roots-swift.property`` or ``identity`` has changed,
        /// while it has a link. Default 60 s, at least 1 ms; `nil` for never.
        ///
        /// If a file has changed, the client establishes the next link with it and then drains the present link: a
        /// planned change, as with ``Client/renewLink()``. Without this check, the client uses the new files only when
        /// it establishes the next link for another reason.
        ///
        /// A file counts as changed if stat(2) reports a different inode, size or status change time (ctime). The
        /// client reads the file again only when it establishes the next link.
        public var rotationCheck: Duration? = .seconds(60)

        /// Creates options with the default values.
        public init() {}
    }

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
        /// `unavailable`, and the next request tries again at the pace of ``policy``.
        public var retriesPermanentCauses = false
        /// The longest time that a server can keep the client from connecting if no other endpoint can be used. Default
        /// 60 s, at least zero, at most an hour. With zero, the client does not wait for a server that is its only one.
        ///
        /// A server asks for a delay in a `goAway` frame (``GoAwayCodec/retryAfter(in:)``), and a handshake in
        /// ``HandshakeRefusal/retryAfter``. For the delay, up to an hour, the other endpoints are tried instead. If the
        /// client has no others, or if they fail, it tries the endpoint when this time is over. So a wrong delay does not
        /// make a client unavailable for long. A random time of up to a tenth is added to each wait.
        ///
        /// Raise it if a server relies on longer delays, for example because an early login counts as an abuse.
        public var maximumRetryAfter: Duration = .seconds(60)

        /// Creates options with the default values.
        public init() {}
    }

    /// The options of the handshake, which runs on every new link before any other traffic.
    public struct Handshake: Sendable {
        /// The closure that logs in, negotiates or identifies the client on every new link. Default none.
        ///
        /// The closure is not isolated to an actor, and runs before any other traffic on the link. Requests that
        /// callers make in the meantime wait, and go out in order when the handshake is complete.
        ///
        /// If it throws, the attempt fails:
        ///
        /// - With a ``HandshakeRefusal``, that error says whether the failure is permanent.
        /// - `invalidRequest`, `invalidResponse` and `invalidArgument` are programming errors in the closure, and
        ///   permanent failures.
        /// - After any other error the client tries again.
        public var perform: (@Sendable (Handshaker) async throws -> Void)?
        /// The closure that restores the subscriptions of the client on a new link, after ``perform``.
        ///
        /// It receives the requests of ``Client/subscribe(_:timeout:)->_`` in the order in which they were made. The
        /// messages of ``Client/subscribe(posting:timeout:)`` have been written by then.
        ///
        /// By default it sends all requests, at most ``maximumInFlight`` at a time. If the server rejects one of them,
        /// the attempt fails and is repeated. To keep the link instead, send them with ``Handshaker/send(all:)`` and
        /// ignore rejections:
        ///
        /// ```swift
        /// options.handshake.restore = { handshaker, subscriptions in
        ///     let outcomes = await handshaker.send(all: subscriptions)
        ///     for case .failure(let error) in outcomes where error.code != .rejected {
        ///         throw error
        ///     }
        /// }
        /// ```
        public var restore: @Sendable (Handshaker, [Request]) async throws -> Void = { handshaker, subscriptions in
            try await handshaker.restore(subscriptions)
        }
        /// The maximum number of requests of a handshake that are unanswered, and of messages that are not written, at a
        /// time. Others wait for their turn. Default 64, at least 1.
        ///
        /// The limit also applies to the default ``restore``. `requests.maximumInFlight` is an additional limit if it
        /// is below 1,024.
        public var maximumInFlight = 64
        /// How long ``perform`` may take, and how long ``restore`` may go without a response. Default 2 s.
        ///
        /// `perform` is also bounded by `connecting.timeout`. `restore` has this time from its start, and again from
        /// every response to one of its requests. So *n* subscriptions take at most *n* + 1 times this. Meanwhile
        /// callers wait within their own deadlines.
        public var timeout: Duration = .seconds(2)

        /// Creates options with the default values.
        public init() {}
    }

    /// The options for choosing among endpoints and for replacing links that still work.
    public struct Failover: Sendable {
        /// The share of failed requests at which the client leaves an endpoint.
        public struct ErrorRate: Sendable, Hashable {
            /// The share of failed requests at which the client leaves the endpoint: greater than 0, at most 1. Default
            /// 0.1. With 0 or less, one failed request suffices. With more than 1 or NaN, the client never leaves.
            public var share = 0.1
            /// The minimum number of requests within the window. With fewer, the client stays with the endpoint.
            /// Default 40, at least 1.
            public var minimumRequests = 40
            /// The period over which requests are counted. Default 30 s.
            public var window: Duration = .seconds(30)

            /// Creates an error rate with the default values: 10 % of at least 40 requests within 30 s.
            public init() {}
        }

        /// The order in which endpoints are tried. Default `.ordered`: the first is preferred.
        public var order = EndpointOrder.ordered
        /// The half-life of the client's memory of an endpoint's failure. Default 30 s. With zero, a failure is
        /// forgotten at once.
        ///
        /// An endpoint that failed is tried after the others until the failure is forgotten, three half-lives later.
        public var halfLife: Duration = .seconds(30)
        /// The share of failed requests at which the client leaves the endpoint for the next one, or `nil` for never.
        /// Default: 10 % of at least 40 requests within 30 s.
        ///
        /// Requests that time out or lose their link count as failed; error responses do not. Timeouts while a
        /// `.suspendReading` buffer holds back the responses do not count. If a server answers nothing,
        /// `liveness.maximumStalls` detects this sooner, even with few requests.
        public var errorRate: ErrorRate? = ErrorRate()
        /// How long a draining link, for example after a planned change, may take to finish its requests. Default
        /// 120 s.
        ///
        /// Requests that are still in flight then fail with `connectionLost`, fate `unknown`. Choose it longer than the
        /// longest timeout of a request.
        public var drainTimeout: Duration = .seconds(120)
        /// How long the client uses another endpoint before a planned change returns it to the preferred one. Default
        /// `nil`: the client stays with an endpoint that works.
        ///
        /// If the preferred endpoint has failed recently, or the client gave up the change, the client tries again
        /// after the same time, at least 1 s.
        public var returnsToPreferredAfter: Duration?
        /// The age at which a planned change replaces a link by another one to the same endpoint, counted from when the
        /// link became ready. Default `nil`: no limit. At least 1 ms.
        ///
        /// The age is drawn at random for each link, from 90 to 100 % of this value, so that the clients of a restarted
        /// server do not all reconnect at once. For the new link the client resolves the name again and reads changed
        /// certificates, and a load balancer chooses a server again.
        public var maximumLinkAge: Duration?
        /// Whether two links may exist at the same time, as in a planned change. Default `.allowed`.
        ///
        /// Choose `.never` for servers that refuse a second link of a client, or must not push anything twice.
        public var overlap = LinkOverlap.allowed
        /// Whether the client continues to send requests on a link whose server has announced its shutdown (`goAway`),
        /// until the next link is ready. Default true: no request waits.
        ///
        /// Set it to false for servers that ignore requests after their goAway, as HTTP/2 servers do (RFC 9113 §6.8). A
        /// request that such a server ignores fails when the link ends, fate `unknown`. With false the link drains at
        /// once, and requests wait for the next link. After a response that is marked as the last one on its link
        /// (``Frame/markLinkEnding()``), the link always drains at once.
        public var sendsAfterGoAway = true

        /// Creates options with the default values.
        public init() {}
    }

    /// The options for reacting to changes of the host's network: its interfaces, addresses and routes.
    ///
    /// - If an attempt has failed and no route leads to any endpoint, attempts pause
    ///   (``ConnectionState/noNetwork(cause:)``). They resume within about 100 ms of a new route.
    /// - If the local address of a link is removed, or its interface goes down, the link is lost at once
    ///   (``DisconnectCause/pathLost``) and replaced.
    /// - If the route of a link changes, or the machine wakes up, ``onRouteChange`` decides what happens.
    ///
    /// Loopback addresses and Unix domain sockets are not affected. See <doc:StayingConnected>.
    public struct Network: Sendable {
        /// Whether the client follows changes of the network. Default true.
        ///
        /// One monitor serves the whole process: netlink(7) on Linux, `NWPathMonitor` on Darwin (not tested there). It
        /// needs no privilege. If the system does not allow it, the client writes one line to standard error, and every
        /// path is `unknown`. Then only TCP and `options.liveness` detect broken links.
        public var isMonitored = true
        /// What the client does with a link when its route changes or the machine wakes up. Default `.probe`.
        ///
        /// This option does not change the other two rules of ``ClientOptions/Network-swift.struct``: attempts pause
        /// while there is no route, and a link whose local address is removed is lost.
        public var onRouteChange = RouteChangePolicy.probe

        /// Creates options with the default values.
        public init() {}
    }

    /// The options for detecting links that are dead although TCP has not reported it.
    ///
    /// **With pings that are answered** (`.pingPong`), a dead link is detected within ``interval`` plus ``deadline`` of
    /// the last complete frame. The link is replaced, and requests written to it fail with `connectionLost`, fate
    /// `unknown`, cause `TransportError.Code.halfOpen`. Received bytes alone do not count as progress: otherwise the
    /// client would keep a link that has lost framing as long as a few bytes arrive. A frame that is incomplete for
    /// longer than `deadline` has to grow at ``minimumRate``.
    ///
    /// **Without pings that are answered** (`.none`, `.oneWay`, a codec without a ping), a link is lost at once if a
    /// frame is incomplete for longer than `deadline` and grows too slowly. It is also replaced when ``maximumStalls``
    /// requests in a row time out without a frame in between.
    ///
    /// **While the client does not read a link**, it does not check whether the link is dead. The client does not read
    /// when `inbound.maximumHeld` is reached because of a `.suspendReading` buffer, or because no task requests a frame in
    /// ``Connection/withFrames(_:)``. The time without progress counts from when reading resumes.
    /// Meanwhile the server's pings stay unanswered. A clean end is noticed when reading resumes. A broken connection
    /// (a reset, or a link that the kernel gave up because of `connecting.keepAlive` or `connecting.userTimeout`) is
    /// noticed by a failed write, or within `interval`.
    ///
    /// After the process or the machine slept, a link is not lost at once: the client sends a ping first and waits for
    /// the whole deadline.
    ///
    /// Pings and checks may be late by a twentieth of the shortest of ``interval``, ``deadline``, ``probeAfter`` and
    /// ``speakAfter``, at most 250 ms. So an event loop wakes up once for many idle connections.
    ///
    /// A dead link counts as a failure of the endpoint, and so does a link that was replaced because ``maximumStalls``
    /// requests timed out without a frame in between. The next attempt goes to another endpoint, if there is one.
    public struct Liveness: Sendable {
        /// Which pings the client sends on an idle link. Default `.pingPong`; with a codec that has no ping, nothing is
        /// sent.
        public var heartbeat = HeartbeatMode.pingPong
        /// The time without a received frame after which the client sends a ping. Default 30 s, at least 1 ms.
        ///
        /// With `.oneWay` it counts from the last write instead. Set it below the idle timeout of the server and of
        /// every device on the path, such as load balancers and NAT gateways.
        public var interval: Duration = .seconds(30)
        /// How long a ping may go without progress before the link is lost. Default 10 s, at least 1 ms.
        ///
        /// Progress is one of these:
        ///
        /// - A complete frame was received, of whatever kind.
        /// - An incomplete frame grows at ``minimumRate``.
        /// - The ping is not written yet because the socket was full, and the socket accepts bytes again.
        ///
        /// It is also how long a frame may be incomplete and grow more slowly than `minimumRate` before the client
        /// sends a ping. Raise it for links with a very high latency.
        public var deadline: Duration = .seconds(10)
        /// The number of bytes per second that an incomplete frame has to grow by, over one ``deadline``, to count as
        /// progress. Default 100, at least 1 for each deadline; over TLS, encrypted bytes count.
        ///
        /// A large body may arrive slowly, but not more slowly than this. With `nil` any byte counts as progress, and a
        /// frame may stay incomplete forever. Use `nil` for servers that leave a frame incomplete, such as a prompt
        /// without a line end.
        ///
        /// After ``maximumStalls`` requests in a row have timed out without a complete frame, growth counts as progress
        /// only if a request that was written before the frame began is still waiting for its response. If a push may
        /// take longer to arrive than the timeouts of the requests whose responses follow it, the server should send
        /// the push in several frames.
        public var minimumRate: Int? = 100
        /// How long a request may be unanswered, without progress on the link, before the client sends a ping; `nil`
        /// for no limit. Default 5 s, at least 1 ms.
        ///
        /// A request that times out earlier causes a ping at once. The link is lost only if no progress follows the
        /// ping; the unanswered request alone does not end it. Pings are sent with `.pingPong` only; ``maximumStalls``
        /// uses this duration as well.
        public var probeAfter: Duration? = .seconds(5)
        /// How long the client may write nothing before it sends a ping, even if it receives frames or reading is
        /// suspended. Default `nil`: no limit. At least 1 ms.
        ///
        /// Set it for servers that close a link on which they receive nothing, such as MQTT servers (keep alive).
        /// Choose it well below the server's limit. This option has an effect with `.pingPong` only; with `.oneWay`,
        /// ``interval`` already counts from the last write.
        public var speakAfter: Duration?
        /// How many times in a row the server may fail to answer before the link is replaced, or `nil` for no limit.
        /// Default 3, at least 1.
        ///
        /// **Without pings that are answered**, this is the number of requests that time out in a row without any frame
        /// in between. A request counts if it was written, or if it waited for its turn because of one that timed out.
        /// The replaced link drains, so requests whose deadline has not passed may still be answered. The replacement
        /// counts as a failure of the endpoint, so the client moves from a server that hangs to the next endpoint.
        ///
        /// - Very short timeouts do not show that the server hangs, so the last timeout must come at least
        ///   ``probeAfter`` (``deadline`` if that is `nil`) after the first.
        /// - These requests do not count: cancelled requests, requests that time out while a `.suspendReading` buffer
        ///   holds back their responses, and, in protocols matched in order, requests after one whose deadline has not
        ///   passed.
        /// - A link that is lost does not restart the count. A link that the client ends itself does.
        ///
        /// **In protocols matched in order**, with or without a ping, this is also the number of times in a row that
        /// all requests in flight on a link may time out. The count restarts when every request on the link has been
        /// answered, however late. When the limit is reached, the client replaces the link with another one to the same
        /// server or, if no frame was received either, to the next endpoint.
        ///
        /// This detects a server that omitted a response. Each later response is then matched with the request
        /// before its own, and the last request in flight receives none, so it times out. Replacing such a link loses
        /// no request, because none is in flight; pushes between the two links may be lost. A server that answers every
        /// request too late, while there is always another request, looks the same: set a longer timeout for its
        /// requests, or set no limit.
        public var maximumStalls: Int? = 3

        /// Creates options with the default values.
        public init() {}
    }

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
        /// These count:
        ///
        /// - A request in flight: queued on a link, or written and not yet answered.
        /// - A request that was cancelled or timed out after its first byte was written. It counts until the server
        ///   answers it, its ``quarantine`` ends or its link ends (`Client.Metrics.abandoned`).
        /// - A one-way message until it is written.
        ///
        /// A request that is cancelled before its first byte was written no longer counts.
        ///
        /// With a limit of 1, for half-duplex servers, the server never receives a second request before it has
        /// answered the first, the quarantine of the first is over, or the link has ended. While an abandoned request
        /// holds the only place, the others wait within their own deadlines. Two things are not held back:
        ///
        /// - Heartbeats, including those sent as requests. For a server that must not receive one while it works, set
        ///   no heartbeat, or set `liveness.probeAfter` to `nil` and `liveness.interval` above the time of the slowest
        ///   request.
        /// - The handshake and the restoration of subscriptions on a new link while a draining link still has a request
        ///   in flight.
        ///
        /// Limits below 1,024 are assumed to protect the server: requests on draining links count, too, and the link is
        /// never replaced because of the limit. When a limit of 1,024 or more is reached and abandoned requests hold at
        /// least half of it, the link is replaced, as if serial numbers had run out (see ``quarantine``).
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
        /// How long the client assumes that the server works on an abandoned request, one that was cancelled or timed
        /// out after its first byte was written. Default 60 s.
        ///
        /// During this time its serial number is not reused, and it counts against ``maximumInFlight``. The quarantine
        /// ends early when the server answers. A part of the reply restarts it.
        ///
        /// Serial numbers belong to a link. With 65,536 of them, a link supports 65,536 / 60 s = 1,092 abandoned
        /// requests per second that are never answered. When requests have found no free serial for 250 ms and
        /// abandoned requests hold at least half of the serials, the link is replaced: all serials are free on the next
        /// link, and the old one drains. Unless the server answers something, further replacements come at the pace of
        /// `reconnecting.policy`. A call with `waitsForReady: false` that finds no free serial fails with `overloaded`,
        /// fate `notSent`.
        ///
        /// Protocols matched in order have no serials. There an abandoned request holds its place until it is answered
        /// or the link ends. The link is replaced when an abandoned request has kept other requests from being sent for
        /// longer than the quarantine.
        public var quarantine: Duration = .seconds(60)
        /// The longest time that `close()` waits for requests to end, and for a server that reads the remaining bytes
        /// slowly. Default 30 s.
        ///
        /// After this time the remaining requests fail with `closed`, fate `notSent` or `unknown`. If the server
        /// reads nothing, `close()` waits 2 s after the last request has ended. Slow observers are waited for as well,
        /// for at most 2 s more.
        public var drainTimeout: Duration = .seconds(30)

        /// Creates options with the default values.
        public init() {}
    }

    /// The limits of the response cache.
    ///
    /// Only responses to calls with a ``CachePolicy`` are cached. When a limit is reached, the least recently used
    /// responses are removed. With a limit of 0 or below nothing is cached, but identical calls at the same time still
    /// share one request. See <doc:Caching>.
    public struct Cache: Sendable {
        /// The maximum number of cached responses. Default 1,000.
        public var maximumCount = 1_000
        /// The maximum size of the cached responses in bytes. Default 16 MiB.
        ///
        /// Each counts as the body and fields of the response, the body and fields of the request (or the custom key),
        /// and 512 bytes. A response that is larger than the limit is not cached.
        public var maximumBytes = 16 * 1024 * 1024

        /// Creates options with the default values.
        public init() {}
    }

    /// The options for diagnosing why links end.
    public struct Diagnosis: Sendable {
        /// The closure that returns whether the network is up, to distinguish a network failure from a server failure.
        /// Default none.
        ///
        /// The client calls it after every abnormal end of a link or attempt. The closure may check, for example,
        /// whether another host can be reached or an interface has an address. The result becomes
        /// `DisconnectReport.isNetworkUp`, and the report waits for it. Reconnecting does not wait for it.
        public var probe: (@Sendable (DisconnectReport) async -> Bool)?
        /// How long a report waits for ``probe``. Then the task of the probe is cancelled, and `isNetworkUp` is `nil`.
        /// Default 3 s.
        public var probeTimeout: Duration = .seconds(3)

        /// Creates options with the default values.
        public init() {}
    }

    /// The limits for bytes that wait to be written.
    public struct Outbound: Sendable {
        /// The number of bytes waiting to be written at which further requests begin to wait. Default 1 MiB, at least
        /// 1.
        ///
        /// It also limits the messages that ``Client/enqueue(_:timeout:)`` has accepted and that are not yet written.
        public var highWatermark = 1024 * 1024
        /// The number of bytes waiting to be written below which the waiting requests continue. Default 256 KiB, at
        /// least 1 and at most ``highWatermark``.
        public var lowWatermark = 256 * 1024

        /// Creates options with the default values.
        public init() {}
    }

    /// The limits for bytes that were received and are not yet delivered.
    public struct Inbound: Sendable {
        /// The maximum number of received bytes that do not form a complete frame. Default 256 MiB.
        ///
        /// If a link exceeds the limit, the client closes it. Its requests fail with `overloaded`, fate `unknown`, and
        /// are not sent again; the cause is a ``FrameError`` that names the limit. In a protocol matched in order this
        /// is the oldest request, and the others fail with `connectionLost`.
        ///
        /// The limit protects the client from a codec that has none. It also applies to every received frame, so raise
        /// it if the codec's `maximumFrameSize` is larger. A length field above both limits is taken for arbitrary
        /// bytes: a `protocolViolation`.
        public var maximumUndecoded = 256 * 1024 * 1024
        /// How many bytes are read and held on a link while a full buffer with `.suspendReading`, of pushes or of a
        /// streamed reply, keeps frames from being delivered. Default 1 MiB.
        ///
        /// Until then the client answers the server's pings, checks the link as usual, and holds all other frames in
        /// order. When this many bytes are held, it stops reading. Each frame counts as its body, its named byte fields
        /// and about 200 bytes. With 0 it stops reading at once.
        ///
        /// The limit is shared by all links until the reader has caught up: what a lost or replaced link has handed over
        /// meanwhile counts, so the next link may hold only the rest.
        public var maximumHeld = 1024 * 1024

        /// Creates options with the default values.
        public init() {}
    }
}

/// The error that a handshake throws if the server refused it.
public struct HandshakeRefusal: Error, Sendable, CustomStringConvertible {
    /// Whether the failure is permanent, such as wrong credentials.
    ///
    /// If true, the client does not try the endpoint again until its failure is forgotten (`failover.halfLife`). When
    /// every endpoint has a permanent failure, waiting callers receive `unavailable`, and the next request tries again
    /// at the pace of `reconnecting.policy`. `reconnecting.retriesPermanentCauses` overrides this.
    public var isPermanent: Bool
    /// The reason, as a human-readable text.
    public var reason: String
    /// The minimum time before the next attempt at this endpoint, as the server requested it; `nil` if it requested
    /// none. Honored up to one hour while other endpoints can be used, otherwise up to
    /// `reconnecting.maximumRetryAfter` (60 s).
    public var retryAfter: Duration?

    /// Creates a refusal.
    ///
    /// - Parameters:
    ///   - reason: The reason, as a human-readable text.
    ///   - isPermanent: Whether the failure is permanent. Default true.
    ///   - retryAfter: The minimum time before the next attempt at this endpoint, or `nil`.
    public init(_ reason: String, isPermanent: Bool = true, retryAfter: Duration? = nil) {
        self.reason = reason
        self.isPermanent = isPermanent
        self.retryAfter = retryAfter
    }

    /// The reason, in one line. Control and format characters are escaped.
    public var description: String { "the handshake was refused: \(reason.asMessage)" }
}

extension ClientOptions: CustomReflectable {
    /// The options, with only the types of observers and interceptors: these may hold tokens.
    public var customMirror: Mirror {
        Mirror(
            self,
            children: [
                "connecting": connecting, "tls": tls, "reconnecting": reconnecting, "handshake": handshake,
                "failover": failover, "network": network, "liveness": liveness, "requests": requests, "cache": cache,
                "diagnosis": diagnosis, "outbound": outbound, "inbound": inbound,
                "observers": observers.map { "\(type(of: $0))" }, "recorder": recorderSettings as Any,
                "logging": logging as Any, "interceptors": interceptors.map { "\(type(of: $0))" },
            ],
            displayStyle: .struct
        )
    }
}
