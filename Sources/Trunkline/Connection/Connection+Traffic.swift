import TrunklineCore
import TrunklineIO

/// Bytes in, bytes out.
extension Connection {
    // MARK: Reading

    /// How much is read in one go, so that writing and timers get their turn.
    private static let readBudget = 1024 * 1024

    /// The socket of a link that is ready. A copy of the whole link would make its codec and its buffer be copied with
    /// the next change.
    private var establishedTransport: (any Transport)? { link?.isEstablished == true ? link?.transport : nil }

    /// Reads until the socket is empty or the budget is spent, decodes every complete frame and hands them over.
    func read() {
        guard let transport = establishedTransport else { return }
        var budget = Self.readBudget
        var ending: (any Error)?
        loop.withReceiveMemory { self.link?.received.borrow(&$0) }
        while budget > 0, ending == nil {
            guard let step = self.link?.readAndDecode(into: &decoded, limit: options.inbound.maximumUndecoded) else {
                return
            }
            budget -= step.count
            ending = step.ending
            if !step.mayHaveMore { break }
        }
        loop.withReceiveMemory { self.link?.received.giveBack(to: &$0) }
        if budget < Self.readBudget { heartbeat.machine.heard(at: loop.turnTime) }
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
            for frame in decoded {
                if frame.kind == .ping || frame.kind == .pong { deliverHeartbeat(frame) } else { inbox.append(frame) }
            }
            serveReaders()
        }
        decoded.removeAll(keepingCapacity: true)
    }

    /// Reading goes on while somebody wants frames; otherwise TCP pushes back on the server.
    func updateReading() {
        guard let transport = establishedTransport else { return }
        let isReading = isOwned ? !isPaused : !readers.isEmpty
        transport.isReading = isReading
        readingChanged(to: isReading)
    }

    // MARK: Writing

    /// Takes `items` over, to be written at the end of this turn; leaves an empty array with memory for others.
    func enqueue(_ items: inout [OutboundQueue.Item]) {
        guard !items.isEmpty else { return }
        outbound.append(taking: &items)
        want()
        scheduleFlush()
    }

    func scheduleFlush() {
        guard !isFlushing, let transport = establishedTransport, !transport.awaitsWritable else { return }
        isFlushing = true
        loop.scheduleAtEndOfTurn(self)
    }

    /// Writes as much as the socket takes: one system call for everything that accumulated, as a rule.
    func flush() {
        isFlushing = false
        guard let transport = establishedTransport else { return }
        var wrote: [Ticket] = []
        var refused: [(item: OutboundQueue.Item, error: FrameError)] = []
        var failure: TransportError?
        if heartbeat.machine.wrote(from: outbound.firstUnwritten, at: loop.turnTime) { armLiveness() }
        // Bounded, so that a caller who writes without end does not keep the loop from reading.
        attempts: for _ in 0..<8 {
            refused += self.link?.encode(from: &outbound) ?? []
            if outbound.unwrittenCount == 0 { break }
            let (outcome, offered) = unsafe outbound.withUnwritten { pieces in
                unsafe (transport.write(pieces), pieces.reduce(0) { $0 + $1.count })
            }
            switch outcome {
            case .bytes(let written):
                outbound.didWrite(written, reporting: &wrote)
                if written < offered { break attempts }  // the socket is full
            case .wouldBlock: break attempts
            case .failed(let error):
                failure = error
                break attempts
            }
        }
        // Set once: every change is a system call.
        transport.awaitsWritable = failure == nil && !outbound.isEmpty
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
}

extension Connection: @preconcurrency LoopWork {
    /// The end of a turn in which something was queued.
    package func runOnLoop() { flush() }
}

extension Connection: @preconcurrency OwnedConnection {
    func beginBatch(of owner: any ConnectionOwner) -> OutboundQueue.Level {
        if !isOwned { adopt(owner) }
        return outbound.level
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
