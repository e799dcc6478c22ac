/// Requests that the server sends to the client.
extension Client {
    /// Answers requests of the server: calls `handler` for each, and sends the frame that it returns, until the client
    /// is closed or the calling task is cancelled.
    ///
    /// ```swift
    /// try await client.serve(maximumConcurrent: 16) { request in
    ///     Frame(.response, type: request.type, body: try await answer(request.body))
    /// }
    /// ```
    ///
    /// Use it for protocols in which both sides send requests. A request of the server is a frame for which the codec
    /// returns the kind ``Frame/Kind-swift.enum/request``. Messages that need no answer are better decoded as pushes.
    ///
    /// - The handlers run in child tasks of the calling task, and therefore with its task executor. `serve` returns
    ///   when all of them have ended.
    /// - An answer goes out on the link on which its request came, and never on another one. It does not count as a
    ///   request in flight. The client sets its kind and its serial. The handler sets everything else, and repeats
    ///   named fields of the request if the protocol demands it.
    /// - If the handler returns `nil`, the request needs no answer.
    /// - If the server cancels a request, or its link ends, the task of its handler is cancelled, and no answer is
    ///   sent. A draining link stays until its handlers have ended, for at most
    ///   ``ClientOptions/Failover/drainTimeout``.
    /// - The client refuses a request if too many wait, if the handler throws an error, or if it does not serve. A
    ///   codec that conforms to ``ServingCodec`` has a frame that says so. Without it, the request is dropped and
    ///   counted.
    /// - While the client serves, it keeps a link, as for a stream of pushes.
    /// - ``close()`` refuses requests that wait for a handler, and waits for the handlers that run, for at most
    ///   `requests.drainTimeout`. ``closeNow()`` cancels them. A handler that awaits `close()` would wait for itself.
    ///
    /// ``ClientMetrics/serving-swift.property`` counts the requests.
    ///
    /// - Parameters:
    ///   - maximumConcurrent: The number of handlers that run at once. Default 64, at least 1. An answer counts until
    ///     the kernel has accepted its last byte, so a server that does not read its answers does not fill the memory.
    ///   - maximumWaiting: The number of requests that wait for a handler. Default 1,024. A further request is refused
    ///     (``ServingRefusal/overloaded``). So is one that would let them exceed
    ///     ``ClientOptions/Requests/maximumWaitingBytes``.
    ///   - handler: Returns the answer to a request. ``Frame/session`` of the request tells its link.
    /// - Throws: `invalidRequest`, fate `notSent`, if the client already serves, or if the protocol matches responses
    ///   in order, on a link or on a channel: answers of handlers that run at once have no order. On a closed client it
    ///   returns at once.
    public nonisolated(nonsending) func serve(
        maximumConcurrent: Int = 64,
        maximumWaiting: Int = 1024,
        _ handler: @escaping @Sendable (_ request: Frame) async throws -> Frame?
    ) async throws(ClientError) {
        guard !codec.matching.isInOrder else {
            throw ClientError(.invalidRequest, .notSent, "the protocol matches responses in order")
        }
        let limits = ServerCalls.Limits(
            maximumConcurrent: maximumConcurrent,
            maximumWaiting: maximumWaiting,
            maximumWaitingBytes: options.requests.maximumWaitingBytes
        )
        let (port, queue) = (ServingPort(), commandQueue)
        queue.post(.serve(port, limits))
        await withDiscardingTaskGroup { group in
            while let calls = await port.next() {
                for call in calls {
                    group.addTask { queue.post(.served(call, await call.run(handler))) }
                }
            }
            queue.post(.stopServing(port))
        }
        for call in port.takeRest() { queue.post(.served(call, .stopped)) }
        if let error = port.error { throw error }
    }
}
