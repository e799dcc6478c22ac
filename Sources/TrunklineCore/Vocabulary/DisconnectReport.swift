/// A report of how an attempt failed, or how a link ended. See ``Client/disconnects`` and ``Connection/disconnects``.
public struct DisconnectReport: Sendable, CustomStringConvertible {
    /// The phase in which the attempt or the link ended.
    @nonexhaustive
    public enum Phase: String, Sendable, Hashable {
        /// The endpoint's name was being resolved.
        case resolving
        /// A socket was being connected, or the attempt had not begun to connect.
        case connecting
        /// The TLS handshake was under way.
        case securing
        /// The handshake was under way, or subscriptions were being restored.
        case handshaking
        /// The link was ready.
        case ready
        /// The link was draining: it took no new requests and waited for those in flight.
        case draining
    }

    /// The side that ended an attempt or a link.
    @nonexhaustive
    public enum Party: String, Sendable, Hashable {
        /// The client: `close`, `suspend`, a planned change without a `goAway`, a link without progress, unanswered or
        /// abandoned requests, a protocol violation, an exceeded limit, or a failed TLS check.
        case client
        /// The server: it closed the connection cleanly, sent a `goAway` or a TLS alert, or refused the connection or
        /// the handshake. Also if the child process of the link ended.
        case server
        /// Neither the client nor the server ended it deliberately: there was a reset, a timeout, a name without an
        /// address, an unreachable address, or a lost local address. Also if a proxy did not connect to the server.
        case network
    }

    /// The server's endpoint.
    public internal(set) var endpoint: Endpoint
    /// The phase in which the attempt or the link ended.
    public let phase: Phase
    /// The side that ended the attempt or the link.
    public let endedBy: Party
    /// Why the attempt or the link ended.
    public let cause: DisconnectCause
    /// The underlying error: a ``TransportError`` (with the system's error number), a ``FrameError``, a
    /// ``HandshakeRefusal``, or another error that the handshake threw; `nil` if there was no error, for example after
    /// `close()` or a planned change.
    public let error: (any Error)?
    /// The address of the server to which the link was connected, or that of the proxy; `nil` if no link was
    /// established, and for a link without addresses, such as one to a Unix domain socket.
    public var address: String? { details?.address?.description }
    /// How long nothing had been sent or received on the link when it ended, or before the write that the peer answered
    /// with a reset; `nil` if the link was never ready. A server or a load balancer that closes idle connections does
    /// so after the same time each time.
    public var idleTime: Duration? { details?.idleTime }
    /// How the child process of the link ended, if that ended the link; otherwise `nil`, also if the client ended the
    /// link and then the process. See ``Endpoint/command(_:_:environment:inheritsEnvironment:workingDirectory:)``.
    public var exit: ProcessExit? { (error as? TransportError)?.exit }
    /// The last line that the child process of the link had written to standard error, cut after 1,024 bytes, and
    /// escaped; `nil` if it had written none, or if the link has no child process. It often says why the process ended.
    public var lastOutput: String? { outputOfChild }
    /// Why the server ended the link, or rejected a request of the handshake, in its own words, if it said so
    /// (``Frame/reason``); otherwise `nil`.
    public var reason: ServerReason? { error.flatMap { ServerReason(statedBy: $0) } }
    /// The session of the link. If no link was established, the one that it would have had.
    public let session: SessionID
    /// The number of the attempt, counted from 1. Each attempt that fails, or whose link does no work (see
    /// ``ClientOptions/Reconnecting-swift.struct/stableAfter``), increases the number of the next attempt. The
    /// number starts again at 1 after a link that did work, after a change of the host's network, and after the client
    /// gave up.
    public let attempt: Int
    /// How long the link was ready; zero if it never was.
    public let lifetime: Duration
    /// Why this client left the link, with the numbers of the rule, such as
    /// `3 requests in a row timed out within 6 s …`; `nil` if it did not, or if the server had asked for it.
    public internal(set) var departure: String?
    /// The number of requests that were lost with the link:
    ///
    /// - Requests without a response, if at least one byte was written.
    /// - One-way messages, and frames of a ``Connection`` without a client, if at least one byte was written but the
    ///   kernel had not accepted the last byte.
    ///
    /// 0 if the link ended because the client closed.
    public let requestsLost: Int
    /// The number of encoded bytes that were not yet written to the socket at the end; over TLS, that were not yet
    /// encrypted.
    public let bytesUnsent: Int
    /// The path on which the link last worked: the latest path on which a frame was received. For an attempt, the path
    /// to the first address that it tried, at its beginning. `unknown` if no address was known, or if the network is
    /// not monitored (`options.network`).
    public let pathBefore: NetworkPath
    /// The path at the end: the path of the link's packets or, if its local address was removed, the path of a new link
    /// to the same address. For an attempt, the path to the same address as `pathBefore`.
    public let pathAfter: NetworkPath
    /// Whether the network of this host had changed: at the end there was no route, or the path had changed. If so, the
    /// network is a more likely cause than the server.
    ///
    /// This covers only the interfaces and routes of this host: a failed router farther away looks like a failed
    /// server. False if one of the paths is `unknown`, for example because a name could not be resolved, unless
    /// `pathAfter` is `noRoute`. See also ``ConnectionState/noNetwork(cause:)``.
    public var isNetworkChange: Bool {
        if pathBefore == .unknown || pathAfter == .unknown { return pathAfter == .noRoute }
        return pathAfter == .noRoute || pathBefore != pathAfter
    }
    /// How long the event loop of this process was late (``LoopDelay``): for an attempt, since its beginning; for a
    /// link, since its latest frame. Usually zero.
    public internal(set) var loopDelay: Duration = .zero
    /// The result of `options.diagnosis.probe`: whether the network is up. `nil` if there is no probe, if it took too
    /// long or did not run, or if the link ended in an orderly way.
    public internal(set) var isNetworkUp: Bool?

    var details: Details?
    package var proxy: Proxy? { details?.proxy }

    /// In an object, because attempts that fail earlier have none of it.
    final class Details: Sendable {
        let address: SocketAddress?
        let proxy: Proxy?
        let idleTime: Duration?
        let sendsPings: Bool
        let isIdleTimeUsual: Bool
        let firstBytes: FirstBytes

        init(
            _ address: SocketAddress?,
            through proxy: Proxy?,
            idleTime: Duration? = nil,
            sendsPings: Bool = false,
            isIdleTimeUsual: Bool = false,
            _ firstBytes: FirstBytes
        ) {
            (self.address, self.proxy, self.idleTime) = (address, proxy, idleTime)
            (self.sendsPings, self.isIdleTimeUsual) = (sendsPings, isIdleTimeUsual)
            self.firstBytes = firstBytes
        }
    }

    package internal(set) var isPermanent = false
    /// A server that does not accept the certificate of this client may close without a word.
    var certificateProblem: String?
    var wasSilent = false
    var hasSpoken = true
    var outputOfChild: String?

    var errno: Int32 { (error as? TransportError)?.errno ?? 0 }

    /// The report in one line.
    public var description: String {
        var text = "\(endpoint): \(cause.rawValue) while \(phase.rawValue), by the \(endedBy.rawValue)"
        text += " (session \(session), attempt \(attempt)"
        if let address { text += ", \(address)" }
        if let proxy { text += " through \(proxy)" }
        if lifetime > .zero { text += ", ready for \(lifetime.text)" }
        if requestsLost > 0 { text += ", \(requestsLost) \(requestsLost == 1 ? "request" : "requests") lost" }
        if isNetworkChange {
            text += ", path: \(pathBefore), now \(pathAfter)"
        } else if case .route = pathAfter {
            text += ", path: \(pathAfter)"
        }
        if let suspicion { text += ", \(suspicion)" }
        if let idleness { text += ", \(idleness)" }
        if loopDelay > .zero { text += ", the event loop was late for \(loopDelay.text)" }
        if let isNetworkUp { text += isNetworkUp ? ", the network is up" : ", the network is down" }
        let failure = error.map { "\($0)".asMessage.unlabelled(cause.rawValue) }
        let output = cause == .closedLocally ? nil : lastOutputText
        let details = [departure, failure, output].compactMap { $0 }.joined(separator: "; ")
        return text + ")" + (details.isEmpty ? "" : ": \(details)")
    }
}

extension DisconnectReport {
    package var lastOutputText: String? { lastOutput.map { "its last line of standard error: \"\($0)\"" } }
}

extension TransportError {
    var party: DisconnectReport.Party? {
        switch code {
        case .tls(.alert): .server
        default: nil
        }
    }
}

extension DisconnectCause {
    var party: DisconnectReport.Party {
        switch self {
        case .closedByServer, .goAway, .refused, .handshakeRefused, .exited: .server
        case .protocolViolation, .limitExceeded, .closedLocally, .halfOpen, .unanswered, .exhausted, .tls: .client
        case .nameResolution, .unreachable, .pathLost, .timedOut, .reset, .proxy, .system: .network
        }
    }

    /// Only a failure that this host reported itself pauses attempts, because routing tables alone may be wrong.
    var isOfThisHost: Bool {
        switch self {
        case .nameResolution, .unreachable, .pathLost, .system: true
        default: false
        }
    }

    var mayBeOurNetwork: Bool {
        switch self {
        case .nameResolution, .unreachable, .pathLost, .timedOut, .reset, .halfOpen, .proxy, .system: true
        case .refused, .closedByServer, .goAway, .unanswered, .exhausted, .protocolViolation, .limitExceeded, .tls,
            .handshakeRefused, .exited, .closedLocally:
            false
        }
    }

    package var isAbnormal: Bool { self != .closedByServer && self != .goAway && self != .closedLocally }
}
