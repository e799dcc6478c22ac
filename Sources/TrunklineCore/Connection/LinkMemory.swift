/// The values that a connection keeps from link to link.
struct LinkMemory {
    /// Without those that handshakes have added.
    var givenEndpoints: [Endpoint]
    var subscriptions: [UInt64: (request: Request, expectsResponse: Bool)] = [:]
    var serverInfo: (any Sendable)?
    var savedSession: (any Sendable)?
    /// Stays set until a link is ready: a failed attempt must not hide the loss from the requests that wait.
    var hasLostSession = false
    /// The versions of the TLS files that were last told to differ from those of a link.
    var seenFiles: [FileVersion?] = []
    var linksBegun = 0
    var isToldOfDelays = false
    /// `nil` until `liveness.adaptiveInterval` is used.
    var heartbeats: Heartbeats?
    let dialMemory = DialMemory()
    private var lastNumber: UInt64 = 0

    init(_ endpoints: [Endpoint]) { givenEndpoints = endpoints }

    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    mutating func nextID() -> RequestID { RequestID(nextNumber()) }
}
