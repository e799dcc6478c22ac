/// The state of a connection. <doc:ConnectionStates> has all transitions.
///
///     idle ──► resolving ──► connecting (──► securing) ──► handshaking ──► ready ──► draining ──► closed
///      ▲           ▲             │ fails       │ fails       │ lost
///      │ gives up  │             ▼             ▼             │
///      └───────────┴────────── waiting ◄─────────────────────┘
///
/// A planned change establishes the next link while the state stays `ready`. ``Client/suspend()`` leads from every
/// state except `draining` and `closed` to `suspended`, and ``Client/close()`` from every state to `closed`: at once if
/// no request is in flight or queued, otherwise through `draining`.
@nonexhaustive
public enum ConnectionState: Sendable, Hashable, CustomStringConvertible {
    /// No link exists, and none is needed: there was no request yet, the link was closed and is no longer needed, or
    /// the client gave up.
    ///
    /// Next states: resolving, connecting, waiting, suspended, closed.
    case idle
    /// The endpoint's name is being resolved.
    ///
    /// Next states: connecting, waiting, idle, suspended, closed.
    case resolving(Endpoint, attempt: Int)
    /// Sockets are being connected. `attempt` is one more than the number of attempts in a row that failed or led to a
    /// link that did no work (see ``ClientOptions/Reconnecting-swift.struct/stableAfter``).
    ///
    /// Next states: handshaking, ready, resolving or connecting (the next endpoint), waiting, idle, suspended, closed.
    case connecting(Endpoint, attempt: Int)
    /// A socket is connected, and its TLS handshake is under way.
    ///
    /// Next states: handshaking, ready, resolving or connecting (the next endpoint), waiting, idle, suspended, closed.
    case securing(Endpoint, attempt: Int)
    /// A link is established, and the handshake (`options.handshake`) is under way on it.
    ///
    /// Next states: ready, resolving, connecting, waiting, idle, suspended, closed.
    case handshaking(Endpoint, attempt: Int)
    /// Requests are sent on the link with this session number. Every attempt takes a new, greater number, so numbers of
    /// failed attempts are skipped. During a planned change the state does not change until the next link is ready.
    ///
    /// Next states: ready (the next link), waiting, resolving or connecting, idle, suspended, draining, closed.
    case ready(Endpoint, session: SessionID)
    /// The next attempt begins after `delay`, counted from when this state was read or delivered. `attempt` is the
    /// number of that attempt. `cause` is why the last attempt failed or the last link ended.
    ///
    /// Next states: resolving, connecting, idle, suspended, closed.
    case waiting(delay: Duration, attempt: Int, cause: DisconnectCause)
    /// No route leads to any endpoint. The client found this out when an attempt failed because of `cause`. The next
    /// attempt begins when a route appears, or after 60 s if a name may have other addresses by then or a source
    /// address is set. Requests wait within their deadlines. ``Client/reconnectNow()`` begins an attempt at once.
    ///
    /// Next states: waiting (for at most 80 ms, unless a server has sent a longer retry delay), resolving, connecting,
    /// idle, suspended, closed.
    case noNetwork(cause: DisconnectCause)
    /// The client was suspended: no link is established until ``Client/resume()``, even if requests wait.
    ///
    /// Next states: idle, resolving, connecting, waiting, closed.
    case suspended
    /// The client is closing: it takes no new requests, and those in flight or queued may finish.
    ///
    /// Next state: closed.
    case draining
    /// The client is closed for good.
    case closed

    /// Whether a link is ready, so that requests are sent without waiting for one.
    public var isReady: Bool {
        if case .ready = self { true } else { false }
    }

    private enum Kind: String, CaseIterable {
        case idle, resolving, connecting, securing, handshaking, ready, waiting
        case noNetwork = "no_network"
        case suspended, draining, closed
    }

    private var kind: Kind {
        switch self {
        case .idle: .idle
        case .resolving: .resolving
        case .connecting: .connecting
        case .securing: .securing
        case .handshaking: .handshaking
        case .ready: .ready
        case .waiting: .waiting
        case .noNetwork: .noNetwork
        case .suspended: .suspended
        case .draining: .draining
        case .closed: .closed
        }
    }

    var name: String { kind.rawValue }

    package static let names = Kind.allCases.map(\.rawValue)

    /// The state as text, with its endpoint, number or delay.
    public var description: String {
        switch self {
        case .idle: "idle"
        case .resolving(let endpoint, let attempt): "resolving \(endpoint) (attempt \(attempt))"
        case .handshaking(let endpoint, let attempt): "handshaking with \(endpoint) (attempt \(attempt))"
        case .connecting(let endpoint, let attempt): "connecting to \(endpoint) (attempt \(attempt))"
        case .securing(let endpoint, let attempt): "securing \(endpoint) (attempt \(attempt))"
        case .ready(let endpoint, let session): "ready: \(endpoint) (session \(session))"
        case .waiting(let delay, let attempt, let cause):
            "waiting \(delay.text) before attempt \(attempt) (\(cause.rawValue))"
        case .noNetwork(let cause): "no network (\(cause.rawValue))"
        case .suspended: "suspended"
        case .draining: "draining"
        case .closed: "closed"
        }
    }
}
