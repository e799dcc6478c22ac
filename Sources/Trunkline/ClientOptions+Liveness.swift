extension ClientOptions {
    /// Noticing that a link is dead although nobody said so.
    ///
    /// With `.pingPong` that takes `interval + deadline` from the last byte at most: the link is replaced, and requests
    /// written to it fail with `connectionLost`, fate `unknown`, cause `TransportError.halfOpen`. A link whose reading is
    /// suspended (by a subscriber's `.suspendReading`, or because nobody asks a connection for its `frames`) is not
    /// judged: its silence counts from when reading goes on. Nor is one given up at once after process or machine slept:
    /// it is pinged first, with the whole deadline.
    public struct Liveness: Sendable {
        /// What is sent on a link that is quiet.
        public enum Heartbeat: Sendable, Hashable {
            /// Nothing.
            case none
            /// A ping after every interval in which we wrote nothing, and no answer is expected: for servers that want to
            /// hear from us.
            case oneWay
            /// A ping after every interval in which nothing came in. The server answers; a link that stays silent is
            /// replaced.
            case pingPong
        }

        /// What is sent on a link that is quiet. Default `.pingPong`; in protocols whose codec has no ping, none.
        public var heartbeat = Heartbeat.pingPong
        /// For how long nothing must have come in, with `.oneWay` gone out, for a ping to be sent. Default 30 s, at least
        /// 1 ms, as are the others.
        public var interval: Duration = .seconds(30)
        /// How long a ping may stay without any sign of life: a byte received, or one taken by the server from a full
        /// socket behind which the ping waits. Default 10 s.
        public var deadline: Duration = .seconds(10)
        /// A request unanswered for so long on a link that was silent since makes a ping go out at once; `nil` for never.
        /// Default 5 s. Only the ping's silence costs the link, never the request's. With `.pingPong` only.
        public var probeAfter: Duration? = .seconds(5)
        /// For how long we may write nothing before a ping goes out, whatever comes in and also while reading is suspended:
        /// for servers that close a link on which they do not hear from us (MQTT's keep alive). Choose it well below what
        /// the server allows. `nil`, the default, for never. With `.pingPong` only; `.oneWay` does that by its interval.
        public var speakAfter: Duration?
        /// In protocols matched in order: how many times in a row everything under way on a link may run out of time,
        /// without a moment in between at which every request had been answered, before the link is replaced. Default 3,
        /// at least 1; `nil` for never.
        ///
        /// A server that left an answer out has shifted all later answers by one for good, and this is how it shows: each
        /// time that the link comes to rest an answer is missing. No request is lost when such a link is replaced, since
        /// none is under way on it; pushes between the two links may be. Once every request has its answer, however late, the
        /// count begins anew; a server whose every answer comes too late, while there is always a request more, looks the
        /// same: give it more time, or no limit.
        public var maximumStalls: Int? = 3
    }
}
