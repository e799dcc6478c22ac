public import TrunklineCore

extension LoopbackServer {
    /// Sends a request to the client of the latest connection and returns the client's answer. If no client is
    /// connected, waits for one, at most 10 s.
    ///
    /// ```swift
    /// let answer = try await server.request(Frame(.request, type: 7, body: "who are you?"))
    /// ```
    ///
    /// The client answers it with ``/Trunkline/Client/serve(maximumConcurrent:maximumWaiting:_:)``. The server side of
    /// the codec must decode the answer as a `.response`. The call has no time limit.
    ///
    /// If the calling task is cancelled, the server sends the codec's cancel frame, if it has one (`CancellingCodec`),
    /// and ignores a later answer.
    ///
    /// - Parameter frame: The request. The server sets its kind and, if its serial is 0, the next serial of the
    ///   connection, counted from 1.
    /// - Returns: The answer, which may be a refusal (`ServingCodec`).
    /// - Throws: `CancellationError` if the calling task is cancelled; `TransportError` if there is no connection, or
    ///   if it ends first; `FrameError` if the codec cannot encode the request, or if a request with its serial has no
    ///   answer yet.
    public func request(_ frame: Frame) async throws -> Frame {
        try await call(frame, on: latestConnection())
    }

    /// A client is connected before the server has accepted the connection, so its test may be faster than the server.
    private func latestConnection() async throws -> UInt64 {
        if let link = sortedLinks.last(where: { !$0.isEnding }) { return link.transport.id }
        do {
            try await wait { $0.connectionCount > 0 }
        } catch {
            if error.reason == .cancelled { throw CancellationError() }
            throw TransportError(.closedByPeer, "no client is connected")
        }
        guard let link = sortedLinks.last(where: { !$0.isEnding }) else { throw Self.connectionEnded }
        return link.transport.id
    }

    func call(_ frame: Frame, on id: UInt64) async throws -> Frame {
        guard let link = links[id], !link.isEnding else { throw Self.connectionEnded }
        var frame = frame
        frame.kind = .request
        if frame.serial == 0 { frame.serial = link.calls.nextSerial() }
        let (serial, type) = (frame.serial, frame.type)
        guard link.calls.isFree(serial) else {
            throw FrameError(.malformed, "a request with the serial \(serial) has no answer yet")
        }
        try Task.checkCancellation()
        try link.append(frame)
        link.calls.begin(serial)
        markDirty(link)
        settle()
        let result = await withTaskCancellationHandler {
            await withContinuation { (continuation: ServerLink.Calls.Caller) in
                // Before this point the loop may have run other work.
                link.calls.wait(for: serial, continuation)
                if Task.isCancelled { cancelCall(serial, type, on: id) }
            }
        } onCancel: {
            let cancel = LoopClosure { [weak self] in
                self?.assumeIsolated { $0.cancelCall(serial, type, on: id) }
            }
            loop.schedule(cancel)
        }
        return try result.get()
    }

    func takeAnswer(_ frame: Frame, on link: ServerLink) -> Bool {
        frame.kind == .response && link.calls.answer(frame)
    }

    private func cancelCall(_ serial: SerialNumber, _ type: UInt32, on id: UInt64) {
        guard let link = links[id], let caller = link.calls.abandon(serial) else { return }
        defer { settle() }
        if !link.isEnding, let frame = link.codec.cancelFrame(for: serial, type: type) { send(frame, on: link) }
        caller.resume(returning: .failure(CancellationError()))
    }

    func endCalls(of link: ServerLink) { link.calls.end(Self.connectionEnded) }

    private static var connectionEnded: TransportError {
        TransportError(.closedByPeer, "the connection has ended")
    }
}

extension ServerLink {
    /// The requests of the server on one link.
    struct Calls {
        typealias Caller = Continuation<Result<Frame, any Error>>

        private enum Call {
            case begun
            case waiting(Caller)
            /// The outcome came before the caller waited.
            case ended(Result<Frame, any Error>)
        }

        private var calls: [SerialNumber: Call] = [:]
        /// Serials of cancelled requests, to which an answer may still come.
        private var abandoned: Set<SerialNumber> = []
        private var lastSerial: SerialNumber = 0

        mutating func nextSerial() -> SerialNumber {
            repeat { lastSerial &+= 1 } while !isFree(lastSerial)
            return lastSerial
        }

        func isFree(_ serial: SerialNumber) -> Bool { calls[serial] == nil && !abandoned.contains(serial) }

        mutating func begin(_ serial: SerialNumber) { calls[serial] = .begun }

        mutating func wait(for serial: SerialNumber, _ caller: Caller) {
            guard case .ended(let result) = calls[serial] else {
                calls[serial] = .waiting(caller)
                return
            }
            calls[serial] = nil
            caller.resume(returning: result)
        }

        mutating func answer(_ frame: Frame) -> Bool {
            switch calls[frame.serial] {
            case nil: return abandoned.remove(frame.serial) != nil
            case .begun?: calls[frame.serial] = .ended(.success(frame))
            case .waiting(let caller)?:
                calls[frame.serial] = nil
                caller.resume(returning: .success(frame))
            case .ended?: return false
            }
            return true
        }

        mutating func abandon(_ serial: SerialNumber) -> Caller? {
            guard case .waiting(let caller) = calls[serial] else { return nil }
            calls[serial] = nil
            abandoned.insert(serial)
            return caller
        }

        mutating func end(_ error: TransportError) {
            abandoned.removeAll()
            for (serial, call) in calls.sorted(by: { $0.key < $1.key }) {
                switch call {
                case .begun: calls[serial] = .ended(.failure(error))
                case .waiting(let caller):
                    calls[serial] = nil
                    caller.resume(returning: .failure(error))
                case .ended: break
                }
            }
        }
    }
}
