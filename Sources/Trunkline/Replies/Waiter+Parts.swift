/// What those who wait do with a part of their reply.
extension Waiter {
    /// What came of a part.
    enum Reception {
        case taken
        /// It was taken, but nothing more should be read until the reader has caught up.
        case full(ReplyChannel)
        /// There is no room for it, for this reason: the request is to be given up.
        case exceeds(String)
    }

    /// Who is to wait from the first part of the reply on, so that the parts are joined; `nil` for one that takes parts as it
    /// is.
    func reassembling(in budget: ReassemblyBudget) -> Waiter? {
        switch self {
        case .stream, .reassembling: nil
        case .tracked(let waiter, let call): waiter.reassembling(in: budget).map { .tracked($0, call) }
        case .caller, .batch, .handshake, .handle, .coalesced, .enqueued, .enqueuing:
            .reassembling(Reassembly(for: self, in: budget))
        }
    }

    /// Takes a part of the reply: on to its reader, or to be reassembled with the others as far as there is room.
    func take(_ part: Frame) -> Reception {
        switch self {
        case .stream(let channel): channel.offer(part)
        case .reassembling(let reassembly): reassembly.add(part).map { .exceeds($0) } ?? .taken
        case .tracked(let waiter, _): waiter.take(part)
        case .caller, .batch, .handshake, .handle, .coalesced, .enqueued, .enqueuing: .taken
        }
    }

    /// When to look again whether the request is out of time, `.distantFuture` for no further time; `nil` when it is, at
    /// `now`. Those that cannot say have one deadline, which has passed.
    func nextLook(at now: Instant) -> Instant? {
        switch innermost {
        case .stream(let channel): channel.nextLook(at: now)
        case .coalesced(let request): request.nextLook(at: now)
        default: nil
        }
    }

    /// The waiter as it was before any part came, for another try; `nil` when parts have reached a reader already.
    var anew: Waiter? {
        switch self {
        case .stream(let channel): channel.hasParts ? nil : self
        case .reassembling(let reassembly): reassembly.waiter
        case .caller, .batch, .handshake, .handle, .coalesced, .enqueued, .enqueuing, .tracked: self
        }
    }
}
