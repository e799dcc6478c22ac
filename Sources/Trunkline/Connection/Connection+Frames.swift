public import TrunklineCore
import TrunklineIO

/// A connection used alone: frames in by asking for them, frames out one by one.
extension Connection {
    /// The frames that the server sends, of every kind, across reconnects, until the connection is closed
    /// or, with `options.reconnecting.maximumAttempts`, no server could be reached.
    ///
    /// It pulls: while nobody asks for the next frame, reading from the socket pauses and TCP pushes back on the
    /// server; its pings stay unanswered then, and a dead link unnoticed (`ClientOptions.Liveness`). Several readers share
    /// the frames, each frame goes to one. Asking for the first frame connects. A ping of the server's has been answered
    /// when it comes, if the codec answers pings; answers to our own heartbeat do not come.
    public nonisolated var frames: AsyncStream<Frame> {
        AsyncStream { await self.nextFrame() }
    }

    private func nextFrame() async -> Frame? {
        lastTicket += 1
        let id = lastTicket
        return await withTaskCancellationHandler {
            await withSuspension { continuation in
                // Asked here and not before: each `await` above may let the loop do other things first.
                if let frame = inbox.popFirst() { return continuation.resume(returning: frame) }
                guard machine.state != .closed, !isDraining, !Task.isCancelled else {
                    return continuation.resume(returning: nil)
                }
                readers[id] = continuation
                want()
                updateReading()
            }
        } onCancel: {
            loop.schedule(Completion { [weak self] in self?.assumeIsolated { $0.stopReader(id) } })
        }
    }

    private func stopReader(_ id: UInt64) {
        readers.removeValue(forKey: id)?.resume(returning: nil)
        updateReading()
    }

    /// No frame will come for those who ask for one now: their streams end.
    func endReaders() {
        for (_, reader) in exchange(&readers, with: [:]).sorted(by: { $0.key < $1.key }) {
            reader.resume(returning: nil)
        }
    }

    func serveReaders() {
        while !inbox.isEmpty, let id = readers.keys.min() {
            let frame = inbox.popFirst()
            readers.removeValue(forKey: id)?.resume(returning: frame)
        }
        updateReading()
    }

    /// Sends `frame` as it is and returns when the kernel has all of its bytes. Connects if there is no link.
    ///
    /// Cancelled before its first byte is written, it is not sent: `cancelled`, fate `notSent`; after that the frame
    /// goes out whole: `cancelled`, fate `unknown`. Lost with the link: `connectionLost`, fate `unknown`.
    public func write(_ frame: Frame) async throws(ClientError) {
        lastTicket += 1
        let ticket = lastTicket
        let error = await withTaskCancellationHandler {
            await withSuspension { (continuation: Writer) in
                // Asked here and not before: each `await` above may let the loop do other things first.
                guard machine.state != .closed, !isDraining else {
                    return continuation.resume(
                        returning: ClientError(.closed, .notSent, "the connection is closed")
                    )
                }
                guard !Task.isCancelled else {
                    return continuation.resume(
                        returning: ClientError(.cancelled, .notSent, "cancelled before it was sent")
                    )
                }
                writers[ticket] = (outbound.nextPosition, continuation)
                var items = [OutboundQueue.Item(frame, ticket: ticket, reportsWritten: true)]
                enqueue(&items)
                if Task.isCancelled { cancelWrite(ticket) }
            }
        } onCancel: {
            loop.schedule(Completion { [weak self] in self?.assumeIsolated { $0.cancelWrite(ticket) } })
        }
        if let error { throw error }
    }

    private func cancelWrite(_ ticket: Ticket) {
        guard let writer = writers.removeValue(forKey: ticket) else { return }
        let started = outbound.hasStarted(writer.position)
        if !started { outbound.remove(writer.position) }
        let error = ClientError(.cancelled, started ? .unknown : .notSent, "cancelled while it was being sent")
        writer.continuation.resume(returning: error)
    }

    /// Fails the writers whose frame's position satisfies `predicate`.
    func failWriters(_ error: ClientError, where predicate: (OutboundPosition) -> Bool) {
        // In order: that of a dictionary differs from process to process.
        for (ticket, writer) in writers.sorted(by: { $0.key < $1.key }) where predicate(writer.position) {
            writers[ticket] = nil
            writer.continuation.resume(returning: error)
        }
    }
}
