/// An observer of one client that passes on what it makes of the events, such as the log of the library
/// `TrunklineLogging`. Called on the event loop of the client.
package protocol AttachedObserver: ClientObserver, AnyObject {
    var deliveries: any DeliveryQueue { get }
    var name: String { get }
    /// Not retained; `nil` for a connection without a client.
    var client: (any ObservedClient)? { get set }
}

package protocol ObserverSettings: Sendable {
    func makeObserver(of endpoints: [Endpoint], on loop: any EventLoop) -> any AttachedObserver
}

/// A client that has an observer of its own. Called on the event loop of the client.
package protocol ObservedClient: AnyObject, Sendable {
    func load(at now: Instant) -> ClientLoad
}

package struct ClientLoad: Sendable {
    package var responses: Int
    /// On links, without abandoned ones.
    package var inFlight: Int
    package var abandoned: Int
    package var waiting: Int
    /// The time since the call of the oldest request on a link; `nil` also if there are too many requests to look at.
    package var oldest: Duration?
    package var silence: Duration?

    init(
        responses: Int = 0,
        inFlight: Int = 0,
        abandoned: Int = 0,
        waiting: Int = 0,
        oldest: Duration? = nil,
        silence: Duration? = nil
    ) {
        (self.responses, self.inFlight, self.abandoned) = (responses, inFlight, abandoned)
        (self.waiting, self.oldest, self.silence) = (waiting, oldest, silence)
    }
}
