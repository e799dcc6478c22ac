public import TrunklineCore
import TrunklineIO

/// Bytes in, bytes out.
extension Connection {
    // MARK: Reading

    /// How much is read in one go, so that writing and timers get their turn.
    private static let readBudget = 1024 * 1024

    /// Reads until the socket is empty or the budget is spent, decodes every complete frame and hands them over.
    func read() {
        guard let link, link.isEstablished else { return }
        let transport = link.transport
        var budget = Self.readBudget
        var ending: (any Error)?
        while budget > 0, ending == nil {
            guard let step = self.link?.readAndDecode(into: &decoded, limit: options.inbound.maximumUndecoded) else {
                return
            }
            budget -= step.count
            ending = step.ending
            if !step.mayHaveMore { break }
        }
        self.link?.received.trim()
        deliver()
        // The frames may have made their receiver close, or lose, this very link.
        guard let ending, self.link?.transport === transport else { return }
        lose(ending)
    }

    private func deliver() {
        guard !decoded.isEmpty else { return }
        if let owner {
            owner.connection(did: .received(decoded))
        } else {
            for frame in decoded { inbox.append(frame) }
            serveReaders()
        }
        decoded.removeAll(keepingCapacity: true)
    }

    /// Reading goes on while somebody wants frames; otherwise TCP pushes back on the server.
    func updateReading() {
        guard let link, link.isEstablished else { return }
        link.transport.isReading = owner != nil ? !isPaused : !readers.isEmpty
    }

    // MARK: Writing

    /// Queues `items`, to be written at the end of this turn.
    func enqueue(_ items: [OutboundQueue.Item]) {
        guard !items.isEmpty else { return }
        for item in items { outbound.append(item) }
        want()
        scheduleFlush()
    }

    func scheduleFlush() {
        guard !isFlushing, let link, link.isEstablished, !link.transport.awaitsWritable else { return }
        isFlushing = true
        loop.scheduleAtEndOfTurn(self)
    }

    /// Writes as much as the socket takes: one system call for everything that accumulated, as a rule.
    func flush() {
        isFlushing = false
        guard let link, link.isEstablished else { return }
        let transport = link.transport
        transport.awaitsWritable = false
        var wrote: [Ticket] = []
        var refused: [(item: OutboundQueue.Item, error: FrameError)] = []
        var failure: TransportError?
        // Bounded, so that a caller who writes without end does not keep the loop from reading.
        for _ in 0..<8 where failure == nil && !transport.awaitsWritable {
            refused += self.link?.encode(from: &outbound) ?? []
            let count = outbound.encodedCount
            if count == 0 { break }
            let outcome = unsafe outbound.withUnwritten { unsafe transport.write($0) }
            switch outcome {
            case .bytes(let written):
                outbound.didWrite(written, reporting: &wrote)
            case .wouldBlock: transport.awaitsWritable = true
            case .failed(let error): failure = error
            }
        }
        if !outbound.isEmpty && failure == nil { transport.awaitsWritable = true }
        report(wrote: wrote, refused: refused)
        if let failure { return loseAfterLastWords(of: transport, failure) }
        if isDraining && outbound.isEmpty { finishClosing() }
    }

    private func report(wrote: [Ticket], refused: [(item: OutboundQueue.Item, error: FrameError)]) {
        if let owner {
            if !refused.isEmpty { owner.connection(did: .refused(refused.map { ($0.item.ticket, $0.error) })) }
            if !wrote.isEmpty { owner.connection(did: .wrote(wrote)) }
            owner.connection(did: .drained)
        } else {
            for (item, error) in refused {
                let error = ClientError(.invalidRequest, .notSent, "the frame cannot be encoded", cause: error)
                writers.removeValue(forKey: item.ticket)?.continuation.resume(returning: error)
            }
            for ticket in wrote { writers.removeValue(forKey: ticket)?.continuation.resume(returning: nil) }
        }
    }

    /// A write failed because the peer is gone; what it said before may still be there to read.
    private func loseAfterLastWords(of transport: any Transport, _ failure: TransportError) {
        if link?.transport === transport { read() }
        if link?.transport === transport { lose(failure) }
    }

    // MARK: Without an owner

    /// The frames that the server sends, of every kind, across reconnects, until the connection is closed.
    ///
    /// It pulls: while nobody asks for the next frame, reading from the socket pauses and TCP pushes back on the
    /// server. Several readers share the frames, each frame goes to one. Asking for the first frame connects.
    public nonisolated var frames: AsyncStream<Frame> {
        AsyncStream { await self.nextFrame() }
    }

    private func nextFrame() async -> Frame? {
        lastTicket += 1
        let id = lastTicket
        return await withTaskCancellationHandler {
            await suspend { continuation in
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

    private func serveReaders() {
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
            await suspend { (continuation: Writer) in
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
                enqueue([OutboundQueue.Item(frame, ticket: ticket, reportsWritten: true)])
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

extension Connection: LoopWork {
    /// The end of a turn in which something was queued.
    package nonisolated func runOnLoop() {
        assumeIsolated { $0.flush() }
    }
}

extension Link {
    /// Encodes the next batch of `outbound`; see there.
    mutating func encode(
        from outbound: inout OutboundQueue
    ) -> [(item: OutboundQueue.Item, error: FrameError)] {
        outbound.encode(using: &codec)
    }

    /// Reads once and decodes what is complete.
    mutating func readAndDecode(
        into frames: inout [Frame],
        limit: Int
    ) -> (count: Int, mayHaveMore: Bool, ending: (any Error)?) {
        let transport = transport
        var offered = 0
        let (count, outcome) = unsafe received.fill { free in
            offered = free.count
            let outcome = unsafe transport.read(into: free)
            if case .bytes(let count) = outcome { return (count, outcome) }
            return (0, outcome)
        }
        switch outcome {
        case .bytes: break
        case .wouldBlock: return (0, false, nil)
        case .end: return (0, false, TransportError(.closedByPeer, "the server closed the connection"))
        case .failed(let error): return (0, false, error)
        }
        do throws(FrameError) {
            try codec.decodeAll(&received, into: &frames)
            if received.count > limit { throw FrameError(.illegalLength, "no frame within \(limit) bytes") }
        } catch {
            return (count, false, error)
        }
        return (count, count == offered, nil)
    }
}
