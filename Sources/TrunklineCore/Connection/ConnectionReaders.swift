/// The readers of a connection's states.
struct ConnectionReaders {
    var states = Broadcast<ConnectionState>()
    private(set) var published = ConnectionState.idle
    private var waitEnd: Instant?

    /// The rest of a wait shrinks all the time: its end tells whether it is the same wait.
    mutating func update(to state: ConnectionState, waitEnd: Instant?) -> Bool {
        guard state != published, waitEnd == nil || waitEnd != self.waitEnd else { return false }
        (published, self.waitEnd) = (state, waitEnd)
        return true
    }

    mutating func finish() { states.finish() }
}
