extension Reaction {
    /// Runs `body`, an asynchronous closure that can reply in parts, or while more of the request arrives.
    ///
    /// ```swift
    /// .perform { exchange in
    ///     while let piece = try await exchange.next() {
    ///         try await exchange.part(piece.body)
    ///         if piece.kind != .part { break }
    ///     }
    ///     try await exchange.reply("that was all")
    /// }
    /// ```
    ///
    /// While the exchange is open, further frames with the serial of its request go to `body` and not to the handler.
    /// The exchange opens with the request, even if ``after(_:_:)`` delays the body. It closes with the reply, the
    /// client's cancel frame, or the end of the connection.
    ///
    /// `body` runs in its own task:
    /// - Over real sockets the task runs on the global thread pool. In a simulation it runs on the simulation's loop,
    ///   where it must not wait for anything outside the simulation: use `network.clock.sleep`, not `Task.sleep`.
    /// - The task is cancelled when the client cancels the request, when the connection ends, and when the server
    ///   stops. The server does not wait for it.
    /// - A running body keeps its server alive.
    ///
    /// A body must reply, unless another reaction follows it in a ``sequence(_:)``. If it returns without a reply, or
    /// throws before it has replied, the server closes the connection, so that the client does not wait in vain.
    /// ``LoopbackServer/Journal-swift.struct/lastFailure`` holds the error that it threw.
    ///
    /// In protocols matched in order, the reactions to later requests of the connection wait until `body` has replied.
    public static func perform(_ body: @escaping @Sendable (ServerExchange) async throws -> Void) -> Reaction {
        Reaction(.perform(body))
    }
}

extension Reaction {
    var performs: Bool {
        switch action {
        case .perform: true
        case .after(_, let reaction), .inPieces(_, let reaction), .half(let reaction), .outOfOrder(_, _, let reaction):
            reaction.performs
        case .sequence(let reactions): reactions.contains(where: \.performs)
        default: false
        }
    }
}
