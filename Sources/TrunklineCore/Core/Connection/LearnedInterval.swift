/// What a client has learned about the interval of heartbeats for one endpoint on one network path.
///
/// See ``ClientOptions/Liveness-swift.struct/adaptiveInterval``.
public struct LearnedInterval: Sendable, Hashable, CustomStringConvertible {
    /// The latest change of the interval.
    @nonexhaustive
    public enum Change: String, Sendable, Hashable {
        /// Nothing has been learned yet: this is the interval with which the client starts.
        case started
        /// The interval became longer, because links have survived it.
        case grown
        /// The interval became shorter, because a link was lost in silence after it.
        case shortened
        /// A link was lost in silence even after the shortest interval that the option allows.
        case lostAtMinimum
        /// The latest loss is older than seven days. It is forgotten, and longer intervals are tried again.
        case relearning
    }

    /// The endpoint of the server.
    public let endpoint: Endpoint
    /// The path of the packets to the server. The same endpoint has other intervals on other paths.
    public let path: NetworkPath
    /// The interval of the heartbeats on the next link, and on the present one if that has the same endpoint and path.
    public let interval: Duration
    /// The longest interval without traffic that a link has survived; `nil` for none.
    public let longestSurvived: Duration?
    /// The shortest time without traffic after which a link was lost, which is not tried again for seven days; `nil`
    /// for none.
    public let shortestLost: Duration?
    /// The latest change of the interval.
    public let change: Change

    /// The interval in one line: `db:7000 on unknown path: 250.0 seconds (shortened, …)`.
    public var description: String {
        var text = "\(endpoint) on \(path): \(interval) (\(change.rawValue)"
        if let longestSurvived { text += ", survived \(longestSurvived)" }
        if let shortestLost { text += ", lost after \(shortestLost)" }
        return text + ")"
    }
}
