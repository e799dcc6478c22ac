/// An observer that belongs to one client and passes on what it makes of the events, such as the log of the library
/// `TrunklineLogging`.
///
/// Called on the event loop of the client.
package protocol AttachedObserver: ClientObserver, AnyObject {
    /// What the observer passes on and its receiver has not received yet.
    var deliveries: any DeliveryQueue { get }
    /// The name of these deliveries in the metrics of the client.
    var name: String { get }
    /// The client that is observed, not retained; `nil` for a connection without a client.
    var client: (any ObservedClient)? { get set }
}

/// The settings from which each client makes an observer of its own.
package protocol ObserverSettings: Sendable {
    /// Makes the observer of a new client.
    func makeObserver(of endpoints: [Endpoint], on loop: any EventLoop) -> any AttachedObserver
}

/// A client that has an observer of its own.
///
/// Called on the event loop of the client.
package protocol ObservedClient: AnyObject, Sendable {
    /// What is known about the requests of the client at `now`.
    func load(at now: Instant) -> ClientLoad
}

/// What is known about the requests of a client at one moment.
package struct ClientLoad: Sendable {
    /// The number of responses since the client was created, error responses included.
    package var responses: Int
    /// The number of requests on links, without abandoned ones.
    package var inFlight: Int
    /// The number of abandoned requests.
    package var abandoned: Int
    /// The number of requests that wait for their turn.
    package var waiting: Int
    /// The time since the call of the oldest request on a link; `nil` if there is none, or if there are too many
    /// requests to look at.
    package var oldest: Duration?
    /// The time since the latest frame of the ready link; `nil` if there is no such link.
    package var silence: Duration?

    package init(
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
