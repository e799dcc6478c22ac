/// How one attempt to connect, or one link, came to its end. From `Client.disconnects` and `Connection.disconnects`.
public struct DisconnectReport: Sendable, CustomStringConvertible {
    /// How far it had come.
    @nonexhaustive
    public enum Phase: String, Sendable, Hashable {
        /// The name was being resolved.
        case resolving
        /// A socket was being connected.
        case connecting
        /// TLS was being agreed on.
        case securing
        /// The user's handshake was under way.
        case handshaking
        /// The link carried requests.
        case ready
        /// The link took no new requests and saw the last ones off.
        case draining
    }

    /// Who ended it.
    @nonexhaustive
    public enum Party: String, Sendable, Hashable {
        /// We did: `close`, `suspend`, a planned change other than for a `goAway`, a heartbeat without an answer, a broken
        /// protocol.
        case client
        /// The server did: it closed in good order, said that it goes, or refused us.
        case server
        /// Neither said so: a reset, a timeout, an address that cannot be reached, a local address that is gone.
        case network
    }

    /// The server.
    public let endpoint: Endpoint
    /// How far it had come.
    public let phase: Phase
    /// Who ended it.
    public let endedBy: Party
    /// Why.
    public let cause: DisconnectCause
    /// The error underneath, if there was one: a `TransportError` (with its `errno`), a `FrameError`, a
    /// `HandshakeRefusal`, or what your handshake threw.
    public let error: (any Error)?
    /// The session number of the link, or the number that it would have had.
    public let session: UInt64
    /// The number of the attempt that made it: one more than the attempts in a row that failed or led to a link that did
    /// no work.
    public let attempt: Int
    /// How long the link was ready; zero when it never was.
    public let lifetime: Duration
    /// Requests that were lost with the link: those of which a byte was written and no response had come. Of one-way messages,
    /// and of the frames of a `Connection` without a client, those that had started and whose last byte the kernel did not have.
    public let requestsLost: Int
    /// Encoded bytes that were waiting for the socket; over TLS, for being encrypted.
    public let bytesUnsent: Int
    /// The path on which the link last worked: the latest one after which frames came. Of an attempt, the path to the first
    /// address that it tried, when it began. `unknown` while no address was known, and when the network is not monitored
    /// (`options.network`).
    public let pathBefore: NetworkPath
    /// The path at the end: of the link's packets or, when its local address is gone, of a new link to the same address. Of an
    /// attempt, the path to the same address as `pathBefore`.
    public let pathAfter: NetworkPath
    /// Whether there was no route at the end, or another path than before: then it was our network rather than the server.
    ///
    /// It speaks of this host's interfaces and routes only: a broken router farther away looks like a dead server. False where
    /// the paths are `unknown`, as when a name could not be resolved; `ConnectionState.noNetwork` tells of that.
    public var isNetworkChange: Bool {
        if pathBefore == .unknown || pathAfter == .unknown { return pathAfter == .noRoute }
        return pathAfter == .noRoute || pathBefore != pathAfter
    }
    /// What `options.diagnosis.probe` found out; `nil` when there is none, it did not run, or took too long.
    public internal(set) var isNetworkUp: Bool?

    /// The system's error number; 0 where there is none.
    package var errno: Int32 { (error as? TransportError)?.errno ?? 0 }

    /// The report in one line.
    public var description: String {
        var text = "\(endpoint): \(cause.rawValue) while \(phase.rawValue), by the \(endedBy.rawValue)"
        text += " (session \(session), attempt \(attempt)"
        if lifetime > .zero { text += ", ready for \(lifetime)" }
        if requestsLost > 0 { text += ", \(requestsLost) requests lost" }
        if isNetworkChange {
            text += ", path: \(pathBefore), now \(pathAfter)"
        } else if case .route = pathAfter {
            text += ", path: \(pathAfter)"
        }
        if let isNetworkUp { text += isNetworkUp ? ", the network is up" : ", the network is down" }
        return text + ")" + (error.map { ": \("\($0)".asMessage)" } ?? "")
    }
}

extension TransportError {
    /// Who ends a link in this way, where TLS knows more than that it was TLS.
    var party: DisconnectReport.Party? {
        switch code {
        case .tls(.alert): .server
        case .tls(.truncated): .network
        default: nil
        }
    }
}

extension DisconnectCause {
    /// Who ends a link in this way.
    var party: DisconnectReport.Party {
        switch self {
        case .closedByServer, .goAway, .refused, .handshakeRefused: .server
        case .protocolViolation, .closedLocally, .halfOpen, .unanswered, .exhausted, .tls: .client
        case .nameResolution, .unreachable, .pathLost, .timedOut, .reset, .system: .network
        }
    }

    /// Whether this host reported the failure itself. Only such a failure pauses attempts, because routing tables alone may be
    /// wrong.
    var isOfThisHost: Bool {
        switch self {
        case .nameResolution, .unreachable, .pathLost, .system: true
        default: false
        }
    }

    /// Whether the host's own network may be behind it, rather than something that the server has said.
    var mayBeOurNetwork: Bool {
        switch self {
        case .nameResolution, .unreachable, .pathLost, .timedOut, .reset, .halfOpen, .system: true
        case .refused, .closedByServer, .goAway, .unanswered, .exhausted, .protocolViolation, .tls, .handshakeRefused,
            .closedLocally:
            false
        }
    }

    /// Whether something other than an orderly end by either side is behind it.
    var isAbnormal: Bool { self != .closedByServer && self != .goAway && self != .closedLocally }
}
