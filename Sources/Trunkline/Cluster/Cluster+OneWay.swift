import Synchronization

/// One-way messages whose callers do not wait until they are written.
extension Cluster {
    /// Accepts a one-way message for sending to one of the servers, or fails immediately. See
    /// ``Client/tryEnqueue(_:timeout:)``.
    ///
    /// - Parameters:
    ///   - request: The message.
    ///   - timeout: The time from this call until the message is written.
    /// - Throws: A ``ClientError``, always with the fate `notSent`: `unavailable` if no server is ready, and those of a
    ///   client.
    public nonisolated func tryEnqueue(_ request: Request, timeout: Timeout = .default) throws(ClientError) {
        if isClosing.load(ordering: .acquiring) { throw .clusterIsClosed }
        let now = loop.now
        guard let link = picker.pick(PickTable.Wish(now: now)) else {
            begin()
            throw ClientError(.unavailable, .notSent, "no server is ready")
        }
        defer { link.end(.notSent, from: now, at: now) }
        try link.client.tryEnqueue(request, timeout: timeout)
    }
}
