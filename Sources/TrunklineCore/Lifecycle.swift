/// The stages of closing a connection or a client. A stage is never followed by an earlier one.
package enum Lifecycle: Comparable {
    case open
    /// The client, or its connection, takes no new requests. Those accepted before may finish.
    case draining
    /// No request is accepted or awaited any more. Queued bytes are still written.
    case closing
    case closed
}
