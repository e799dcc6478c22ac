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
    var certificates: [CertificateExpiry] = []
    var linksBegun = 0
    var isToldOfDelays = false
    var (processes, processWaiters): (Int, [@Sendable () -> Void]) = (0, [])
    private var ends = Rare<Ends>()
    /// `nil` until `liveness.adaptiveInterval` is used.
    var heartbeats: Heartbeats?
    let dialMemory = DialMemory()
    private var lastNumber: UInt64 = 0

    private struct Ends: EmptyInitializable, Sendable {
        var idleTime: Duration?
        var outputs: [(session: SessionID, line: String)] = []
    }

    init(_ endpoints: [Endpoint]) { givenEndpoints = endpoints }

    /// How long nothing was sent or received on the latest link that the server, or a device on the path, has ended.
    var idleTimeOfLatestEnd: Duration? {
        get { ends.value.idleTime }
        set { ends.value.idleTime = newValue }
    }

    mutating func noteOutput(_ line: String, of session: SessionID) {
        ends.value.outputs.removeAll { $0.session == session }
        // A link may drain while the process of the next one begins.
        if ends.value.outputs.count == 4 { ends.value.outputs.removeFirst() }
        ends.value.outputs.append((session, line))
    }

    func lastOutput(of session: SessionID) -> String? { ends.value.outputs.last { $0.session == session }?.line }

    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    mutating func nextID() -> RequestID { RequestID(nextNumber()) }
}
