public import TrunklineCore

extension LoopbackServer {
    /// Sends `frame` as a push to every connected client, and returns the number of clients.
    ///
    /// - Throws: `FrameError` if the codec cannot encode the frame.
    @discardableResult
    public func push(_ frame: Frame) throws(FrameError) -> Int {
        var push = frame
        push.kind = .push
        return try broadcast(push)
    }

    /// Writes `frame`, unchanged, to every connected client, and returns the number of clients.
    ///
    /// - Throws: `FrameError` if the codec cannot encode the frame.
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

    /// Answers each of the next requests with one of `reactions`, in order. After that, the handler is called again. If
    /// an earlier script has not ended, the reactions are added to it.
    public func script(_ reactions: Reaction...) {
        for reaction in reactions { scripted.append((reaction, times: 1)) }
    }

    /// Answers each of the next `count` requests with `reaction`. After that, the handler is called again. If an
    /// earlier script has not ended, the reactions are added to it.
    public func script(_ reaction: Reaction, times count: Int) {
        if count > 0 { scripted.append((reaction, times: count)) }
    }

    /// Performs the reactions that ``Reaction/outOfOrder(window:_:)`` holds, on each connection in the order of the
    /// requests.
    public func releaseHeld() {
        for link in sortedLinks {
            for program in exchange(&link.held, with: []) { run(program) }
        }
        settle()
    }

    package func perform(_ reaction: Reaction) {
        for link in sortedLinks where !link.isEnding { perform(reaction, for: Frame(.request), on: link) }
        settle()
    }

    /// Closes every connection. Clients may connect again.
    ///
    /// - Parameter reset: `true` resets the connections at once. `false`, the default, first writes what the kernel
    ///   accepts at once, then closes the connections cleanly. Delayed replies are dropped in both cases.
    public func disconnectAll(reset: Bool = false) {
        for link in sortedLinks {
            if !reset { _ = link.flush(sent: &record.bytesSent) }
            close(link, reset ? .reset : .gracefully)
        }
        settle()
    }

    /// Stops listening. Clients that try to connect are refused; open connections stay.
    public func stopAccepting() { acceptor.assumeIsolated { $0.pause() } }

    /// Stops listening and resets every connection in one step, as if the process had been killed.
    ///
    /// No client can reconnect between the two actions. ``resumeAccepting()`` starts the server again at the same
    /// endpoint, with the same journal.
    public func kill() {
        stopAccepting()
        disconnectAll(reset: true)
    }

    /// Listens again at the same endpoint, after ``stopAccepting()`` or ``kill()``. Does nothing after ``stop()``.
    ///
    /// - Throws: `TransportError` if the address is taken.
    public func resumeAccepting() throws(TransportError) {
        guard !isStopped else { return }
        let result = acceptor.assumeIsolated { acceptor -> Result<Void, TransportError> in
            Result { () throws(TransportError) in try acceptor.listenAgain() }
        }
        try result.get()
    }

    /// Stops reading from all connections, present and future, so that TCP applies back-pressure to the clients.
    public func pauseReading() {
        isPaused = true
        for link in sortedLinks { updateReading(link) }
    }

    /// Resumes reading from every connection.
    public func resumeReading() {
        isPaused = false
        for link in sortedLinks {
            link.isStopped = false
            resume(link)
        }
        settle()
    }

    var sortedLinks: [ServerLink] { links.sorted { $0.key < $1.key }.map(\.value) }
}
