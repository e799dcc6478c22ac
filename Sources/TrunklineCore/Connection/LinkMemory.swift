/// The values that a connection keeps from link to link.
struct LinkMemory {
    /// The endpoints without those that handshakes have added.
    var givenEndpoints: [Endpoint]
    /// The requests that are sent again on every new link.
    var subscriptions: [UInt64: (request: Request, expectsResponse: Bool)] = [:]
    /// The value that the handshake of the latest ready link has stored.
    var serverInfo: (any Sendable)?
    /// The session that the links share, as the handshake or the application saved it.
    var savedSession: (any Sendable)?
    /// Whether a handshake has declared the session lost, and no link has become ready since. An attempt that fails
    /// afterwards must not hide the loss from the requests that wait.
    var hasLostSession = false
    /// The versions of the TLS files that were last told to differ from those of a link.
    var seenFiles: [FileVersion?] = []
    /// The certificates of the latest ready link.
    var certificates: [CertificateExpiry] = []
    /// The number of links established so far, ready or not.
    var linksBegun = 0
    /// Whether the loop tells the connection of its delays.
    var isToldOfDelays = false
    /// The number of child processes of links that have not ended, and who waits for them.
    var (processes, processWaiters): (Int, [@Sendable () -> Void]) = (0, [])
    private var ends = Rare<Ends>()
    /// The intervals of heartbeats that were learned; `nil` until `liveness.adaptiveInterval` is used.
    var heartbeats: Heartbeats?
    /// The results of dialers for later ones.
    let dialMemory = DialMemory()
    private var lastNumber: UInt64 = 0

    /// What is known about links that have ended, or whose end it may explain.
    private struct Ends: EmptyInitializable, Sendable {
        /// How long nothing was sent or received on the latest link that the server, or a device on the path, has ended.
        var idleTime: Duration?
        /// The last line that each of the latest child processes has written to standard error.
        var outputs: [(session: SessionID, line: String)] = []
    }

    init(_ endpoints: [Endpoint]) { givenEndpoints = endpoints }

    /// How long nothing was sent or received on the latest link that the server, or a device on the path, has ended.
    var idleTimeOfLatestEnd: Duration? {
        get { ends.value.idleTime }
        set { ends.value.idleTime = newValue }
    }

    /// Notes that the child process of a link has written `line` to standard error.
    mutating func noteOutput(_ line: String, of session: SessionID) {
        ends.value.outputs.removeAll { $0.session == session }
        // A link may drain while the process of the next one begins.
        if ends.value.outputs.count == 4 { ends.value.outputs.removeFirst() }
        ends.value.outputs.append((session, line))
    }

    /// The last line that the child process of a link has written to standard error; `nil` if it has written none.
    func lastOutput(of session: SessionID) -> String? { ends.value.outputs.last { $0.session == session }?.line }

    /// Returns a new number, for a subscription or a reader.
    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// Returns a new ID, for a frame to be written or a request of a handshake.
    mutating func nextID() -> RequestID { RequestID(nextNumber()) }
}
