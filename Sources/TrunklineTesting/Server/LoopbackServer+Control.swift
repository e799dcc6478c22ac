public import Trunkline

/// What a test makes the server do.
extension LoopbackServer {
    // MARK: On its own account

    /// Pushes `frame` to every connected client. Returns to how many.
    ///
    /// Throws when the codec cannot encode it.
    @discardableResult
    public func push(_ frame: Frame) throws(FrameError) -> Int {
        var push = frame
        push.kind = .push
        return try broadcast(push)
    }

    /// Writes `frame` as it is to every connected client. Returns to how many.
    ///
    /// Throws when the codec cannot encode it.
    @discardableResult
    public func broadcast(_ frame: Frame) throws(FrameError) -> Int {
        defer { settle() }
        let open = sortedLinks.filter { !$0.isEnding }
        for link in open {
            try link.append(frame)
            markDirty(link)
        }
        return open.count
    }

    // MARK: Reactions

    /// Does `reactions` about the next requests, one each, before it asks the handler again. Adds to an earlier script.
    public func script(_ reactions: Reaction...) {
        for reaction in reactions { scripted.append(reaction) }
    }

    /// Does `reaction` about each of the next `count` requests, before it asks the handler again.
    public func script(_ reaction: Reaction, times count: Int) {
        for _ in 0..<max(0, count) { scripted.append(reaction) }
    }

    /// Does the reactions that `outOfOrder` holds, in the order of their requests.
    public func releaseHeld() {
        for link in sortedLinks {
            for program in exchange(&link.held, with: []) { run(program) }
        }
        settle()
    }

    // MARK: Connections

    /// Closes every connection: in good order, or with a reset. Clients may connect again.
    ///
    /// In good order means that everything is written that the kernel takes at once; delayed replies are dropped.
    public func disconnectAll(reset: Bool = false) {
        for link in sortedLinks {
            if !reset { _ = link.flush(sent: &record.bytesSent) }
            close(link, reset ? .reset : .gracefully)
        }
        settle()
    }

    /// Stops listening: clients that try to connect are refused. Connections stay.
    public func stopAccepting() { acceptor.assumeIsolated { $0.pause() } }

    /// Dies as a process does: stops listening and resets every connection, in one step, so that no client comes back in
    /// between. `resumeAccepting` revives it at the same endpoint, and the journal goes on.
    public func kill() {
        stopAccepting()
        disconnectAll(reset: true)
    }

    /// Listens again at the same endpoint. Throws when somebody else has taken it.
    public func resumeAccepting() throws(TransportError) {
        guard !isStopped else { return }
        let result = acceptor.assumeIsolated { acceptor -> Result<Void, TransportError> in
            Result { () throws(TransportError) in try acceptor.listenAgain() }
        }
        try result.get()
    }

    /// Reads nothing from any connection, present or future; TCP pushes back on the clients.
    public func pauseReading() {
        isPaused = true
        for link in sortedLinks { updateReading(link) }
    }

    /// Reads from every connection again.
    public func resumeReading() {
        isPaused = false
        for link in sortedLinks {
            link.isStopped = false
            resume(link)
        }
        settle()
    }

    /// In the order in which they connected.
    var sortedLinks: [ServerLink] { links.sorted { $0.key < $1.key }.map(\.value) }
}
