/// Receives what happens in a client.
///
/// ```swift
/// struct LinkLog: ClientObserver {
///     let interests: ClientEvent.Kinds = .links
///
///     func observe(_ events: [ClientEvent]) {
///         for event in events { print(event) }
///     }
/// }
///
/// let client = Client(to: endpoint, speaking: codec, options: ClientOptions { $0.observers = [LinkLog()] })
/// ```
///
/// Events come in batches: those of one step of the event loop together. The events of requests are in the order in
/// which they happened, and so are those of links. Within one step, an event of a link may come before those of
/// requests that ended earlier. A client without observers makes no events.
///
/// If a client is deallocated without ``Client/close()``, its requests end without an event of their own.
public protocol ClientObserver: Sendable {
    /// The events that the observer wants. Read once, when the client is created. Default: all.
    ///
    /// `requests` and `steps` are events for each request. They cost processor time even if the observer ignores them.
    var interests: ClientEvent.Kinds { get }

    /// How events are delivered. Read once, when the client is created. Default: `.queued()`.
    var delivery: EventDelivery { get }

    /// Called with the events of one step or, if the observer is slow, of several. Default: does nothing.
    func observe(_ events: [ClientEvent])

    /// Called if events are missing after those of the latest `observe`, because the queue was full. Default: does
    /// nothing.
    ///
    /// - Parameter count: The number of events that are missing here. Each request of an event that names several
    ///   counts.
    func missed(_ count: Int)
}

extension ClientObserver {
    /// All events.
    public var interests: ClientEvent.Kinds { .all }
    /// A queue with the default capacity.
    public var delivery: EventDelivery { .queued() }

    /// Does nothing.
    public func observe(_ events: [ClientEvent]) {}

    /// Does nothing.
    public func missed(_ count: Int) {}
}

/// How a ``ClientObserver`` receives its events.
public struct EventDelivery: Sendable, Hashable {
    package let capacity: Int?

    /// A task calls the observer, one call at a time, with the events of a queue. The observer may be slow: neither the
    /// client nor other observers wait for it. Only closing does: ``Client/close()`` and ``Client/closeNow()`` return
    /// when the observer has received the last event, but wait at most 2 s for that.
    ///
    /// - Parameter capacity: The maximum number of events in the queue. An event that names several requests counts as
    ///   many events. While the queue is full, new events are counted and reported by ``ClientObserver/missed(_:)``.
    ///   Default: 16,384. At least 1.
    public static func queued(capacity: Int = 16_384) -> EventDelivery { EventDelivery(capacity: max(1, capacity)) }

    /// The event loop calls the observer at the end of each step. This costs least, and suits observers that only count
    /// or store events. The observer must return quickly and must not block: every connection of the event loop waits
    /// for it. It must not call the client.
    public static let onEventLoop = EventDelivery(capacity: nil)
}
