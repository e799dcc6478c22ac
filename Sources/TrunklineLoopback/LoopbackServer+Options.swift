import TrunklineCore

extension LoopbackServer {
    /// Settings of a test server, apart from its handler.
    public struct Options: Sendable {
        /// The path of a Unix domain socket to listen on, instead of a TCP port of 127.0.0.1. No file may exist there.
        /// Default `nil`.
        public var unixPath: String?
        /// The TCP or UDP port to listen on. Default 0: a free port that the system chooses.
        public var port: UInt16 = 0
        /// Whether the server receives datagrams (UDP) instead of connections. Default `false`.
        ///
        /// Each address from which datagrams come counts as a connection: until the server ends it, or for about a
        /// minute after its latest datagram. A datagram that is not a complete frame is counted in the journal and
        /// dropped. TLS cannot be used.
        public var receivesDatagrams = false
        /// The TLS settings of connections, or `nil`, the default, for plaintext.
        public var tls: TLS?
        /// Whether a delayed or held reply is sent although its request was cancelled meanwhile. Default `false`.
        public var answersCancelled = false
        /// See `answerPings(_:after:)`.
        var answersPings = true
        var pongDelay = Duration.zero
        /// The reaction to a new connection, performed as if the client had sent an empty request. Default `nil`: none.
        public var onConnect: Reaction?
        /// The status of an echo, in protocols that have a status. Default `nil`: the first status of the layout's role
        /// `success`.
        public var successStatus: UInt32?
        package var recordedFrames = 10_000
        /// Bytes of bodies and named fields in `received`.
        var recordedBytes = 16 * 1024 * 1024
        /// Further connections are closed and counted in `refusedConnectionCount`. If the process runs out of file
        /// descriptors, connections wait until one is free.
        package var maximumConnections = 10_000
        /// In bytes; a connection whose client leaves more unread is reset.
        var maximumUnsent = 256 * 1024 * 1024

        /// Creates options with the defaults.
        public init() {}

        /// Creates options with the default values, modified by `change`.
        public init(_ change: (inout Options) throws -> Void) rethrows { try change(&self) }
    }
}
