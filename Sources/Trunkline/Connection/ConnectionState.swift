/// What a connection is doing.
///
///     idle ──► resolving ──► connecting (──► securing) ──► handshaking ──► ready ──► draining ──► closed
///      ▲           ▲             │ fails       │ fails       │ lost
///      │ gives up  │             ▼             ▼             │
///      └───────────┴────────── waiting ◄─────────────────────┘
///
/// A failed attempt leads to noNetwork instead of waiting when no route leads to any endpoint. A planned change makes the next
/// link while the state is `ready`, and leads from there to `ready` with the next link's session number.
///
/// A failed attempt goes on to the next endpoint at once, and to waiting when every endpoint had its turn. `suspend()`
/// leads from every state but draining and closed to suspended, and `resume()` back to idle or into an attempt. `close()` leads from
/// every state to closed: at once when nothing is out, through draining otherwise. See the article <doc:Connecting>.
@nonexhaustive
public enum ConnectionState: Sendable, Equatable, CustomStringConvertible {
    /// No link is needed yet, or any more, or it was given up. → resolving, connecting, waiting, suspended, closed
    case idle
    /// The endpoint's name is being looked up. → connecting, waiting, idle, suspended, closed
    case resolving(Endpoint, attempt: Int)
    /// An attempt is under way; `attempt` is one more than the number of attempts in a row that failed or led to a link
    /// that did no work. → handshaking, ready, resolving or connecting (the next endpoint), waiting, idle, suspended,
    /// closed
    case connecting(Endpoint, attempt: Int)
    /// A socket is connected, and TLS is being agreed on. → handshaking, ready, resolving or connecting (the next
    /// endpoint), waiting, idle, suspended, closed
    case securing(Endpoint, attempt: Int)
    /// There is a link, and `options.handshake` has the first word on it. → ready, resolving, connecting, waiting,
    /// idle, suspended, closed
    case handshaking(Endpoint, attempt: Int)
    /// The link with this session number, which grows with every attempt, is usable. During a planned change this state stays,
    /// up to the `ready` of the next link. → ready (the next link), waiting, resolving or connecting, idle, suspended, draining,
    /// closed
    case ready(Endpoint, session: UInt64)
    /// The next attempt comes after `delay`, counted from when this state was entered, because of `cause`. → resolving,
    /// connecting, idle, suspended, closed
    case waiting(delay: Duration, attempt: Int, cause: DisconnectCause)
    /// No route leads to any endpoint, as an attempt has found that failed because of `cause`. There is no further attempt until
    /// a route appears; requests wait within their deadlines. `reconnectNow()` makes an attempt all the same. → waiting (for at
    /// most 80 ms, unless a server asked for more), resolving, connecting, idle, suspended, closed
    case noNetwork(cause: DisconnectCause)
    /// There is no link until `resume()`, whoever wants one. → idle, resolving, connecting, waiting, closed
    case suspended
    /// Closing: what is out is awaited, nothing new is taken. → closed
    case draining
    /// For good.
    case closed

    /// Whether requests go out now.
    public var isReady: Bool {
        if case .ready = self { true } else { false }
    }

    /// The state in words.
    public var description: String {
        switch self {
        case .idle: "idle"
        case .resolving(let endpoint, let attempt): "resolving \(endpoint) (attempt \(attempt))"
        case .handshaking(let endpoint, let attempt): "handshaking with \(endpoint) (attempt \(attempt))"
        case .connecting(let endpoint, let attempt): "connecting to \(endpoint) (attempt \(attempt))"
        case .securing(let endpoint, let attempt): "securing \(endpoint) (attempt \(attempt))"
        case .ready(let endpoint, let session): "ready: \(endpoint) (session \(session))"
        case .waiting(let delay, let attempt, let cause):
            "waiting \(delay) before attempt \(attempt) (\(cause.rawValue))"
        case .noNetwork(let cause): "no network (\(cause.rawValue))"
        case .suspended: "suspended"
        case .draining: "draining"
        case .closed: "closed"
        }
    }
}
