/// An element of a stream of pushes: a message, or a notice that messages are or may be missing.
@nonexhaustive
public enum Push: Sendable {
    /// A message that the server sent without a request.
    case message(PushMessage)
    /// This number of pushes is missing here: they were dropped because the buffer of the stream was full, or they were
    /// malformed.
    case dropped(Int)
    /// The pushes from here on come from the next link. It is not known whether the server pushed anything in between.
    ///
    /// During a planned change, pushes of the previous link may still follow while it drains. ``PushMessage/session``
    /// distinguishes them.
    case reconnected

    init(_ element: PushBuffer.Element) {
        switch element {
        case .frame(let frame): self = .message(PushMessage(frame))
        case .dropped(let count): self = .dropped(count)
        case .reconnected: self = .reconnected
        }
    }
}

/// The size of a push stream's buffer, and what happens when a slow reader lets it fill up.
public struct PushBuffering: Sendable {
    /// The effect of a full buffer.
    @nonexhaustive
    public enum Overflow: Sendable, Hashable {
        /// Ends the stream. The pushes in the buffer can still be read; the last element is `.dropped`.
        case finish
        /// Drops the oldest pushes and puts an element `.dropped` in their place.
        case dropOldest
        /// Drops the new push and puts an element `.dropped` in its place.
        case dropNewest
        /// Suspends reading until the reader has caught up. *Responses to requests wait too*, and a reader that waits
        /// for one before it reads on is blocked until the deadline of that request.
        ///
        /// The client answers the server's pings and holds other frames, up to `options.inbound.maximumHeld` (1 MiB).
        /// When that is full, it reads nothing, and the server's pings are not answered. On one link nothing is
        /// dropped. Links that are lost or replaced meanwhile hand over what they hold, all together at most
        /// `inbound.maximumHeld` and 1 MiB more, and what came during a handshake; what was read beyond that is
        /// dropped, with an element `.dropped` in its place. See <doc:StreamsUploadsAndPushes#Full-buffers>.
        case suspendReading
    }

    /// The maximum number of pushes in the buffer. Default: 1,024. At least 1.
    public var maximumCount = 1024
    /// The maximum number of bytes in the buffer, counting bodies and named byte fields (`frame[bytes: name]`). One
    /// push of any size always fits. Default: 8 MiB.
    public var maximumBytes = 8 * 1024 * 1024
    /// The effect of a full buffer. Default: `.dropOldest`.
    public var overflow = Overflow.dropOldest

    /// Creates buffering options.
    ///
    /// - Parameters:
    ///   - maximumCount: The maximum number of pushes. Default: 1,024. At least 1.
    ///   - maximumBytes: The maximum number of bytes. Default: 8 MiB.
    ///   - overflow: What happens when the buffer is full. Default: `.dropOldest`.
    public init(
        maximumCount: Int = 1024,
        maximumBytes: Int = 8 * 1024 * 1024,
        overflow: Overflow = .dropOldest
    ) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
        self.overflow = overflow
    }

    package var buffer: PushBuffer {
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

/// A sequence of the server's pushes, from the creation of the stream until `finish()` or the end of the client, across
/// reconnects. See <doc:StreamsUploadsAndPushes#Pushes>.
///
/// The pushes of one link come in order. During a planned change, the pushes of two links may alternate
/// (``PushMessage/session``). The stream does not throw: where pushes are missing, it has an element `.dropped`.
///
/// Every stream has its own bounded buffer. Several iterators of one stream share its elements: each element goes to
/// one of them. When the client is closed or deallocated, the stream ends after the pushes in its buffer. It also ends
/// when it and all of its iterators have been deallocated, which top-level code (`main.swift`, scripts) does not do:
/// call ``PushStream/finish()`` there. If a task that iterates is cancelled, its iteration ends immediately.
public struct PushStream: AsyncSequence, Sendable {
    /// Ends the channel when the stream can no longer be iterated.
    final class Reading: Sendable {
        let channel: PushChannel
        init(_ channel: PushChannel) { self.channel = channel }
        deinit { channel.stop() }
    }

    let reading: Reading

    package init(_ channel: PushChannel) { reading = Reading(channel) }

    /// An iterator over a stream of pushes.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let reading: Reading

        // Declared in addition to `next(isolation:)`, because the default implementation of the standard library leaves
        // the caller's actor.
        /// Returns the next element; `nil` at the end of the stream or if the calling task is cancelled.
        public mutating func next() async -> Push? {
            if let element = reading.channel.nextIfAvailable() { return element }
            return await reading.channel.next()
        }

        /// Returns the next element; `nil` at the end of the stream or if the calling task is cancelled.
        public mutating func next(isolation actor: isolated (any Actor)?) async -> Push? {
            if let element = reading.channel.nextIfAvailable() { return element }
            return await reading.channel.next()
        }
    }

    /// Creates an iterator. Several iterators share the elements of the stream.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading: reading) }

    /// Ends the stream, for example after the server was asked to stop pushing.
    ///
    /// Every iterator returns the pushes in the buffer and then `nil`. Later pushes are ignored. Has no effect on a
    /// stream that has ended. May be called from any task.
    ///
    /// Cancelling a task that iterates is different: `next()` returns `nil` at once, even if the buffer contains
    /// pushes, and the stream continues for other iterators.
    ///
    /// ```swift
    /// await subscription.end()
    /// _ = try await client.send(unsubscribe)  // pushes that the server sent before its answer are in the buffer
    /// stream.finish()
    /// ```
    public func finish() { reading.channel.stop() }

    /// The messages without the other elements, for readers that need not detect missing messages.
    public var messages: AsyncCompactMapSequence<PushStream, PushMessage> {
        compactMap { push in
            if case .message(let message) = push { message } else { nil }
        }
    }
}
