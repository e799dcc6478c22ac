package import TrunklineCore

extension LoopbackServer: TransportHandler {
    /// Bytes read in one go, so that writing and timers get their turn.
    private static let readBudget = 1024 * 1024

    func accept(_ socket: any Transport) -> any TransportHandler {
        guard !isStopped else { return acceptor }  // the socket is released, which closes it
        guard links.count < options.maximumConnections else {
            record.refusedConnectionCount += 1
            settle()
            return acceptor
        }
        var transport = socket
        var handler: any TransportHandler = self
        if let context = tls, options.tls?.beginsAtOnce == true {
            do throws(TransportError) {
                let secured = SecuredTransport(try context.makeEngine(for: ""), on: loop, handler: self, over: socket)
                (transport, handler) = (secured, secured.receiver)
            } catch {
                record.lastHandshakeFailure = error
                return acceptor
            }
        }
        let link = ServerLink(transport, LinkCodec(codec.base))
        if transport.exchangesDatagrams { link.codec.useDatagrams() }
        links[transport.id] = link
        if transport is SecuredTransport { awaitHandshake(on: link) }
        record.connectionCount += 1
        record.totalConnections += 1
        if let reaction = options.onConnect { perform(reaction, for: Frame(.request), on: link) }
        updateReading(link)
        settle()
        return handler
    }

    package nonisolated func transport(_ id: UInt64, did event: TransportEvent) {
        assumeIsolated { server in
            guard let link = server.links[id] else { return }
            switch event {
            case .readable: server.read(link)
            case .writable: server.markDirty(link)
            case .connectFailed(let error): server.handshakeFailed(on: link, error)
            case .connected:
                link.isHandshaking = false
                server.record.handshakeCount += 1
                let session = link.secured?.session
                if session?.isResumed == true { server.record.resumptionCount += 1 }
            case .securing, .opening: return
            }
            server.settle()
        }
    }

    func isReading(_ link: ServerLink) -> Bool {
        !isPaused && !link.isStopped && !link.isEnding && link.crowdedCount == 0
    }

    func updateReading(_ link: ServerLink) { link.transport.isReading = isReading(link) }

    private func read(_ link: ServerLink) {
        var budget = Self.readBudget
        while budget > 0, isReading(link) {
            if link.transport.exchangesDatagrams { link.received.await(ReceiveBuffer.datagramSize) }
            loop.withReceiveMemory { link.received.borrow(&$0) }
            let outcome = link.read(into: &decoded)
            for frame in decoded { take(frame, on: link) }
            decoded.removeAll(keepingCapacity: true)
            switch outcome {
            case .nothing: budget = 0
            case .bytes(let count, let mayHaveMore):
                record.bytesReceived += count
                budget = mayHaveMore ? budget - count : 0
            case .end: finish(link)
            case .failed: close(link, .gone)
            case .malformed(let error):
                record.malformedCount += 1
                record.lastMalformation = error
                if !link.transport.exchangesDatagrams { finish(link) }
            }
        }
        loop.withReceiveMemory { link.received.giveBack(to: &$0) }
    }

    private func take(_ frame: Frame, on link: ServerLink) {
        if isReading(link) { handle(frame, on: link) } else if !link.isEnding { link.backlog.append(frame) }
    }

    func resume(_ link: ServerLink) {
        while isReading(link), let frame = link.backlog.popFirst() { handle(frame, on: link) }
        updateReading(link)
    }

    private func nextScripted() -> Reaction? {
        guard let next = scripted.popFirst() else { return nil }
        if next.times > 1 { scripted.prepend((next.reaction, next.times - 1)) }
        return next.reaction
    }

    private func handle(_ frame: Frame, on link: ServerLink) {
        switch frame.kind {
        case .ping, .pong: heartbeatReceived(frame, on: link)
        case .ignored: break
        case .cancel:
            record.note(frame)
            let cancelled = frame.cancelledSerial ?? frame.serial
            link.unfinished.remove(cancelled)
            // When matched in order, a missing response would shift all that follow.
            if !options.answersCancelled, !link.matching.isInOrder {
                dropReplies(to: cancelled, on: link)
            } else {
                freeSerial(of: cancelled, on: link)
            }
            if frame.cancelledSerial != nil { perform(handler(frame), for: frame, on: link) }
        default:
            if takeAnswer(frame, on: link) { return }
            // A codec without a separate server side decodes requests as responses.
            var request = frame
            if request.kind != .part { request.kind = .request }
            let isInOrder = link.matching.isInOrder
            if !isInOrder, isRequestPart(request, on: link) { return }
            record.note(request)
            let reaction = nextScripted() ?? handler(request)
            let exchange = reaction.performs && !isInOrder ? open(request, on: link) : nil
            perform(reaction, for: request, on: link, keepsTurn: isInOrder, exchange: exchange)
        }
    }

    /// Returns whether the frame could be encoded; it is written at the end of the turn.
    @discardableResult
    func send(_ frame: Frame, on link: ServerLink) -> Bool {
        encode(on: link) { () throws(FrameError) in try link.append(frame) } && markDirty(link)
    }

    /// An error closes the link, so that the client does not wait in vain.
    func encode(on link: ServerLink, _ body: () throws(FrameError) -> Void) -> Bool {
        do throws(FrameError) {
            try body()
            return true
        } catch {
            record.unencodableCount += 1
            record.lastEncodingFailure = error
            finish(link)
            return false
        }
    }

    @discardableResult
    func markDirty(_ link: ServerLink) -> Bool {
        guard !link.isDirty else { return true }
        link.isDirty = true
        dirty.append(link)
        return true
    }

    private func flushDirty() {
        isFlushScheduled = false
        var batch = exchange(&dirty, with: [])
        for link in batch {
            link.isDirty = false
            if links[link.transport.id] === link { flush(link) }
        }
        if dirty.isEmpty {
            batch.removeAll(keepingCapacity: true)
            dirty = batch
        }
        settle()
    }

    private func flush(_ link: ServerLink) {
        guard !isSilent else { return link.transport.awaitsWritable = false }
        let before = record.bytesSent
        let outcome = link.flush(sent: &record.bytesSent)
        link.sentCount += record.bytesSent - before
        serveWriters(of: link)
        switch outcome {
        case .done: break
        case .again: markDirty(link)
        case .startTLS: startTLS(link)
        case .close: close(link, .gracefully)
        case .failed: close(link, .gone)
        }
        if link.unsentCount > options.maximumUnsent {
            record.overflowCount += 1
            close(link, .reset)
        }
    }

    /// A connection that is already secured is closed.
    private func startTLS(_ link: ServerLink) {
        guard let tls, link.received.isEmpty, link.backlog.isEmpty, link.secured == nil else {
            record.malformedCount += 1
            return close(link, .gone)
        }
        do throws(TransportError) {
            let engine = try tls.makeEngine(for: "")
            link.transport = SecuredTransport(engine, on: loop, handler: self, over: link.transport)
            link.codec = LinkCodec(codec.base)  // as the client does
            awaitHandshake(on: link)
            updateReading(link)
            markDirty(link)
        } catch {
            handshakeFailed(on: link, error)
        }
    }

    private func awaitHandshake(on link: ServerLink) {
        guard let timeout = options.tls?.handshakeTimeout else { return }
        link.isHandshaking = true
        handshakes.append((link.transport.id, loop.now.advanced(by: timeout)))
    }

    private func handshakeFailed(on link: ServerLink, _ error: TransportError) {
        record.handshakeFailureCount += 1
        record.lastHandshakeFailure = error
        close(link, .gone)
    }

    var handshakeDeadline: Instant? {
        while let first = handshakes.first, links[first.link]?.isHandshaking != true { _ = handshakes.popFirst() }
        return handshakes.first?.deadline
    }

    func endHandshakes(at now: Instant) {
        while let deadline = handshakeDeadline, deadline <= now, let first = handshakes.popFirst() {
            guard let link = links[first.link], let timeout = options.tls?.handshakeTimeout else { continue }
            handshakeFailed(on: link, TransportError(.timedOut, "TLS handshake not completed within \(timeout)"))
        }
    }

    enum Closing { case gracefully, reset, gone }

    func finish(_ link: ServerLink) {
        link.appendClose()
        markDirty(link)
        endExchanges(of: link)
        endCalls(of: link)
    }

    func close(_ link: ServerLink, _ closing: Closing) {
        guard links.removeValue(forKey: link.transport.id) != nil else { return }
        link.isEnding = true
        record.connectionCount -= 1
        forgetDelayed(of: link)
        switch closing {
        case .gracefully: Lingering.close(link.transport, on: loop)
        case .reset: link.transport.reset()
        case .gone: link.transport.close()
        }
    }

    /// Call after everything that may have changed something.
    func settle() {
        if !dirty.isEmpty, !isFlushScheduled {
            isFlushScheduled = true
            loop.scheduleAtEndOfTurn(self)
        }
        serveWaiters()
        armTimer()
    }
}

extension LoopbackServer: LoopWork {
    package nonisolated func runOnLoop() {
        assumeIsolated { $0.flushDirty() }
    }
}
