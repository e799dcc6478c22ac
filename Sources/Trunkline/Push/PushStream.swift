/// One element of a stream of pushes.
@nonexhaustive
public enum Push: Sendable {
    /// A message that the server sent on its own account.
    case message(PushMessage)
    /// Pushes are missing at this place: so many that were dropped because the stream's buffer was full, or
    /// arrived malformed.
    case dropped(Int)
    /// From here on pushes of the next link come; whether the server pushed anything meanwhile is not known. Pushes of the link
    /// before, while that drains, may follow: `PushMessage.session` tells them apart.
    case reconnected

    init(_ element: PushBuffer.Element) {
        switch element {
        case .frame(let frame): self = .message(PushMessage(frame))
        case .dropped(let count): self = .dropped(count)
        case .reconnected: self = .reconnected
        }
    }
}

/// How much a stream of pushes holds for a reader that is slow, and what happens beyond that.
public struct PushBuffering: Sendable {
    /// What happens to a push that finds the buffer full.
    @nonexhaustive
    public enum Overflow: Sendable, Hashable {
        /// The stream ends: its last element, behind the pushes that it holds, is `.dropped`.
        case finish
        /// The oldest pushes give way; an element `.dropped` stands in their place.
        case dropOldest
        /// The new push is lost; an element `.dropped` stands in its place.
        case dropNewest
        /// Nothing more is handed over until the reader has caught up, to nobody: *replies wait too*, since they must not
        /// overtake what came before them, and a reader that in turn waits for a reply deadlocks until the reply's deadline.
        ///
        /// Meanwhile reading goes on for the sake of heartbeats: the server's pings are answered, a dead link is noticed, and
        /// what else comes is held, up to `options.inbound.maximumHeld` (1 MiB). From then on nothing is read and TCP pushes
        /// back on the server, whose pings stay unanswered; `ClientOptions.Liveness` says what is still noticed. What
        /// was read at once with the push that filled the buffer, at most 1 MiB, and what was held are added to the buffer.
        /// Links that were left are not read meanwhile.
        ///
        /// For a server that ends links on which its pings stay unanswered, choose another policy, or a reader that is fast
        /// enough.
        case suspendReading
    }

    /// How many pushes are held. Default 1,024, at least 1.
    public var maximumCount = 1024
    /// How many bytes of bodies and named bytes are held; one push of any size always fits. Default 8 MiB.
    public var maximumBytes = 8 * 1024 * 1024
    /// What happens beyond that. Default `.dropOldest`.
    public var overflow = Overflow.dropOldest

    /// Makes a description of a buffer.
    public init(
        maximumCount: Int = 1024,
        maximumBytes: Int = 8 * 1024 * 1024,
        overflow: Overflow = .dropOldest
    ) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
        self.overflow = overflow
    }

    var buffer: PushBuffer {
        let policy: PushBuffer.Overflow =
            switch overflow {
            case .finish: .fail
            case .dropOldest: .dropOldest
            case .dropNewest: .dropNewest
            case .suspendReading: .suspendReading
            }
        return PushBuffer(maximumCount: maximumCount, maximumBytes: maximumBytes, policy: policy)
    }
}

/// What the server pushes, from the moment the stream was made until `finish()` or the end of the client, across
/// reconnects.
///
/// Pushes of one link come in order. During a planned change those of two links may alternate (`PushMessage.session`).
///
/// It cannot fail: what is missing is an element. It ends, as `states` and `disconnects` do, when the client is closed or
/// deallocated, after what is in the buffer; and for a task that is cancelled. A `ReplyStream`, which can fail, throws.
///
/// A consumer that is slow, cancelled or gone affects only its own stream: every stream has a bounded buffer. The stream
/// ends when it and all of its iterators have been destroyed, as when a function leaves its `for` loop. Top-level code
/// (`main.swift`, scripts) does not destroy them: after `break` the stream goes on filling its buffer there, and with
/// `.suspendReading` it suspends reading for the whole link. Put the loop in a function. Several iterators of one stream share its elements, each goes to one;
/// to see every push twice make two streams.
public struct PushStream: AsyncSequence, Sendable {
    /// Ends the channel when nobody can iterate it any more.
    final class Reading: Sendable {
        let channel: PushChannel
        init(_ channel: PushChannel) { self.channel = channel }
        deinit { channel.stop() }
    }

    let reading: Reading

    init(_ channel: PushChannel) { reading = Reading(channel) }

    /// Takes elements off a stream.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let reading: Reading

        // Beside the other, as that of the standard library leaves the caller's actor.
        /// The next element; `nil` at the end, and when the calling task is cancelled.
        public mutating func next() async -> Push? { await reading.channel.next() }

        /// The next element; `nil` at the end, and when the calling task is cancelled.
        public mutating func next(isolation actor: isolated (any Actor)?) async -> Push? {
            await reading.channel.next()
        }
    }

    /// An iterator; see `PushStream` for what several of them do.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading: reading) }

    /// Ends the stream from outside, as after the server was told to push no more: every iterator is given what is in the
    /// buffer and then `nil`. Nothing that comes from now on is taken. Without effect on a stream that has ended.
    ///
    /// Cancelling a task that iterates is another thing: `next()` returns `nil` at once, with pushes left in the buffer,
    /// and the stream goes on for other iterators. May be called from any task.
    ///
    /// ```swift
    /// await subscription.end()
    /// _ = try await client.send(unsubscribe)  // pushes that the server sent before its answer are in the buffer
    /// stream.finish()
    /// ```
    public func finish() { reading.channel.stop() }

    /// The messages alone, for consumers to whom gaps make no difference.
    public var messages: AsyncCompactMapSequence<PushStream, PushMessage> {
        compactMap { push in
            if case .message(let message) = push { message } else { nil }
        }
    }
}
