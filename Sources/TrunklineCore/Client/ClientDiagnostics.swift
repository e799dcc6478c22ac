/// What an operator asks a client for: its present link, its slowest requests, and an audit.
///
/// ```swift
/// for timeline in await client.diagnostics.slowestRequests { print(timeline) }
/// ```
///
/// For counts and durations read ``Client/metrics-swift.property``; to follow a client, ``Client/states`` and
/// ``Client/disconnects``. See <doc:Monitoring>.
///
/// This value keeps the client alive. Its streams do not.
public struct ClientDiagnostics: Sendable {
    let client: Client

    fileprivate init(of client: Client) { self.client = client }

    /// The network path to the server: of the link that is ready, or else of the attempt in progress, or else to the
    /// first endpoint.
    ///
    /// The path is `local` for a loopback address or a Unix domain socket. It is `unknown` before the first attempt,
    /// while a name is being resolved, and when the network is not monitored (`options.network`).
    public var path: NetworkPath { get async { await client.connection.entered { $0.presentPath } } }

    /// The current ``path`` and every different path that follows, until the client is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 paths behind misses the oldest ones.
    public var paths: AsyncStream<NetworkPath> {
        client.driver.stream(startingWith: { $0.presentPath }, { $1(&$0.paths.readers) })
    }

    /// The result of the TLS handshake of the ready link; `nil` if there is no ready link, or if it is in plaintext.
    public var tlsSession: TLSSession? { get async { await client.connection.entered { $0.ready?.secured?.session } } }

    /// The round-trip time measured by pings on the current link; `nil` before the first pong.
    public var roundTripTime: RoundTripTime? {
        get async { await client.connection.entered { $0.liveness.presentRoundTripTime } }
    }

    /// The interval of the heartbeats of the present link. `nil` without a ready link, and if the link has no
    /// heartbeats.
    public var heartbeatInterval: Duration? {
        get async { await client.connection.entered { $0.liveness.heartbeatInterval } }
    }

    /// What the client has learned about the intervals of heartbeats, the most recently used endpoint and path first.
    /// Empty without ``ClientOptions/Liveness-swift.struct/adaptiveInterval``.
    public var learnedIntervals: [LearnedInterval] {
        get async { await client.connection.entered { $0.liveness.learnedIntervals } }
    }

    /// The slowest requests and one-way messages that ended in the last minutes, slowest first: the eight slowest of
    /// the present period of two minutes, and those of the one before. Those that took less than 1 ms are left out.
    public var slowestRequests: [Timeline] { get async { await client.slowest() } }

    /// Checks that every accepted request has ended once or is still pending, and that the metrics agree with each
    /// other and with the client's tables.
    ///
    /// It is cheap enough for production: its time depends on the number of links, not of requests.
    ///
    /// - Returns: A line for each contradiction, with both numbers. A contradiction is a bug in this package.
    public func audit() async -> [String] { await client.contradictions() }
}

extension Client {
    /// What an operator asks this client for: its present link, its slowest requests, and an audit.
    public nonisolated var diagnostics: ClientDiagnostics { ClientDiagnostics(of: self) }
}

extension ClientDiagnostics {
    package func withRecorder<Result: Sendable>(_ body: @Sendable (any ClientRecorder) -> Result) async -> Result? {
        await client.connection.entered { $0.context.recorder.map(body) }
    }
}
