import TrunklineCore

/// How bodies of `Reaction.perform` run and receive frames.
extension LoopbackServer {
    func open(_ request: Frame, on link: ServerLink) -> OpenExchange {
        let open = OpenExchange(request, on: link.transport.id, isAddressed: true)
        link.exchanges[request.serial] = open
        return open
    }

    func begin(
        _ body: @escaping @Sendable (ServerExchange) async throws -> Void,
        _ program: inout Program,
        on link: ServerLink
    ) {
        let open = program.exchange ?? OpenExchange(program.request, on: link.transport.id, isAddressed: false)
        program.exchange = open
        program.holdsUp = program.keepsTurn
        if program.holdsUp { link.heldUp.insert(program.channel) }
        open.program = program
        link.running.append(open)
        let exchange = ServerExchange(request: program.request, server: self, open: open)
        // Unstructured: it starts on the loop, which cannot await it. It ends with its exchange: `end` cancels it.
        open.task = Task(executorPreference: loop.callbackExecutor) {
            var failure: (any Error)?
            do { try await body(exchange) } catch { failure = error }
            await self.bodyEnded(open, failure)
        }
    }

    private func bodyEnded(_ open: OpenExchange, _ failure: (any Error)?) {
        defer { settle() }
        open.task = nil
        let left = open.program.take()  // breaks a reference cycle: the program refers to the exchange
        guard let link = links[open.link], let program = left else { return }
        link.running.removeAll { $0 === open }
        guard !link.isEnding, open.state != .ended else { return }
        let hasMore = failure == nil && program.hasReactions
        guard open.state == .replied || hasMore else {
            record.unansweredCount += 1
            record.lastBodyFailure = failure
            return finish(link)
        }
        run(program)
    }

    /// Ends an exchange because its request was cancelled or its link has ended.
    func end(_ open: OpenExchange, on link: ServerLink) {
        guard open.state != .ended else { return }
        let wasOpen = open.state == .open
        open.state = .ended
        if wasOpen, open.isAddressed { link.exchanges[open.request.serial] = nil }
        open.task?.cancel()
        let readers = exchange(&open.readers, with: [])
        for reader in readers { reader.continuation.resume(returning: .failure(CancellationError())) }
        let writers = link.writers.filter { $0.open === open }
        link.writers.removeAll { $0.open === open }
        for writer in writers { writer.continuation.resume(returning: CancellationError()) }
        empty(open, on: link)
    }

    func endExchanges(of link: ServerLink) {
        let all = link.exchanges.values.sorted { $0.request.serial < $1.request.serial } + link.running
        for open in all { end(open, on: link) }
        link.running.removeAll()
        link.unfinished.removeAll()
    }

    /// Closes an exchange whose reply is queued, or which will have no reply.
    func close(_ open: OpenExchange, on link: ServerLink) {
        guard open.state == .open else { return }
        open.state = .replied
        if open.isAddressed {
            link.exchanges[open.request.serial] = nil
            // Later parts with this serial are not new requests. The client's last part removes the entry.
            if !open.isComplete { link.unfinished.insert(open.request.serial) }
        }
        let readers = exchange(&open.readers, with: [])
        for reader in readers { reader.continuation.resume(returning: .success(nil)) }
        empty(open, on: link)
        // A bound on memory: a client that never completes its requests loses the connection.
        if link.unfinished.count > 65_536 { finish(link) }
    }

    /// A complete request was cancelled but is answered nevertheless: the next request with its serial is another one.
    func freeSerial(of serial: SerialNumber, on link: ServerLink) {
        guard let open = link.exchanges[serial], open.isComplete else { return }
        link.exchanges[serial] = nil
        open.isAddressed = false
        let readers = exchange(&open.readers, with: [])
        for reader in readers { reader.continuation.resume(returning: .success(nil)) }
        empty(open, on: link)
    }

    private func empty(_ open: OpenExchange, on link: ServerLink) {
        open.inbox.removeAll()
        open.inboxBytes = 0
        makeRoom(open, on: link)
    }

    /// Whether `frame` belongs to a present or past exchange and not to the handler.
    func isRequestPart(_ frame: Frame, on link: ServerLink) -> Bool {
        let isUpdate = codec.isWindowUpdate(frame)
        if let open = link.exchanges[frame.serial] {
            take(frame, isUpdate, for: open, on: link)
        } else if link.unfinished.contains(frame.serial) {
            if frame.kind != .part, !isUpdate { link.unfinished.remove(frame.serial) }
        } else if !isUpdate {
            return false
        }
        record.requestPartCount += 1
        return true
    }

    private func take(_ frame: Frame, _ isUpdate: Bool, for open: OpenExchange, on link: ServerLink) {
        if frame.kind != .part, !isUpdate, !open.isComplete { (open.isComplete, open.type) = (true, frame.type) }
        if !open.readers.isEmpty {
            return open.readers.removeFirst().continuation.resume(returning: .success(frame))
        }
        open.inbox.append(frame)
        open.inboxBytes += frame.byteCount
        guard open.isFull, !open.isCrowded else { return }
        open.isCrowded = true
        link.crowdedCount += 1
        updateReading(link)
    }

    private func makeRoom(_ open: OpenExchange, on link: ServerLink) {
        guard open.isCrowded, open.isRoomy else { return }
        open.isCrowded = false
        link.crowdedCount -= 1
        if !link.isEnding { resume(link) }
    }

    func next(of open: OpenExchange) async throws -> Frame? {
        lastID = lastID.advanced(by: 1)
        let id = lastID
        let result = await withTaskCancellationHandler {
            await withContinuation { (continuation: OpenExchange.Reader) in
                if Task.isCancelled || open.state == .ended {
                    return continuation.resume(returning: .failure(CancellationError()))
                }
                guard open.state == .open, open.isAddressed, let link = links[open.link] else {
                    return continuation.resume(returning: .success(nil))
                }
                if let frame = open.inbox.popFirst() {
                    open.inboxBytes -= frame.byteCount
                    continuation.resume(returning: .success(frame))
                    makeRoom(open, on: link)
                    return settle()
                }
                open.readers.append((id, continuation))
                // As in `wait`: the task may have been cancelled before the reader was registered.
                if Task.isCancelled { stopReader(id, of: open) }
            }
        } onCancel: {
            loop.schedule(LoopClosure { [weak self] in self?.assumeIsolated { $0.stopReader(id, of: open) } })
        }
        return try result.get()
    }

    private func stopReader(_ id: RequestID, of open: OpenExchange) {
        guard let index = open.readers.firstIndex(where: { $0.id == id }) else { return }
        open.readers.remove(at: index).continuation.resume(returning: .failure(CancellationError()))
    }

    /// Writes a part of the reply.
    func write(_ frame: Frame, of open: OpenExchange) async throws {
        lastID = lastID.advanced(by: 1)
        let id = lastID
        let link = try emit(frame, of: open)
        let mark = link.sentCount + link.unsentCount
        let failure = await withTaskCancellationHandler {
            await withContinuation { (continuation: Continuation<CancellationError?>) in
                // Checked here: before this point the part may have been written, or the exchange may have ended.
                let isWritten = link.sentCount >= mark
                if isWritten, link.secured.map({ $0.takenMark <= $0.sentMark }) ?? true {
                    return continuation.resume(returning: nil)
                }
                guard open.state != .ended, !link.isEnding, links[open.link] === link else {
                    return continuation.resume(returning: CancellationError())
                }
                link.writers.append(PartWriter(id: id, open: open, mark: mark, continuation: continuation))
                if isWritten { serveWriters(of: link) }
                if Task.isCancelled { stopWriter(id, on: link.transport.id) }
            }
        } onCancel: {
            loop.schedule(LoopClosure { [weak self] in self?.assumeIsolated { $0.stopWriter(id, on: open.link) } })
        }
        if let failure { throw failure }
    }

    private func stopWriter(_ id: RequestID, on linkID: UInt64) {
        guard let link = links[linkID], let index = link.writers.firstIndex(where: { $0.id == id }) else { return }
        link.writers.remove(at: index).continuation.resume(returning: CancellationError())
    }

    func serveWriters(of link: ServerLink) {
        let transport = link.transport
        guard let first = link.writers.first, first.mark <= link.sentCount else { return }
        // Bytes may be encrypted and waiting for the socket. If it has failed, the next read reports that.
        let secured = link.secured
        if let secured, secured.takenMark > secured.sentMark,
            case .failed = unsafe transport.write(BytePieces(start: nil, count: 0))
        {
            return
        }
        let taken = secured?.takenMark ?? 0
        for index in link.writers.indices {
            guard link.writers[index].mark <= link.sentCount else { break }
            if link.writers[index].takenMark == nil { link.writers[index].takenMark = taken }
        }
        // More bytes may have been encrypted since: on a busy link, some are always waiting.
        while let mark = link.writers.first?.takenMark {
            guard mark <= secured?.sentMark ?? 0 else { return transport.awaitsWritable = true }
            link.writers.removeFirst().continuation.resume(returning: nil)
        }
    }

    /// Writes the reply and closes the exchange.
    func reply(_ frame: Frame, to open: OpenExchange) throws {
        var frame = frame
        frame.kind = .response
        let link = try emit(frame, of: open)
        close(open, on: link)
        guard open.program?.holdsUp == true else { return settle() }
        let channel = open.program?.channel ?? 0
        open.program?.keepsTurn = false
        open.program?.holdsUp = false
        runLine(channel, of: link)
        settle()
    }

    /// Queues a frame of the reply.
    private func emit(_ frame: Frame, of open: OpenExchange) throws -> ServerLink {
        guard open.state != .replied else {
            throw FrameError(.malformed, "a reply to this request was already sent")
        }
        guard open.state == .open, let link = links[open.link], !link.isEnding, let program = open.program else {
            throw CancellationError()
        }
        defer { settle() }
        guard emit(reply(frame, to: program.request, typed: open.type, on: link), program, link) else {
            throw record.lastEncodingFailure ?? FrameError(.malformed, "the frame cannot be encoded")
        }
        return link
    }
}

extension LoopbackServer {
    var exchangeCount: Int {
        links.values.reduce(0) {
            $0 + $1.exchanges.count + $1.running.count + $1.unfinished.count + $1.writers.count + $1.crowdedCount
        }
    }

    var heldCount: Int { links.values.flatMap(\.exchanges.values).reduce(0) { $0 + $1.inbox.count } }

    var hasCrowdedLinks: Bool { links.values.contains { $0.crowdedCount > 0 } }

    var unsentCount: Int { links.values.reduce(0) { $0 + $1.unsentCount } }
}
