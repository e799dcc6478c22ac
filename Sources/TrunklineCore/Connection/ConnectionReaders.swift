/// The readers of a connection's states.
struct ConnectionReaders {
    var states = Broadcast<ConnectionState>()
    /// The running probe of `options.diagnosis`, with the reports that wait for it.
    var probe: NetworkProbe?
    /// The latest state that the readers have received.
    private(set) var published = ConnectionState.idle
    /// The end of the wait that `published` describes; `nil` if it is no wait.
    private var waitEnd: Instant?

    /// Makes `state` the latest one. Returns whether it differs from the one before. The rest of a wait shrinks all the
    /// time: its end tells whether it is the same wait.
    mutating func update(to state: ConnectionState, waitEnd: Instant?) -> Bool {
        guard state != published, waitEnd == nil || waitEnd != self.waitEnd else { return false }
        (published, self.waitEnd) = (state, waitEnd)
        return true
    }

    mutating func finish() { states.finish() }
}
