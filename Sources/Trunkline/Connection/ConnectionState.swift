/// What a connection is doing.
///
///     idle ──► connecting ──► ready ──► draining ──► closed
///               ▲    │ fails    │ lost
///               │    ▼          │
///              waiting ◄────────┘
///
/// `suspend()` leads from every one of these but closed to suspended, and `resume()` back.
public enum ConnectionState: Sendable, Equatable, CustomStringConvertible {
    /// Nobody has wanted a link yet, or it was given up. → connecting, waiting, suspended, closed
    case idle
    /// Attempt number `attempt` since the last stable link is under way. → ready, connecting, waiting, idle,
    /// suspended, closed
    case connecting(Endpoint, attempt: Int)
    /// The link with this session number, which grows with every attempt, is usable. → waiting, connecting (elsewhere),
    /// idle, suspended, draining, closed
    case ready(Endpoint, session: UInt64)
    /// The next attempt comes after `delay`, counted from when this state was entered. → connecting, idle, suspended, closed
    case waiting(delay: Duration, attempt: Int)
    /// There is no link until `resume()`, whoever wants one. → idle, connecting, waiting, closed
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
        case .connecting(let endpoint, let attempt): "connecting to \(endpoint) (attempt \(attempt))"
        case .ready(let endpoint, let session): "ready: \(endpoint) (session \(session))"
        case .waiting(let delay, let attempt): "waiting \(delay) before attempt \(attempt)"
        case .suspended: "suspended"
        case .draining: "draining"
        case .closed: "closed"
        }
    }
}
