extension ClientOptions {
    /// The options for detecting links that are dead although TCP has not reported it.
    ///
    /// **With pings that are answered** (`.pingPong`), a dead link is detected within ``interval`` plus ``deadline`` of
    /// the last complete frame. Requests written to it fail with `connectionLost`, fate `unknown`, cause
    /// `TransportError.Code.halfOpen`.
    ///
    /// **Without pings that are answered** (`.none`, `.oneWay`, a codec without a ping), a link is lost at once if a
    /// frame is incomplete for longer than `deadline` and grows more slowly than ``minimumRate``. It is also replaced
    /// when ``maximumStalls`` requests in a row time out without a frame in between.
    ///
    /// A dead link counts as a failure of the endpoint, and so does a link that was replaced because ``maximumStalls``
    /// requests timed out without a frame in between: the next attempt goes to another endpoint, if there is one. While
    /// the client does not read a link, it does not check it. Pings and checks may be late by a twentieth of the
    /// shortest of ``interval``, ``deadline``, ``probeAfter`` and ``speakAfter``, at most 250 ms. See
    /// <doc:StayingConnected#Heartbeats-and-liveness>.
    public struct Liveness: Sendable {
        /// Which pings the client sends on an idle link. Default `.pingPong`; with a codec that has no ping, nothing is
        /// sent.
        public var heartbeat = HeartbeatMode.pingPong
        /// The time without a received frame after which the client sends a ping. Default 30 s, at least 1 ms.
        ///
        /// With `.oneWay` it counts from the last write instead. With ``adaptiveInterval`` the client learns it. Set it
        /// below the idle timeout of the server and of every device on the path, such as load balancers and NAT
        /// gateways.
        public var interval: Duration = .seconds(30)
        /// The range within which the client learns the interval of the heartbeats, instead of the fixed ``interval``.
        /// Default `nil`: it does not. The lower bound is at least 1 ms.
        ///
        /// ```swift
        /// options.liveness.adaptiveInterval = .seconds(30)...(.seconds(600))
        /// ```
        ///
        /// A device on the path, such as a NAT gateway, a firewall or a load balancer, may forget links that are idle
        /// for too long, without notifying either side. The client learns for each endpoint and ``NetworkPath`` how
        /// long links survive. It starts with 3.5 min, or the nearest interval within the range. The interval grows by
        /// 60 s after five intervals without traffic that a link has survived. A link that is lost in silence, or
        /// reset, by what was sent after a time without traffic makes it shorter at once, by 80 s or more. That
        /// interval and longer ones are not tried again for seven days. <doc:StayingConnected#Learning-the-interval>
        /// has all rules.
        ///
        /// A dead idle link is detected within the present interval plus ``deadline``. ``probeAfter`` still limits how
        /// long a request on it goes unnoticed.
        ///
        /// The option has an effect only with `.pingPong` and a codec that has a ping; otherwise `interval` applies.
        /// Set the lower bound to what every path allows. If the handshake changes `interval`
        /// (``Handshaker/setLiveness(_:)``), its link uses that interval and teaches nothing; if it changes this range,
        /// the interval stays within the new range. The kernel's first probe (`connecting.keepAlive`) waits until after
        /// the upper bound and `deadline`, because it would keep idle links alive.
        public var adaptiveInterval: ClosedRange<Duration>?
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
        /// Whether an unanswered ping ends a link although the server may only be busy with a request. Default `false`.
        ///
        /// A server that works on one request at a time answers a ping after the requests before it. With `false`, the
        /// ``deadline`` of a ping begins anew while one of these is true, and once more when it ends:
        ///
        /// - The endpoint is a child process, a pipe or another descriptor, or a Unix domain socket, and any request is
        ///   in flight.
        /// - The protocol is matched in order, a request that was written before the ping is in flight, and the kernel
        ///   of the peer has acknowledged all bytes. Pings are repeated meanwhile, so a path that breaks is still
        ///   noticed within twice the `deadline`. Where the system does not report acknowledgments, or a proxy is
        ///   between, the ping decides.
        ///
        /// A request in flight is one whose caller waits. Its timeout, and ``maximumStalls``, still end a link to a
        /// server that hangs. Set the option to `true` if the server answers pings while it works.
        public var endsBusyLinks = false
        /// How many times in a row the server may fail to answer before the link is replaced, or `nil` for no limit.
        /// Default 3, at least 1.
        ///
        /// - **Without pings that are answered**: the number of requests that time out in a row without any frame in
        ///   between, the last at least ``probeAfter`` (``deadline`` if that is `nil`) after the first. A request
        ///   counts if it was written, or if it waited for its turn because of one that timed out. The link drains, and
        ///   the client moves to the next endpoint. <doc:ConnectionStates#Progress> lists the timeouts that do not
        ///   count.
        /// - **In protocols matched in order**, with or without a ping: also the number of times in a row that all
        ///   requests in flight on a link may time out. The count restarts when every request on the link has been
        ///   answered, however late. The next link goes to the same server or, if no frame was received either, to the
        ///   next endpoint. See <doc:Requests#Protocols-matched-in-order>.
        public var maximumStalls: Int? = 3

        /// Creates options with the default values.
        public init() {}
    }
}

extension ClientOptions.Liveness {
    /// How late a check may be, so that many connections are checked in one turn of their loop. With 10,000 idle ones,
    /// half of the processor time was waking up for each of them: 2.2 % of a processor instead of 1.1 %.
    var grid: Duration {
        let interval = adaptiveInterval.map { max(.milliseconds(1), $0.lowerBound) } ?? interval
        let shortest = min(interval, deadline, probeAfter ?? interval, speakAfter ?? interval)
        return min(shortest / 20, .milliseconds(250))
    }
}
