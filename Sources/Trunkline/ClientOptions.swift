/// How a client or a connection behaves. The defaults suit a server that talks to another in the same region.
public struct ClientOptions: Sendable {
    /// Establishing links.
    public var connecting = Connecting()
    /// Securing the links to `tls://` endpoints.
    public var tls = TLS()
    /// Replacing links that failed or were lost.
    public var reconnecting = Reconnecting()
    /// What happens on every new link before anything else.
    public var handshake = Handshake()
    /// Going from one endpoint to another.
    public var failover = Failover()
    /// Following the host's network.
    public var network = Network()
    /// Noticing that a link is dead although nobody said so.
    public var liveness = Liveness()
    /// Requests and their responses.
    public var requests = Requests()
    /// Responses that are kept for later callers.
    public var cache = Cache()
    /// Finding out why links end.
    public var diagnosis = Diagnosis()
    /// Bytes on their way out.
    public var outbound = Outbound()
    /// Bytes on their way in.
    public var inbound = Inbound()

    /// The defaults.
    public init() {}

    /// The defaults but for what `change` changes.
    public init(_ change: (inout ClientOptions) throws -> Void) rethrows { try change(&self) }
}

extension ClientOptions {
    /// Establishing links.
    ///
    /// All addresses of a name are used, as RFC 8305 (Happy Eyeballs version 2) says: IPv6 first, then the families take
    /// turns; an attempt that takes long goes on while the next one starts; the first that succeeds wins.
    public struct Connecting: Sendable {
        /// From the start of an attempt at an endpoint until its link is ready, or begins to restore subscriptions, which
        /// has a bound of its own (`handshake.timeout`). Name resolution and all addresses share it. Default 3 s.
        public var timeout: Duration = .seconds(3)
        /// From the attempt at one address of an endpoint to the attempt at its next; one that fails is followed at once.
        /// Held within 100 ms and 2 s. Default 250 ms (RFC 8305 §8).
        public var attemptDelay: Duration = .milliseconds(250)
        /// For how long IPv6 addresses are waited for when a name's IPv4 addresses are known first. Held within 0 and 2 s.
        /// Default 50 ms (RFC 8305 §8).
        public var resolutionDelay: Duration = .milliseconds(50)
        /// The IP address (not a name) to connect from; `nil`, the default, lets the system choose. A server's addresses of
        /// the other family are skipped. Every attempt fails with `TransportError.Code.invalidAddress` when it is no IP
        /// address, or none of this host. The former is a permanent cause, as is a server without an address of its family:
        /// callers are told `unavailable` at once. The latter is not: an interface may come up.
        public var sourceAddress: String?
        /// Sends small segments at once (TCP_NODELAY). Default true.
        public var noDelay = true
        /// Lets the kernel probe a server that is quiet (SO_KEEPALIVE); `nil` for never. Default: after 60 s, every 10 s,
        /// three times.
        public var keepAlive: KeepAliveOptions? = KeepAliveOptions()
        /// For how long bytes that were written may stay unacknowledged, or the server's full receive window may stay shut,
        /// before the link is lost (TCP_USER_TIMEOUT), in milliseconds; `nil` for as long as the system sees fit, which
        /// is about 15 minutes on Linux. Ignored on other systems.
        ///
        /// Default 30 s: some seven retransmissions, which outlasts a route that changes or a Wi-Fi that roams, and yet less
        /// than a heartbeat's interval and deadline. Raise it for a server that stops reading for longer on purpose.
        public var userTimeout: Duration? = .seconds(30)

        /// The defaults.
        public init() {}
    }

    /// Links to endpoints that are written `tls://host:port`.
    ///
    /// The defaults ask for what is right on the public internet: the server's certificate leads to one of the system's
    /// roots, is valid today, and is for the name or address that the endpoint has. See the article <doc:TLS>.
    public struct TLS: Sendable {
        /// Who is believed about a server.
        public enum Roots: Sendable {
            /// The certification authorities that the system trusts.
            case system
            /// These certificates, and no others.
            case only(PEM)
            /// These certificates beside the system's.
            case systemAnd(PEM)
        }

        /// How a server proves who it is.
        public enum Verification: Sendable, Hashable {
            /// By a certificate that leads to a root and is for its name (RFC 9525) or its IP address.
            case full
            /// Not at all: whoever is on the way can read and change everything. Pins are still looked for: with one, the
            /// server at least has that key. For tests.
            case insecureNone
        }

        /// The oldest version to agree to. Default TLS 1.2; nothing older can be chosen (RFC 8996).
        public var minimumVersion = TLSVersion.tls12
        /// Who is believed about a server. Default: the system's roots, which for OpenSSL is the directory or file that it
        /// was built with, or the ones in the environment variables `SSL_CERT_DIR` and `SSL_CERT_FILE`.
        public var roots = Roots.system
        /// How a server proves who it is. Default `full`.
        public var verification = Verification.full
        /// The name that is asked for (SNI, RFC 6066 §3) and that the certificate must be for; `nil`, the default, for the
        /// host of the endpoint. Needed for Unix domain sockets, and where the endpoint has an address but the certificate a
        /// name.
        public var serverName: String?
        /// Whom the server is shown when it asks (mutual TLS). Default nobody.
        public var identity: TLSIdentity?
        /// What is offered by ALPN (RFC 7301), the best first. Where there are any, a server that chooses none is refused with
        /// `noApplicationProtocol`. Default none.
        public var applicationProtocols: [String] = []
        /// Public keys of which at least one must be in the server's chain, besides everything else that is asked of it.
        /// Default none. Have two, one of a key that is in reserve: with one, the day the key is lost is the last.
        public var pins: Set<PublicKeyPin> = []
        /// How often the files given as `.file` (roots, certificates, private key) are looked at while there is a link.
        /// Default 60 s, at least 1 ms; `nil` for never.
        ///
        /// When one has changed, the next link is made with it, and then the present one drains: a planned change, as by
        /// `Client.renewLink()`. Without this, the next link uses the new files, whenever that is made. A file has changed when
        /// stat(2) finds another inode, size or time of change; its text is read for the next link only.
        public var rotationCheck: Duration? = .seconds(60)

        /// The defaults.
        public init() {}
    }

    /// Replacing links that failed or were lost.
    ///
    /// After giving up, the next request starts over: with as many attempts as before, but not before the wait is over
    /// that would have come next. So callers who ask again as soon as they are told `unavailable` are no storm; they
    /// learn that there is (still) no server at the pace of the policy, or meet their own deadline.
    public struct Reconnecting: Sendable {
        /// Whether to try again, and when; `nil` for never: a link that failed or was lost is not replaced, and the next
        /// request connects anew. Default: `Backoff()`, exponential with full jitter.
        public var policy: (any ReconnectPolicy)? = Backoff()
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
        /// Whether a link that the server closed in order is replaced although no request waits and there is
        /// neither a subscription nor a stream of pushes. Default false: the client goes to `idle`, and the next request connects.
        ///
        /// Set it where the next request must not pay for connecting. A link that was lost in any other way is replaced
        /// in any case.
        public var keepsLinkWarm = false
        /// Tries again even after a cause that time does not mend (a handshake refused for good, an address that is
        /// none). Default false: an endpoint with such a cause is left out until its failure is forgotten
        /// (`Failover.halfLife`), and when all have one, callers who wait are told `unavailable`.
        public var retriesPermanentCauses = false

        /// The defaults.
        public init() {}
    }

    /// What happens on every new link before anything else.
    public struct Handshake: Sendable {
        /// Logs in, negotiates, identifies: runs on every new link before any other traffic, on no actor. Default none.
        ///
        /// What it throws ends the attempt: `HandshakeRefusal` says whether for good; any other error is taken for a
        /// failure that time may mend, unless it is `invalidRequest`, `invalidResponse` or `invalidArgument`, which are mistakes of the
        /// closure's own. Requests that callers make meanwhile wait and go out after it, in order.
        public var perform: (@Sendable (Handshaker) async throws -> Void)?
        /// Restores what the server knew of us, after `perform`, given the requests of `Client.subscribe(_:timeout:)` in their
        /// order. Those of `Client.subscribe(posting:timeout:)` have been written by then.
        ///
        /// By default it sends all of them, `maximumInFlight` at a time. If the server rejects one, the attempt fails and
        /// is repeated. To keep the link instead, send them with `Handshaker.send(all:)` and ignore what may be
        /// rejected:
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
        /// How many requests of `Handshaker.send(all:)`, and so of the default `restore`, may be unanswered at a time.
        /// Default 64, at least 1. A `requests.maximumInFlight` below 1,024 limits it, too.
        public var maximumInFlight = 64
        /// How long `perform` may take, and how long `restore` may go without a response. Default 2 s.
        ///
        /// `perform` is bounded by `connecting.timeout` too. `restore` is bounded by its progress alone, however many
        /// subscriptions there are: it has this time from its start, and again from every response to one of its
        /// requests. With *n* subscriptions that is at most *n* + 1 times this; callers wait within their own deadlines.
        public var timeout: Duration = .seconds(2)

        /// The defaults.
        public init() {}
    }

    /// Going from one endpoint to another.
    public struct Failover: Sendable {
        /// A share of failed requests from which on an endpoint is left.
        public struct ErrorRate: Sendable, Hashable {
            /// The share, above 0 up to 1. Default 0.1.
            public var share = 0.1
            /// Fewer requests than this within the window say nothing. Default 40, at least 1.
            public var minimumRequests = 40
            /// How far back it looks. Default 30 s.
            public var window: Duration = .seconds(30)

            /// The defaults: a tenth of at least 40 requests within 30 s.
            public init() {}
        }

        /// The order in which endpoints are tried. Default `.ordered`.
        public var order = EndpointOrder.ordered
        /// An endpoint that failed is tried after those that did not, until its failure is forgotten: after three of
        /// these. Default 30 s; zero forgets at once.
        public var halfLife: Duration = .seconds(30)
        /// From which share of requests failed by timeout or connection loss (not by the server's status) the endpoint is
        /// left for the next one; `nil` for never. Default: 10 % of at least 40 within 30 s. Timeouts while a `.suspendReading`
        /// keeps the answers do not count. A server that answers nothing at all is left sooner, and by clients that ask little:
        /// see `liveness.maximumStalls`.
        public var errorRate: ErrorRate? = ErrorRate()
        /// How long a draining link (after a planned change, for example) may take to finish its requests. Those that are still
        /// under way then are lost, fate `unknown`: longer than the longest timeout of a request. Default 120 s.
        public var drainTimeout: Duration = .seconds(120)
        /// How long to stay away from a preferred endpoint before a planned change returns to it; `nil`, the default, to stay
        /// where it works. If it has failed lately, or the change was given up, it is considered again after the same time, at
        /// least 1 s.
        public var returnsToPreferredAfter: Duration?
        /// How long a link is used before a planned change replaces it by another to the same endpoint, counted from when it was
        /// ready. Default `nil`: any time. At least 1 ms.
        ///
        /// Drawn anew for each link from 90 to 100 % of this, so that the clients of a server that has restarted do not all come
        /// at once. With each link names are resolved again, a load balancer chooses again, and changed certificates are used.
        public var maximumLinkAge: Duration?
        /// Whether two links may exist at a time, as when a planned change makes the next one. Default `.allowed`.
        public var overlap = LinkOverlap.allowed
        /// Whether requests go out on a link whose server has said that it goes (`goAway`), until the next link is ready. Default
        /// true: no request waits.
        ///
        /// Set it to false for servers that ignore what comes after their goAway, as those of HTTP/2 do (RFC 9113 §6.8): a
        /// request that such a server ignores fails when the link ends, fate `unknown`. The link drains at once then, and
        /// requests wait for the next one. So does, whatever this says, a link that a frame ends (`Frame.markLinkEnding()`).
        public var sendsAfterGoAway = true

        /// The defaults.
        public init() {}
    }

    /// Following the host's network: its interfaces, addresses and routes.
    ///
    /// - When an attempt has failed and no route leads to any endpoint, attempts pause (`ConnectionState.noNetwork`). They begin
    ///   anew within about 100 ms of a route.
    /// - A link whose local address is gone, or whose interface is down, is lost at once (`DisconnectCause.pathLost`), and
    ///   replaced.
    /// - When the route of a link changes, or the machine wakes up, `onRouteChange` decides.
    ///
    /// Loopback addresses and Unix domain sockets are not affected. See the article <doc:Connecting>.
    public struct Network: Sendable {
        /// Whether changes are followed. Default true.
        ///
        /// One monitor serves the whole process: netlink(7) on Linux, `NWPathMonitor` on Darwin (not run there). It needs no
        /// privilege. Where the system does not allow it, one line on standard error says so, every path is `unknown`, and
        /// broken links are noticed by TCP and `options.liveness` alone.
        public var isMonitored = true
        /// What becomes of a link when its route changes or the machine wakes up. Default `.probe`. It does not concern
        /// `noNetwork` and `pathLost`.
        public var onRouteChange = RouteChangePolicy.probe

        /// The defaults.
        public init() {}
    }

    /// Noticing that a link is dead although nobody said so.
    ///
    /// With `.pingPong` that takes `interval + deadline` from the last complete frame at most: the link is replaced, and
    /// requests written to it fail with `connectionLost`, fate `unknown`, cause `TransportError.halfOpen`. Bytes alone are no
    /// sign of life, or a link that has lost framing would be kept for as long as they trickle in: a frame that is
    /// incomplete for longer than `deadline` has to grow at `minimumRate`.
    ///
    /// Without pings that are answered (`.none`, `.oneWay`, a codec without a ping), a frame that is incomplete for longer
    /// than `deadline`, and grows more slowly than that, costs the link at once; and requests that time out in a row without
    /// a single frame in between cost it by `maximumStalls`.
    ///
    /// A link that is not read (because `inbound.maximumHeld` is reached for a stream's `.suspendReading`, or nobody asks
    /// a connection for its `frames`) is not judged: its silence counts from when reading goes on. Meanwhile the server's
    /// pings stay unanswered; an end in good order is noticed when reading goes on, and a broken connection (a reset, or
    /// one given up by the kernel: `connecting.keepAlive`, `connecting.userTimeout`) by a write that fails, or within
    /// `interval`. Nor is a link given up at once after process or machine slept: it is pinged first, with the whole
    /// deadline.
    ///
    /// A link that is silent from its beginning to its end, and one ended by `maximumStalls` without any frame, count as a
    /// failure of its endpoint: the next attempt goes to another one, if there is one.
    public struct Liveness: Sendable {
        /// What is sent on a link that is quiet. Default `.pingPong`; in protocols whose codec has no ping, none.
        public var heartbeat = HeartbeatMode.pingPong
        /// For how long no frame must have come in, with `.oneWay` gone out, for a ping to be sent. Default 30 s, at least
        /// 1 ms, as are the others.
        public var interval: Duration = .seconds(30)
        /// How long a ping may stay without progress: a complete frame received, whatever it is, a frame that grows at
        /// `minimumRate`, or bytes taken by the server from a full socket behind which the ping waits. And how long a frame may
        /// be incomplete and grow more slowly before the server is asked by a ping. Default 10 s.
        public var deadline: Duration = .seconds(10)
        /// How many bytes per second an incomplete frame has to grow by, over a `deadline`, for that to be progress; with TLS
        /// its encrypted bytes. So a large body may take its time, but a trickle may not. `nil` takes any byte for
        /// progress and lets a frame be incomplete for ever: for servers that leave one unfinished, such as a prompt without a line
        /// end. Default 100.
        ///
        /// Growth is progress only while the frame can be what a request waits for: after `maximumStalls` requests that timed
        /// out in a row without a complete frame, one that was written before the frame began must still wait. A push that takes
        /// longer than the requests behind it, and is to arrive all the same, should be sent in several frames.
        public var minimumRate: Int? = 100
        /// A request unanswered for so long on a link without progress since makes a ping go out at once, and so does one that
        /// timed out before; `nil` for never. Default 5 s. Only the ping's silence costs the link, never the request's. With
        /// `.pingPong` only; `maximumStalls` uses it as well.
        public var probeAfter: Duration? = .seconds(5)
        /// For how long we may write nothing before a ping goes out, whatever comes in and also while reading is suspended:
        /// for servers that close a link on which they do not hear from us (MQTT's keep alive). Choose it well below what
        /// the server allows. `nil`, the default, for never. With `.pingPong` only; `.oneWay` does that by its interval.
        public var speakAfter: Duration?
        /// How many failures in a row to answer are too many for a link. Default 3, at least 1; `nil` for never.
        ///
        /// - Without pings that are answered: so many requests that timed out, after they had been written (or while they
        ///   waited their turn behind such a one), with not a single frame in between. The link drains; requests that still have time may be answered there. It counts as a failure
        ///   of the endpoint, so a client of a server that hangs goes on to the next. Since no number of very short
        ///   timeouts proves anything, the latest must come at least `probeAfter` (`deadline` if that is `nil`) after the
        ///   first. Cancelled requests do not count, nor those that time out while a `.suspendReading` keeps their answers,
        ///   nor, in protocols matched in order, those behind a request that still has time. A link that is lost does not
        ///   begin the count anew; one that the client ends itself does.
        /// - In protocols matched in order, with a ping or not: how many times everything under way on a link may time
        ///   out, without a moment in between at which every request had been answered. The link is left for another to
        ///   the same server, or, if no frame has come either, to the next endpoint.
        ///
        /// A server that left an answer out has shifted all later answers by one for good, and this is how it shows: each
        /// time that the link comes to rest an answer is missing. No request is lost when such a link is replaced, since
        /// none is under way on it; pushes between the two links may be. Once every request has its answer, however late, the
        /// count begins anew; a server whose every answer comes too late, while there is always a request more, looks the
        /// same: give it more time, or no limit.
        public var maximumStalls: Int? = 3

        /// The defaults.
        public init() {}
    }

    /// Requests and their responses.
    public struct Requests: Sendable {
        /// From the call until the response, for calls that do not say otherwise; `nil` for no limit. Default 8 s.
        public var timeout: Duration? = .seconds(8)
        /// The time that a streamed reply has from the call to its end, where a call does not say; `nil`, the default, for any.
        /// `timeout` is the longest wait for each of its parts.
        public var streamTimeout: Duration?
        /// How many requests may be out, or on their way, at once; the others wait their turn. Default 65,536, at
        /// least 1.
        ///
        /// It counts everything on which the server may still be working. A request that was given up after its first byte was
        /// written counts until the server answers it, its `quarantine` ends or its link ends: see
        /// `Client.Statistics.abandoned`. One of which nothing was written counts no more at once, and a one-way message
        /// counts until it is written.
        ///
        /// A limit of 1 is the one-at-a-time mode, for half-duplex servers: none ever sees a second request before the first
        /// was answered, its quarantine is over, or the link has ended. While a request that was given up holds the only
        /// place, the others wait within their own deadlines. Not held back are heartbeats, also those that are requests (set
        /// `liveness.probeAfter = nil` and an `interval` above the slowest request, or no heartbeat), and the handshake
        /// and restoration on a new link while a draining link still has a request under way.
        ///
        /// A limit below 1,024 is taken to protect the server: requests on links that drain count, too. When a limit of 1,024
        /// or more is reached and requests that were given up hold half of it, the link is replaced as if serial numbers had
        /// run out (`quarantine`).
        public var maximumInFlight = 65_536
        /// How many requests may wait their turn, or for a link; one more fails with `overloaded`, fate `notSent`.
        /// `Client.enqueue` accepts as many messages besides. Default 1,000,000.
        public var maximumWaiting = 1_000_000
        /// How many bytes of memory requests may take that wait: for a link, for their turn, or above
        /// `outbound.highWatermark`. A request beyond them fails with `overloaded`, fate `notSent`. Each counts as its body, its
        /// named bytes and 544 bytes: 32 for the rest of its frame, and 512 for its places in the client's tables and its deadline. The tasks of
        /// its callers come on top. One request may wait alone, whatever its size. Default 256 MiB, enough for some 490,000
        /// requests with small bodies. The memory is given back when they have left.
        public var maximumWaitingBytes = 256 * 1024 * 1024
        /// How many bytes of bodies `send` and `start` reassemble when a reply comes in parts. A longer reply fails with
        /// `overloaded`, fate `unknown` (`answered` if it was the last part that was too much), and that request alone: it
        /// is cancelled and its rest is dropped. Replies that come whole are not concerned: they have the codec's
        /// `maximumFrameSize`. `stream` has a buffer of its own (`ReplyBuffering`). Default 16 MiB.
        public var maximumReplySize = 16 * 1024 * 1024
        /// How many bytes of bodies all replies together hold that `send` and `start` are reassembling. A part beyond
        /// them fails its request with `overloaded`, fate `unknown`, as `maximumReplySize` does; the others go on.
        /// Default 256 MiB.
        public var maximumReassemblyBytes = 256 * 1024 * 1024
        /// Whether requests that fail are sent again, for calls that do not say otherwise. Default `.ifUnsent`.
        public var retry = RetryPolicy.ifUnsent
        /// What all retries of a client draw on; `nil` for no limit. Default: a fifth of all requests, and 10 per second.
        public var retryBudget: RetryBudget? = RetryBudget()
        /// How long the server may be at work on a request that was given up, if it does not answer: so long its serial number
        /// is kept from use, and its place below `maximumInFlight`. A part of its reply begins it anew. Default 60 s.
        ///
        /// Serial numbers belong to a link. With 65,536 of them, a link bears 65,536 / 60 s = 1,092 requests per second that
        /// are given up and never answered. When a request has found none free for 250 ms, and at least half are held in this
        /// way, the link is replaced: the next one has all of them, and the old one drains. Further replacements come at the
        /// pace of `reconnecting.policy`, unless the server answers something. Calls with `waitsForReady: false` that find no serial
        /// fail with `overloaded`, fate `notSent`.
        ///
        /// Protocols matched in order have no serials, and a place is held until it is answered or the link ends: the link is
        /// replaced when a request that was given up has kept others from going out for longer than this.
        public var quarantine: Duration = .seconds(60)
        /// How long `close()` waits for requests that have no deadline, or a later one, and for a server that reads slowly what
        /// is left to be written; one that reads nothing has 2 s once the last request has ended. Default 30 s.
        public var drainTimeout: Duration = .seconds(30)

        /// The defaults.
        public init() {}
    }

    /// Responses that are kept for later callers: those to calls with a `CachePolicy`, and no others.
    ///
    /// What was not used for longest makes room. At 0 or below nothing is kept; calls that ask for the same at the same
    /// time are coalesced into one request all the same.
    public struct Cache: Sendable {
        /// How many responses are kept. Default 1,000.
        public var maximumCount = 1_000
        /// How many bytes they hold: the response's body and fields, those of the request (or your own key), and 512 bytes of
        /// bookkeeping for each. A response that is larger by itself is not kept. Default 16 MiB.
        public var maximumBytes = 16 * 1024 * 1024

        /// The defaults.
        public init() {}
    }

    /// Finding out why links end.
    public struct Diagnosis: Sendable {
        /// Asked after every abnormal end whether the network is up, to tell "our network" from "that server": can another
        /// host be reached, does an interface have an address? The answer becomes `DisconnectReport.isNetworkUp`, and the
        /// report waits for it. Default none. Reconnecting does not wait for it.
        public var probe: (@Sendable (DisconnectReport) async -> Bool)?
        /// How long a report waits for `probe`, whose task is cancelled then. Default 3 s.
        public var probeTimeout: Duration = .seconds(3)

        /// The defaults.
        public init() {}
    }

    /// Bytes on their way out.
    public struct Outbound: Sendable {
        /// From so many bytes on, requests wait their turn. `Client.enqueue` accepts as many bytes of messages at once.
        /// Default 1 MiB.
        public var highWatermark = 1024 * 1024
        /// Below so many bytes they go on. Default 256 KiB; held at or below `highWatermark`.
        public var lowWatermark = 256 * 1024

        /// The defaults.
        public init() {}
    }

    /// Bytes on their way in.
    public struct Inbound: Sendable {
        /// A link with more bytes than this that are no complete frame is closed (`protocolViolation`, fate `unknown`, cause
        /// `illegalLength`): the last resort against a codec without a limit of its own, and so a limit on every frame that
        /// can be received. Raise it with a codec's `maximumFrameSize` above it. Default 256 MiB.
        public var maximumUndecoded = 256 * 1024 * 1024
        /// How much is read on a link while a stream of pushes, or of a reply, whose full buffer asks for it
        /// (`.suspendReading`) keeps frames from being handed over: the server's pings are answered and the link is judged as
        /// ever, and what else comes is held, in order. When so many bytes are held, a frame counting as its body, its named
        /// bytes and some 200 bytes, nothing more is read. With 0 reading stops at once. Default 1 MiB.
        public var maximumHeld = 1024 * 1024

        /// The defaults.
        public init() {}
    }
}

/// Thrown by a handshake that the server did not accept.
public struct HandshakeRefusal: Error, Sendable, CustomStringConvertible {
    /// Time does not mend it (wrong credentials): there is no further attempt until somebody asks for a link again, and
    /// callers who wait are told `unavailable`. `reconnecting.retriesPermanentCauses` overrules it.
    public var isPermanent: Bool
    /// What the server said, for people.
    public var reason: String
    /// How long the server wants us to stay away at least.
    public var retryAfter: Duration?

    /// A refusal for good, unless `isPermanent` is false.
    public init(_ reason: String, isPermanent: Bool = true, retryAfter: Duration? = nil) {
        self.reason = reason
        self.isPermanent = isPermanent
        self.retryAfter = retryAfter
    }

    /// The reason in words, in one line: control and format characters are escaped.
    public var description: String { "the handshake was refused: \(reason.asMessage)" }
}
