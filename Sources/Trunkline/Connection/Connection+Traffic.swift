import TrunklineCore
import TrunklineIO

/// Bytes in, bytes out.
extension Connection {
    // MARK: Reading

    /// The socket of a link that carries requests.
    private var readyTransport: (any Transport)? { greeting == nil ? link?.transport : nil }

    /// Reads until the socket is empty or the share is used up, decodes the complete frames and hands them over. What is
    /// left then is read in the next turn.
    func read() {
        guard let transport = link?.transport, greeting?.loss == nil else { return }
        var share = ReadShare()
        share.limit(to: readBudget(of: .max))
        let before = transport.receivedCount
        var count = 0
        var ending: (any Error)?
        if link?.holdsFrames == false { loop.withReceiveMemory { self.link?.received.borrow(&$0) } }
        while true {
            let decodedBefore = decoded.count
            guard
                let step = self.link?.readAndDecode(
                    into: &decoded,
                    limit: options.inbound.maximumUndecoded,
                    maximumFrames: share.step
                )
            else { return }
            count += step.count
            ending = step.ending
            guard ending == nil, step.mayHaveMore else { break }
            guard share.goesOn(after: step.count, decoded.count - decodedBefore, since: loop.turnTime, at: loop.now)
            else {
                scheduleReading()
                break
            }
        }
        loop.withReceiveMemory { self.link?.received.giveBack(to: &$0) }
        // With TLS also what is no complete record yet, or has nothing to read.
        count = max(count, transport.receivedCount &- before)
        if count > 0 || !decoded.isEmpty { received(count, hasFrames: !decoded.isEmpty) }
        // Taken out first: whatever their receivers do, none is delivered twice.
        var frames = exchange(&decoded, with: [])
        let hasProgress = count > 0 || !frames.isEmpty
        deliver(frames)
        frames.removeAll(keepingCapacity: true)
        if decoded.isEmpty { decoded = frames }
        // The frames may have made their receiver close, or lose, this very link.
        guard self.link?.transport === transport else { return }
        if let ending { return lose(ending) }
        guard let lastWords = self.link?.lastWords else { return }
        self.link?.lastWords?.byteCount += count
        // Over TLS a read stops after so many records, and says nothing of those behind them.
        if hasProgress, mayReadLastWords { scheduleReading() } else { lose(lastWords.failure) }
    }

    /// Whether what a link has left to say that cannot be written to any more may go on being read. What a receiver does not
    /// take is held as far as there is room; the rest is lost, for a link like that must not be kept for a receiver.
    private var mayReadLastWords: Bool {
        guard let lastWords = link?.lastWords, loop.turnTime < lastWords.deadline else { return false }
        if let greeting { return greeting.mayRead }
        if isOwned { return !isPaused || !isHoldFull }
        return !readers.isEmpty || lastWords.byteCount < options.inbound.maximumHeld
    }

    /// Reads on in the next turn.
    func scheduleReading() {
        guard !isReadScheduled else { return }
        isReadScheduled = true
        loop.scheduleInNextTurn(Completion { [weak self] in self?.assumeIsolated { $0.readOn() } })
    }

    private func readOn() {
        isReadScheduled = false
        // No copy of the link, as in `transport(_:did:)`.
        if link?.lastWords != nil || link?.transport.isReading == true { read() }
        readRetiredOn()
    }

    func deliver(_ frames: [Frame]) {
        guard !frames.isEmpty else { return }
        if greeting != nil { return takeInGreeting(frames) }
        if !machine.hasDelivered, frames.contains(where: \.isPush) { machine.linkDelivered() }
        if let owner {
            let frames = isPaused || !held.frames.isEmpty ? hold(frames) : frames
            if !frames.isEmpty { owner.connection(did: .received(frames)) }
        } else {
            // Without requests there is no telling an answer from a complaint, unless nothing was written.
            if let link, link.firstPosition < outbound.level.unstarted { machine.linkAnswered() }
            for var frame in frames {
                frame.session = link?.session ?? 0
                if frame.kind == .ping || frame.kind == .pong { deliverHeartbeat(frame) } else { inbox.append(frame) }
            }
            serveReaders()
        }
    }

    /// Reading goes on while somebody wants frames; otherwise TCP pushes back on the server.
    func updateReading() {
        for old in retired { old.link.transport.isReading = !isPaused }
        if !isPaused, retired.contains(where: \.mayHaveMore) { scheduleReading() }
        guard let transport = link?.transport else { return }
        if let greeting {
            transport.isReading = greeting.mayRead && greeting.loss == nil
        } else {
            transport.isReading = isOwned ? !isPaused || !isHoldFull : !readers.isEmpty || held.isUnlimited
        }
        if transport.isReading, link?.holdsFrames == true { scheduleReading() }
        readingChanged(to: transport.isReading)
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
        guard let transport = readyTransport, !transport.awaitsWritable else { return }
        flushAtEndOfTurn()
    }

    func flushAtEndOfTurn() {
        guard !isFlushing else { return }
        isFlushing = true
        loop.scheduleAtEndOfTurn(self)
    }

    /// Writes as much as the socket takes: one system call for everything that accumulated, as a rule.
    func flush() {
        isFlushing = false
        guard let transport = readyTransport, link?.lastWords == nil else { return }
        if heartbeat.machine.wrote(from: outbound.firstUnwritten, at: loop.turnTime) { armLiveness() }
        guard let result = self.link?.write(from: &outbound) else { return }
        if let failure = result.failure { startLastWords(failure) }
        report(wrote: result.wrote, refused: result.refused)
        guard result.failure == nil else { return }
        if let refusal = result.refused.first(where: { $0.item.ticket == 0 && $0.item.frame.kind == .ping }) {
            return loseUnwatched(transport, refusal.error)
        }
        guard isDraining && outbound.isEmpty else { return }
        // Encrypted, and waiting for the socket.
        if transport.isHoldingBytes { transport.awaitsWritable = true } else { finishClosing() }
    }

    func report(wrote: [Ticket], refused: [(item: OutboundQueue.Item, error: FrameError)]) {
        noteUnencodable(refused)
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

    /// Counts the frames of ours among `refused`: nobody waits for them who could be told.
    func noteUnencodable(_ refused: [(item: OutboundQueue.Item, error: FrameError)]) {
        for (item, error) in refused where item.ticket == 0 {
            statistics.unencodableFrames += 1
            statistics.lastEncodingFailure = error
        }
    }

    /// A ping of ours cannot be encoded: without this the link would be given up for a silence that is not the server's.
    private func loseUnwatched(_ transport: any Transport, _ error: FrameError) {
        guard link?.transport === transport else { return }
        lose(TransportError(.closedLocally, "a ping cannot be encoded: \(error)"))
    }

    /// A write failed because the peer is gone; what it said before may still be there to read. The link is lost when that
    /// has been read.
    func startLastWords(_ failure: TransportError) {
        link?.startLastWords(failure, until: loop.now.advanced(by: options.liveness.deadline))
        scheduleReading()
    }
}

extension Connection: @preconcurrency LoopWork {
    /// The end of a turn in which something was queued.
    package func runOnLoop() {
        if greeting == nil { flush() } else { flushGreeting() }
        if !retired.isEmpty { flushRetired() }
    }
}

extension Connection: @preconcurrency OwnedConnection {
    func beginBatch(of owner: any ConnectionOwner) -> OutboundQueue.Level {
        if !isOwned { adopt(owner) }
        var level = outbound.level
        level.isReady = isReady
        return level
    }
}

extension Link {
    /// Writes as much of `queue` as the socket takes, and waits for the socket if that is not all.
    mutating func write(from queue: inout OutboundQueue) -> WriteResult {
        var result = WriteResult()
        guard lastWords == nil else { return result }
        if !heldWrites.isEmpty {
            // What waits goes first.
            if case .failed(let error) = unsafe transport.write([]) {
                result.failure = error
                transport.awaitsWritable = false
                return result
            }
            releaseWrites(&result.wrote)
        }
        // Bounded, so that a caller who writes without end does not keep the loop from reading.
        attempts: for _ in 0..<8 {
            result.refused += queue.encode(using: &codec)
            if queue.unwrittenCount == 0 { break }
            let (outcome, offered) = unsafe queue.withUnwritten { pieces in
                unsafe (transport.write(pieces), pieces.reduce(0) { $0 + $1.count })
            }
            switch outcome {
            case .bytes(let written):
                if notesSent { queue.forEachStarting(within: written) { codec.noteSent($0) } }
                let firstNew = result.wrote.count
                queue.didWrite(written, reporting: &result.wrote)
                if result.wrote.count > firstNew { holdUnsent(&result.wrote, from: firstNew) }
                if written < offered { break attempts }  // the socket is full
            case .wouldBlock: break attempts
            case .failed(let error):
                result.failure = error
                break attempts
            }
        }
        if result.failure == nil { releaseWrites(&result.wrote) }
        // Set once: every change is a system call.
        transport.awaitsWritable = result.failure == nil && !(queue.isEmpty && heldWrites.isEmpty)
        return result
    }

    /// Moves what `wrote` has from `start` on to `heldWrites` when not all of it is with the kernel.
    private mutating func holdUnsent(_ wrote: inout [Ticket], from start: Int) {
        let mark = transport.takenMark
        guard mark > transport.sentMark else { return }
        for ticket in wrote[start...] { heldWrites.append((ticket, mark)) }
        wrote.removeSubrange(start...)
    }

    /// Moves those of `heldWrites` to `wrote` whose bytes are with the kernel. More may have been encrypted since: on a busy
    /// link there is always something that waits.
    private mutating func releaseWrites(_ wrote: inout [Ticket]) {
        let sent = transport.sentMark
        while let first = heldWrites.first, first.mark <= sent {
            wrote.append(first.ticket)
            _ = heldWrites.popFirst()
        }
    }

    /// What came of a `write`.
    struct WriteResult {
        /// Who wanted to hear that the kernel has their last byte.
        var wrote: [Ticket] = []
        /// What could not be encoded and is out of the queue.
        var refused: [(item: OutboundQueue.Item, error: FrameError)] = []
        var failure: TransportError?
    }

    /// Reads once, unless complete frames are left over from the last time, and decodes at most `maximumFrames`.
    mutating func readAndDecode(
        into frames: inout [Frame],
        limit: Int,
        maximumFrames: Int
    ) -> (count: Int, mayHaveMore: Bool, ending: (any Error)?) {
        var (count, offered) = (0, 0)
        if !holdsFrames {
            let transport = transport
            let outcome: ReadOutcome
            (count, outcome) = unsafe received.fill { free in
                offered = free.count
                let outcome = unsafe transport.read(into: free)
                if case .bytes(let count) = outcome { return (count, outcome) }
                return (0, outcome)
            }
            switch outcome {
            case .bytes: break
            case .wouldBlock: return (0, false, nil)
            case .end: return (0, false, end(into: &frames))
            case .failed(let error): return (0, false, error)
            }
        }
        let before = frames.count
        do throws(FrameError) {
            try codec.decodeAll(&received, into: &frames, limit: maximumFrames)
            holdsFrames = frames.count - before >= maximumFrames && !received.isEmpty
            if !holdsFrames, received.count > limit {
                throw FrameError(.illegalLength, "no frame within \(limit) bytes (inbound.maximumUndecoded)")
            }
        } catch {
            return (count, false, error)
        }
        // Nothing was read when frames were left over: what the socket has is not known.
        return (count, holdsFrames || count == offered, nil)
    }

    /// The server has closed: decodes what that completes, and says why the link ends.
    private mutating func end(into frames: inout [Frame]) -> any Error {
        do throws(FrameError) {
            try codec.decodeAllAtEnd(&received, into: &frames)
            return TransportError(.closedByPeer, "the server closed the connection")
        } catch {
            return error
        }
    }
}
