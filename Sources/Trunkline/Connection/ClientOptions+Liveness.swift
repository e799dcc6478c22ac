extension ClientOptions {
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
}

extension ClientOptions.Liveness {
    /// How late a check may be, so that many connections are checked in one turn of their loop. With 10,000 idle ones,
    /// half of the processor time was waking up for each of them: 2.2 % of a processor instead of 1.1 %.
    var grid: Duration {
        let shortest = min(interval, deadline, probeAfter ?? interval, speakAfter ?? interval)
        return min(shortest / 20, .milliseconds(250))
    }
}
