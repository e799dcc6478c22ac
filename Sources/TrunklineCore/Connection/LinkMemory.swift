/// What a connection keeps from link to link. Confined to its event loop.
final class LinkMemory {
    /// Without those that handshakes have added.
    var givenEndpoints: [Endpoint]
    var subscriptions: [UInt64: (request: Request, expectsResponse: Bool)] = [:]
    var serverInfo: (any Sendable)?
    var savedSession: (any Sendable)?
    /// Stays set until a link is ready: a failed attempt must not hide the loss from the requests that wait.
    var hasLostSession = false
    var isToldOfDelays = false
    private let isMember: Bool
    /// The versions of the TLS files that were last told to differ from those of a link.
    var seenFiles: [FileVersion?] = []
    var linksBegun = 0
    let dialMemory = DialMemory()
    private var lastNumber: UInt64 = 0

    /// `isMember`: of a cluster.
    init(_ endpoints: [Endpoint], isMember: Bool) { (givenEndpoints, self.isMember) = (endpoints, isMember) }

    func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    func nextID() -> RequestID { RequestID(nextNumber()) }
}

/// Subscriptions, which every new link restores.
extension LinkMemory {
    func rememberIfNotReady(_ request: Request, _ expectsResponse: Bool, _ links: Links) -> UInt64? {
        links.ready == nil ? remember(request, expectsResponse) : nil
    }

    func forgetIfNotReady(_ number: UInt64, _ links: Links) -> Bool {
        guard links.ready == nil else { return false }
        forget(number, links)
        return true
    }

    func firstLinkToBeTold(_ links: Links) -> Int { (links.ready ?? links.handshaking)?.number ?? linksBegun + 1 }

    func remember(_ request: Request, _ expectsResponse: Bool) -> UInt64 {
        let number = nextNumber()
        subscriptions[number] = (request, expectsResponse)
        return number
    }

    /// Removes a subscription. A planned change whose link has already restored it starts again, so that the caller's
    /// next request goes out on the present link; in a cluster, every such link does.
    func forget(_ number: UInt64, _ links: Links) {
        guard subscriptions.removeValue(forKey: number) != nil else { return }
        guard links.ready != nil || isMember, let handshake = links.handshaking?.handshake,
            number <= handshake.restoredThrough
        else { return }
        handshake.hasRestoredTooMuch = true
    }
}
