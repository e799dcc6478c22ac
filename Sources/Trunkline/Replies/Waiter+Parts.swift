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
    func reassembling(in room: ReplyRoom) -> Waiter? {
        switch self {
        case .stream, .joining: nil
        case .particular(let waiter, let terms): waiter.reassembling(in: room).map { .particular($0, terms) }
        case .caller, .batch, .greeting, .handle, .shared, .enqueued, .enqueuing:
            .joining(JoinedReply(for: self, in: room))
        }
    }

    /// Takes a part of the reply: on to its reader, or to be joined with the others as far as there is room.
    func take(_ part: Frame) -> Reception {
        switch self {
        case .stream(let channel): channel.offer(part)
        case .joining(let reply): reply.add(part).map { .exceeds($0) } ?? .taken
        case .particular(let waiter, _): waiter.take(part)
        case .caller, .batch, .greeting, .handle, .shared, .enqueued, .enqueuing: .taken
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
