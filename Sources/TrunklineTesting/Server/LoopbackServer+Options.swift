import Trunkline

extension LoopbackServer {
    /// How a test server behaves, beside its handler.
    public struct Options: Sendable {
        /// The path of a Unix domain socket to listen on, which must not exist, instead of a TCP port of 127.0.0.1.
        public var unixPath: String?
        /// The TCP port to listen on; 0, the default, for one that is free.
        public var port: UInt16 = 0
        /// What connections are secured with; `nil`, the default, for none.
        public var tls: TLS?
        /// Whether a delayed or held reply goes out although its request was cancelled meanwhile. Default false.
        public var answersCancelled = false
        /// Whether pings are answered, in protocols that answer them. Default true; see `answerPings(_:after:)`.
        package var answersPings = true
        /// How long after they came. Default none.
        package var pongDelay = Duration.zero
        /// What to do when a client has connected, as if it had sent an empty request.
        public var onConnect: Reaction?
        /// The status of an echo, where the protocol has one; `nil`, the default, for the first of the layout's role
        /// `success`.
        public var successStatus: UInt32?
        /// How many frames `received` holds at most, the latest ones. Default 10,000.
        package var recordedFrames = 10_000
        /// How many bytes of bodies and named bytes `received` holds at most. Default 16 MiB.
        package var recordedBytes = 16 * 1024 * 1024
        /// How many connections may be open at once; further ones are closed as soon as they are accepted, and counted
        /// (`Journal.refusedConnectionCount`). Default 10,000, at least 0. Without descriptors, which the system may have fewer of
        /// (`ulimit -n`), connections wait until there is one.
        package var maximumConnections = 10_000
        /// A connection whose client leaves more bytes than this unread is reset. Default 256 MiB.
        package var maximumUnsent = 256 * 1024 * 1024

        /// The defaults.
        public init() {}

        /// The defaults but for what `change` changes.
        public init(_ change: (inout Options) throws -> Void) rethrows { try change(&self) }
    }
}
