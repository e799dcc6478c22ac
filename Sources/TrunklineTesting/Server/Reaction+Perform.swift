extension Reaction {
    /// Runs `body`, which replies at its own pace: in parts, while more of the request comes.
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
    /// While the exchange is open, further frames with the serial of its request go to `body` and not to the handler. It is
    /// open from the request, also while the reaction waits (`after`), until the reply, the client's cancel frame or the end
    /// of the connection.
    ///
    /// `body` runs in a task of its own: on the ordinary pool of threads, or in a simulation on its loop, where it must not
    /// wait for anything but the simulation (`network.clock.sleep`, not `Task.sleep`). The task is cancelled when the
    /// client cancels the request, when the connection ends, and when the server stops, which
    /// does not wait for it. A running body keeps its server alive.
    ///
    /// A body that throws before it has replied, or returns without a reply and without a reaction behind it in a `sequence`,
    /// closes the connection, so that its client does not wait in vain: `journal.lastFailure` is what it threw.
    ///
    /// In protocols matched in order the reactions to later requests of the connection wait until it has replied.
    public static func perform(_ body: @escaping @Sendable (ServerExchange) async throws -> Void) -> Reaction {
        Reaction(.perform(body))
    }
}

extension Reaction {
    /// Whether a body is run sooner or later.
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
