import Synchronization

/// Using a connection alone: reading and writing single frames.
extension Connection {
    /// Calls `body` with the frames that the server sends, of every kind and from every link.
    ///
    /// ```swift
    /// try await connection.withFrames { frames in
    ///     for await frame in frames { … }
    /// }
    /// ```
    ///
    /// - Requesting the first frame connects.
    /// - While no frame is requested, the connection reads up to `inbound.maximumHeld` and answers pings. Then it stops
    ///   reading: TCP slows the server down, the server's pings are not answered, and a dead link is not detected
    ///   (<doc:StayingConnected#Heartbeats-and-liveness>).
    /// - The server's pings are elements. If the codec answers pings, the connection has already answered them. Answers
    ///   to the connection's own pings are not elements.
    /// - Frames that one call leaves unread are kept for the next call.
    /// - While no frame is requested, what links have received when they end is kept up to `inbound.maximumHeld` and
    ///   1 MiB more, over all links. The rest is lost with its link. What is kept can also be read after the connection
    ///   was closed.
    ///
    /// The stream ends when its task is cancelled, and for the reasons in ``endReason``. Only one task may use the
    /// stream, and only until `body` returns. If a second task requests a frame while the first one waits, the stream
    /// ends for both, after the frame that the first task waits for.
    ///
    /// - Throws: `invalidRequest`, fate `notSent`, while another call is in progress; and the errors of `body`.
    nonisolated(nonsending)
        public func withFrames<Result>(
            _ body: nonisolated(nonsending) (AsyncStream<Frame>) async throws -> Result
        ) async throws -> Result
    {
        guard !hasConsumer.exchange(true, ordering: .acquiringAndReleasing) else {
            throw ClientError(.invalidRequest, .notSent, "another call of withFrames is in progress")
        }
        let consumer = FrameConsumer()
        defer {
            consumer.end()
            driver.schedule { $0.frameUse?.callIsOver($0) }
            hasConsumer.store(false, ordering: .releasing)
        }
        return try await body(AsyncStream { await self.nextFrame(for: consumer) })
    }

    /// The reason why the frames of ``withFrames(_:)`` ended; `nil` if they have not ended, if their task was
    /// cancelled, or if another frame has been requested since.
    ///
    /// - `closed`: the connection is closed, or closing.
    /// - `unavailable` or `tlsFailed`, with the attempts: no server could be reached, and the connection gave up (see
    ///   `options.reconnecting`).
    /// - `invalidRequest`: two tasks iterated the stream at the same time.
    public var endReason: ClientError? {
        driver.lifecycle < .closing ? driver.frameUse?.endReason : .connectionWasClosed(.notSent)
    }

    private func nextFrame(for consumer: FrameConsumer) async -> Frame? {
        let id = driver.memory.nextNumber()
        return await withTaskCancellationHandler {
            await withContinuation { continuation in
                // Checked here and not earlier: each `await` above may let the loop do other things first.
                let mayWait = driver.lifecycle < .closing && !Task.isCancelled
                let reader = FrameUse.Reader(id: id, consumer: consumer, continuation: continuation)
                driver.entered { $0.frameUse?.read(reader, mayWait: mayWait, $0) }
            }
        } onCancel: {
            driver.schedule { $0.frameUse?.stopReading(id, $0) }
        }
    }

    /// Sends `frame` unchanged and returns when the kernel has accepted all of its bytes. If there is no link, the call
    /// connects and waits for the link without a deadline.
    ///
    /// If the task is cancelled before the first byte of the frame is written, the frame is not sent. If it is
    /// cancelled later, the rest of the frame is still written.
    ///
    /// - Throws:
    ///   - `cancelled`, fate `notSent` if no byte was written, otherwise `unknown`.
    ///   - `connectionLost`, fate `unknown`: the link was lost after the first byte was written. If no byte was
    ///     written, the frame waits for the next link.
    ///   - `unavailable` or `tlsFailed`, fate `notSent`: no server could be reached, and the connection gave up.
    ///   - `invalidRequest`, fate `notSent`: the codec cannot encode the frame, or the frame has `malformedReason` or
    ///     `linkEnding` set, which is allowed only on received frames.
    ///   - `closed`, fate `notSent`, or `unknown` if a byte was written: the connection was closed.
    public func write(_ frame: Frame) async throws(ClientError) {
        if let mark = frame.receivedMark {
            throw ClientError(
                .invalidRequest,
                .notSent,
                "the frame has \(mark) set, which is allowed only on received frames"
            )
        }
        let id = driver.memory.nextID()
        let outcome: Outcome = await withTaskCancellationHandler {
            await withContinuation { continuation in
                // Checked here and not earlier: each `await` above may let the loop do other things first.
                guard driver.lifecycle < .closing else {
                    return continuation.resume(returning: .failure(.connectionIsClosed))
                }
                guard !Task.isCancelled else { return continuation.resume(returning: .failure(.cancelledUnsent)) }
                driver.entered { $0.frameUse?.write(id, frame, continuation, $0) }
            }
        } onCancel: {
            driver.schedule { $0.frameUse?.cancel(id, $0) }
        }
        _ = try outcome.get()
    }
}

/// One call of `withFrames`. Its stream may outlive the call, and then has no more elements.
final class FrameConsumer: Sendable {
    private let ended = Atomic<Bool>(false)

    var isOver: Bool { ended.load(ordering: .acquiring) }

    func end() { ended.store(true, ordering: .releasing) }
}
