/// The links that are not closed. Confined to the event loop of their connection. A class, because the runtime checks
/// every access to a value in an actor, and a turn with one request finds its link fifteen times.
final class Links {
    private(set) var handshaking: Link?
    private(set) var ready: Link?
    /// Oldest first. Only assigned as a whole: then the compiler needs no check at run time.
    private(set) var draining: [Link] = []

    var isEmpty: Bool { count == 0 }

    var count: Int { draining.count + (ready == nil ? 0 : 1) + (handshaking == nil ? 0 : 1) }

    var all: [Link] {
        var all = draining
        if let ready { all.append(ready) }
        if let handshaking { all.append(handshaking) }
        return all
    }

    /// The usual case, in which nothing has to be allocated.
    var onlyReady: Link? { draining.isEmpty && handshaking == nil ? ready : nil }

    subscript(_ session: SessionID) -> Link? {
        if let ready, ready.session == session { return ready }
        if let handshaking, handshaking.session == session { return handshaking }
        return draining.first { $0.session == session }
    }

    func link(ofTransport id: UInt64) -> Link? {
        if let ready, ready.transport.id == id { return ready }
        if let handshaking, handshaking.transport.id == id { return handshaking }
        return draining.first { $0.transport.id == id }
    }

    func begin(_ link: Link) {
        precondition(handshaking == nil && link.isInHandshake, "only one link is in its handshake")
        handshaking = link
    }

    func becomeReady(_ link: Link, _ policy: Liveness.Policy, at now: Instant) {
        precondition(link === handshaking && ready == nil, "only one link is ready")
        link.becomeReady(policy, at: now)
        (handshaking, ready) = (nil, link)
    }

    func drain(_ link: Link, _ draining: Link.Draining) -> [QueuedRequest] {
        precondition(link === ready, "only the ready link drains")
        let unsent = link.drain(draining)
        ready = nil
        self.draining = self.draining + [link]
        return unsent
    }

    func remove(_ link: Link) {
        if link === ready {
            ready = nil
        } else if link === handshaking {
            handshaking = nil
        } else {
            draining = draining.filter { $0 !== link }
        }
    }
}
