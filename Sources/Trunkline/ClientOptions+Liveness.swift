extension ClientOptions {
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
        /// What is sent on a link that is quiet.
        public enum Heartbeat: Sendable, Hashable {
            /// Nothing.
            case none
            /// A ping after every interval in which we wrote nothing, and no answer is expected: for servers that want to
            /// hear from us.
            case oneWay
            /// A ping after every interval in which no frame came in. The server answers; a link that stays silent is
            /// replaced.
            case pingPong
        }

        /// What is sent on a link that is quiet. Default `.pingPong`; in protocols whose codec has no ping, none.
        public var heartbeat = Heartbeat.pingPong
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
        ///   waited their turn behind such a one), with not a single frame in between. The link is left; requests that still have time may be answered there. It counts as a failure
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
    }
}
