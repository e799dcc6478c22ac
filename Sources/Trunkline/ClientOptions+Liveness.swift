extension ClientOptions {
    /// Noticing that a link is dead although nobody said so.
    public struct Liveness: Sendable {
        /// What is sent on a link that is quiet.
        public enum Heartbeat: Sendable, Hashable {
            /// Nothing.
            case none
            /// A ping that the server does not answer: for servers that want to hear from us.
            case oneWay
            /// A ping that the server answers; a link whose server does not is replaced.
            case pingPong
        }

        /// What is sent on a link that is quiet. Default `.pingPong`; in protocols whose codec has no ping, none.
        public var heartbeat = Heartbeat.pingPong
        /// For how long nothing must have come in for a ping to go out. Default 30 s.
        public var interval: Duration = .seconds(30)
        /// How long a ping may stay without any sign of life. Default 10 s.
        public var deadline: Duration = .seconds(10)
        /// A request unanswered for so long on a link that is otherwise silent makes a ping go out at once; `nil` for
        /// never. Default 5 s. Only the ping's silence costs the link, never the request's.
        public var probeAfter: Duration? = .seconds(5)
    }
}
