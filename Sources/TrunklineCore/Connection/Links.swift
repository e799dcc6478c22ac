/// The links of a connection that are not closed: at most one in its handshake, at most one that is ready, and those that
/// drain.
///
/// Confined to the event loop of its connection, as its links are. A class, because the runtime checks every access to a
/// value in an actor, and a turn with one request finds its link fifteen times.
final class Links {
    private(set) var handshaking: Link?
    private(set) var ready: Link?
    /// Those that drain, oldest first. Only assigned as a whole: then the compiler needs no check at run time.
    private(set) var draining: [Link] = []

    var isEmpty: Bool { count == 0 }

    var count: Int { draining.count + (ready == nil ? 0 : 1) + (handshaking == nil ? 0 : 1) }

    /// All links, oldest first.
    var all: [Link] {
        var all = draining
        if let ready { all.append(ready) }
        if let handshaking { all.append(handshaking) }
        return all
    }

    /// The ready link, if there is no other one. This is the usual case, in which nothing has to be allocated.
    var onlyReady: Link? { draining.isEmpty && handshaking == nil ? ready : nil }

    /// The link of `session`; `nil` if it has ended.
    subscript(_ session: SessionID) -> Link? {
        if let ready, ready.session == session { return ready }
        if let handshaking, handshaking.session == session { return handshaking }
        return draining.first { $0.session == session }
    }

    /// The link whose transport has this ID.
    func link(ofTransport id: UInt64) -> Link? {
        if let ready, ready.transport.id == id { return ready }
        if let handshaking, handshaking.transport.id == id { return handshaking }
        return draining.first { $0.transport.id == id }
    }

    // MARK: Changes

    /// Adds a link that begins with its handshake.
    func begin(_ link: Link) {
        precondition(handshaking == nil && link.isInHandshake, "only one link is in its handshake")
        handshaking = link
    }

    /// Makes the link in its handshake the ready one.
    func becomeReady(_ link: Link, _ policy: Liveness.Policy, at now: Instant) {
        precondition(link === handshaking && ready == nil, "only one link is ready")
        link.becomeReady(policy, at: now)
        (handshaking, ready) = (nil, link)
    }

    /// Lets the ready link drain. Returns, in order, the requests of which nothing was written.
    func drain(_ link: Link, _ draining: Link.Draining) -> [QueuedRequest] {
        precondition(link === ready, "only the ready link drains")
        let unsent = link.drain(draining)
        ready = nil
        self.draining = self.draining + [link]
        return unsent
    }

    /// Removes a link, which is to be closed.
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
