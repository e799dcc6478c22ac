/// Collects the events of one client, and delivers them together at the end of each call of the client or its
/// connection.
///
/// Unchecked `Sendable`: `events` is accessed only on the event loop of the client.
final class Observation: @unchecked Sendable {
    private struct Audience {
        let observer: any ClientObserver
        let interests: ClientEvent.Kinds
        /// `nil` if the observer is called on the event loop.
        let queue: EventQueue?
    }

    /// The events that any observer wants.
    private let interests: ClientEvent.Kinds
    let wantsRequests: Bool
    let wantsSteps: Bool
    private let audiences: [Audience]
    private let loop: any EventLoop
    /// The events that are not delivered yet. Exclusive access: see `LoopActor`.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe private var events: [ClientEvent] = []
    private var isDelivering = false

    /// Returns `nil` if no observer wants any event.
    init?(_ observers: [any ClientObserver], on loop: any EventLoop) {
        self.loop = loop
        audiences = observers.map { observer in
            let capacity = observer.delivery.capacity
            return Audience(
                observer: observer,
                interests: observer.interests,
                queue: capacity.map { EventQueue(for: observer, capacity: $0, on: loop) }
            )
        }
        interests = audiences.reduce(into: []) { $0.formUnion($1.interests) }
        (wantsRequests, wantsSteps) = (interests.contains(.requests), interests.contains(.steps))
        if interests.isEmpty { return nil }
    }

    func wants(_ kind: ClientEvent.Kinds) -> Bool { interests.contains(kind) }

    /// Adds an event. The caller has checked that it is wanted.
    @inline(__always)
    func add(_ content: consuming ClientEvent.Content, at now: Instant) {
        events.append(ClientEvent(content, at: now))
    }

    /// Adds an event of `kind`, if it is wanted.
    func add(_ kind: ClientEvent.Kinds, _ content: @autoclosure () -> ClientEvent.Content) {
        if wants(kind) { add(content(), at: loop.now) }
    }

    /// Delivers the events.
    @inline(__always)
    func deliver() { if !events.isEmpty, !isDelivering { deliverAll() } }

    @inline(never)
    private func deliverAll() {
        isDelivering = true
        // An observer may cause further events.
        while !events.isEmpty {
            let batch = exchange(&events, with: [])
            for audience in audiences {
                let isAll = audience.interests == interests
                let wanted = isAll ? batch : batch.filter { audience.interests.contains($0.kind) }
                if wanted.isEmpty { continue }
                if let queue = audience.queue { queue.add(wanted) } else { audience.observer.observe(wanted) }
            }
        }
        isDelivering = false
    }
}
