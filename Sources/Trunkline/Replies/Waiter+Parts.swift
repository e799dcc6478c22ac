import TrunklineCore

/// What those who wait do with a part of their reply.
extension Waiter {
    /// What came of a part.
    enum Reception {
        case taken
        /// It was taken, but nothing more should be read until the reader has caught up.
        case full(ReplyChannel)
        /// It was the first one, and this waiter, which keeps it, has to take the place of the one that was asked.
        case joins(Waiter)
        /// There is no room for it, for this reason: the request is to be given up.
        case exceeds(String)
    }

    /// Takes a part of the reply: on to its reader, or to be joined with the others as far as there is room.
    func take(_ part: Frame, joiningIn room: ReplyRoom) -> Reception {
        switch self {
        case .stream(let channel): return channel.offer(part)
        case .joining(let reply): return reply.add(part).map { .exceeds($0) } ?? .taken
        case .particular(let waiter, let terms):
            let reception = waiter.take(part, joiningIn: room)
            if case .joins(let joining) = reception { return .joins(.particular(joining, terms)) }
            return reception
        case .caller, .batch, .greeting, .handle, .shared, .enqueued, .enqueuing:
            let reply = JoinedReply(for: self, in: room)
            return reply.add(part).map { .exceeds($0) } ?? .joins(.joining(reply))
        }
    }

    /// When to look again whether the request is out of time, `.distantFuture` for no further time; `nil` when it is, at
    /// `now`. Those that cannot say have one deadline, which has passed.
    func nextLook(at now: Instant) -> Instant? {
        switch self {
        case .stream(let channel): channel.nextLook(at: now)
        case .shared(let exchange): exchange.nextLook(at: now)
        case .joining(let reply): reply.waiter.nextLook(at: now)
        case .particular(let waiter, _): waiter.nextLook(at: now)
        case .caller, .batch, .greeting, .handle, .enqueued, .enqueuing: nil
        }
    }

    /// The waiter as it was before any part came, for another try; `nil` when parts have reached a reader already.
    var anew: Waiter? {
        switch self {
        case .stream(let channel): channel.hasParts ? nil : self
        case .joining(let reply): reply.waiter
        case .caller, .batch, .greeting, .handle, .shared, .enqueued, .enqueuing, .particular: self
        }
    }
}
