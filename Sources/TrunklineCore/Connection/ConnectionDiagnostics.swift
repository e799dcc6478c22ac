/// What an operator asks a ``Connection`` for: the path to its server, and what is known about its present link.
///
/// This value keeps the connection alive. Its stream does not.
public struct ConnectionDiagnostics: Sendable {
    private let connection: Connection

    fileprivate init(of connection: Connection) { self.connection = connection }

    /// The network path to the server. See ``ClientDiagnostics/path``.
    public var path: NetworkPath { get async { await connection.entered { $0.presentPath } } }

    /// The current ``path`` and every different path that follows, until the connection is closed. See
    /// ``ClientDiagnostics/paths``.
    public var paths: AsyncStream<NetworkPath> {
        connection.driver.stream(startingWith: { $0.presentPath }, { $1(&$0.paths.readers) })
    }

    /// The result of the TLS handshake of the ready link; `nil` if there is no ready link, or if it is in plaintext.
    public var tlsSession: TLSSession? { get async { await connection.entered { $0.ready?.secured?.session } } }

    /// The round-trip time measured by pings on the current link; `nil` before the first pong.
    public var roundTripTime: RoundTripTime? {
        get async { await connection.entered { $0.liveness.presentRoundTripTime } }
    }

    /// The interval of the heartbeats of the present link. `nil` without a ready link, and if the link has no
    /// heartbeats.
    public var heartbeatInterval: Duration? { get async { await connection.entered { $0.liveness.heartbeatInterval } } }

    /// What the connection has learned about the intervals of heartbeats. See ``ClientDiagnostics/learnedIntervals``.
    public var learnedIntervals: [LearnedInterval] {
        get async { await connection.entered { $0.liveness.learnedIntervals } }
    }
}

extension Connection {
    /// What an operator asks this connection for: the path to its server, and what is known about its present link.
    public nonisolated var diagnostics: ConnectionDiagnostics { ConnectionDiagnostics(of: self) }
}
