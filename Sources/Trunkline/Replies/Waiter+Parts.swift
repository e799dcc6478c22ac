/// How waiters handle the parts of their replies.
extension Waiter {
    /// The result of taking a part.
    enum Reception {
        case taken
        /// The part was taken, but reading must be suspended until the reader has caught up.
        case full(ReplyChannel)
        /// The part goes to this reader, which waits for it.
        case serves(Continuation<ReplyChannel.Element>, ReplyChannel.Element)
        /// There is no room for the part, for this reason. The request must be cancelled.
        case exceeds(String)
    }

    /// Returns the waiter that joins the parts of the reply; `nil` if this waiter takes parts itself.
    func reassembling(in budget: ReassemblyBudget) -> Waiter? {
        switch self {
        case .stream, .reassembling: nil
        case .tracked(let waiter, let call): waiter.reassembling(in: budget).map { .tracked($0, call) }
        case .caller, .batch, .handshake, .handle, .coalesced, .enqueued, .enqueuing:
            .reassembling(Reassembly(for: self, in: budget))
        }
    }

    /// Takes a part of the reply that arrived at `now`: passes it to its reader, or adds it to the others if there is room.
    func take(_ part: Frame, at now: Instant) -> Reception {
        switch self {
        case .stream(let channel): channel.offer(part, at: now)
        case .reassembling(let reassembly): reassembly.add(part, at: now).map { .exceeds($0) } ?? .taken
        case .tracked(let waiter, _): waiter.take(part, at: now)
        case .caller, .batch, .handshake, .handle, .coalesced, .enqueued, .enqueuing: .taken
        }
    }

    /// When the first part of the reply arrived; `nil` if none has.
    var firstPart: Instant? {
        switch self {
        case .stream(let channel): channel.firstPart
        case .reassembling(let reassembly): reassembly.firstPart
        case .tracked(let waiter, _): waiter.firstPart
        case .caller, .batch, .handshake, .handle, .coalesced, .enqueued, .enqueuing: nil
        }
    }

    /// Returns when to check again whether the request has expired, or `.distantFuture` for never; `nil` if it has
    /// expired at `now`. Waiters with a single deadline, which has passed, return `nil`.
    func nextLook(at now: Instant) -> Instant? {
        switch innermost {
        case .stream(let channel): channel.nextLook(at: now)
        case .coalesced(let request): request.nextLook(at: now)
        default: nil
        }
    }

    /// The waiter as it was before any part arrived, for a retry; `nil` if parts have already reached a reader.
    var anew: Waiter? {
        switch self {
        case .stream(let channel): channel.firstPart == nil ? self : nil
        case .reassembling(let reassembly): reassembly.waiter
        case .caller, .batch, .handshake, .handle, .coalesced, .enqueued, .enqueuing, .tracked: self
        }
    }
}
