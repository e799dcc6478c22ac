/// The size of a reply stream's buffer, and what happens when a slow reader lets it fill up.
public struct ReplyBuffering: Sendable, Hashable {
    /// The effect of a full buffer.
    @nonexhaustive
    public enum Overflow: Sendable, Hashable {
        /// Suspends reading until the reader has caught up. *Everything else on the link waits too, including responses
        /// to other requests*, while their deadlines run.
        ///
        /// A reader that waits for another response of the same client before it reads on is therefore blocked until
        /// the deadline of that request. Use a second client for such requests, or `.fail` with a buffer for the
        /// longest reply.
        ///
        /// The client continues to read from the socket for heartbeats and holds the other frames, up to
        /// `options.inbound.maximumHeld` (1 MiB). When that is full, it reads nothing, TCP slows down the server, and
        /// the server's pings are not answered. The client does not treat a link as dead while it does not read it.
        /// When reading resumes, the held frames and what was read together with the part that filled the buffer (at
        /// most 1 MiB) are added to the buffer.
        case suspendReading
        /// Ends the stream with `overloaded` after the parts in the buffer, and cancels the request. The fate is
        /// `unknown`, or `answered` if the last part is the one that does not fit.
        case fail
    }

    /// The maximum number of parts in the buffer. Default: 256. At least 1.
    public var maximumCount: Int
    /// The maximum number of bytes in the buffer, counting bodies and named byte fields (`frame[bytes: name]`). One
    /// part of any size always fits. Default: 1 MiB.
    ///
    /// It is also the maximum size of an error response that comes in parts.
    public var maximumBytes: Int
    /// The effect of a full buffer. Default: `.suspendReading`.
    public var overflow: Overflow

    /// Creates buffering options.
    ///
    /// - Parameters:
    ///   - maximumCount: The maximum number of parts. Default: 256. At least 1.
    ///   - maximumBytes: The maximum number of bytes. Default: 1 MiB.
    ///   - overflow: What happens when the buffer is full. Default: `.suspendReading`.
    public init(
        maximumCount: Int = 256,
        maximumBytes: Int = 1024 * 1024,
        overflow: Overflow = .suspendReading
    ) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
        self.overflow = overflow
    }

    var buffer: PushBuffer {
        PushBuffer(
            maximumCount: maximumCount,
            maximumBytes: maximumBytes,
            policy: overflow == .fail ? .fail : .suspendReading
        )
    }
}

/// The parts of one reply as they arrive, with the response last. See
/// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)`` and
/// <doc:StreamsUploadsAndPushes#Replies-in-parts>.
///
/// The stream of a `Request` is a `ReplyStream<Response>`. The elements of a ``TypedRequest``'s stream are decoded by
/// the request. An element that cannot be decoded is thrown as an error, and the request is cancelled.
///
/// The stream ends after the response. If the request fails or is cancelled, the iterator throws the error once, after
/// the parts that arrived before it, and then the stream ends.
///
/// The request is cancelled when the stream and all of its iterators are deallocated, when a task that waits for an
/// element is cancelled, and by ``ReplyStream/cancel()``, unless the reply has already ended. Top-level code
/// (`main.swift`, scripts) does not deallocate them: call `cancel()` there.
///
/// The stream can be read once. Several iterators share its elements: each element goes to one of them. The stream does
/// not keep the client alive.
public struct ReplyStream<Element: Sendable>: AsyncSequence, Sendable {
    let reading: ReplyReading
    private let read: @Sendable (Response) throws(ClientError) -> Element
    private let requestName: String?

    init(_ source: any ReplySource, reading read: @escaping @Sendable (Response) throws(ClientError) -> Element) {
        (reading, self.read, requestName) = (ReplyReading(source), read, nil)
    }

    private init(
        _ reading: ReplyReading,
        named requestName: String?,
        reading read: @escaping @Sendable (Response) throws(ClientError) -> Element
    ) {
        (self.reading, self.read, self.requestName) = (reading, read, requestName)
    }

    /// Cancels the request and ends the stream.
    ///
    /// The buffered elements are discarded. The next call of the iterator throws `cancelled`. Has no effect after the
    /// end of the stream.
    public func cancel() { reading.source.abandon() }

    /// An iterator over a stream of parts.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let reading: ReplyReading
        fileprivate let read: @Sendable (Response) throws(ClientError) -> Element
        fileprivate let requestName: String?

        /// Returns the next part. After the last part, returns the response, and then `nil`.
        ///
        /// - Throws: The error with which the request failed, once. Afterwards the method returns `nil`.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(ClientError) -> Element? {
            try await next()
        }

        // Declared in addition to `next(isolation:)`, because the default implementation of the standard library leaves
        // the caller's actor.
        /// Returns the next part. After the last part, returns the response, and then `nil`.
        ///
        /// - Throws: The error with which the request failed, once. Afterwards the method returns `nil`.
        public mutating func next() async throws(ClientError) -> Element? {
            let response: Response
            do throws(ClientError) {
                guard let next = try await reading.source.next(after: .zero) else { return nil }
                response = next
            } catch {
                throw error.named(requestName)
            }
            do throws(ClientError) {
                return try read(response)
            } catch {
                reading.source.end()
                throw error
            }
        }
    }

    /// Creates an iterator. Several iterators share the elements of the stream.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(reading: reading, read: read, requestName: requestName)
    }
}

extension ReplyStream<Response> {
    package init(_ source: any ReplySource) { self.init(source) { $0 } }

    func read<Typed: TypedRequest>(by request: Typed, for sender: any RequestSender) -> ReplyStream<Typed.Reply> {
        let owner = (sender as? any RoutingSender)?.owner
        return ReplyStream<Typed.Reply>(reading, named: Typed.errorName) { [weak owner] response throws(ClientError) in
            try request.read(response, for: owner)
        }
    }

    /// Sends another frame of this request, with its serial and on its link: a piece, or a window update.
    package func post(_ request: Request, isPart: Bool = false) async throws(ClientError) {
        var frame = request.frame
        if isPart { frame.kind = .part }
        try await reading.source.post(frame)
    }
}

package protocol ReplySource: AnyObject, Sendable {
    /// Returns the next part, the response after them, or `nil` at the end. `waited` is how long the reader has waited
    /// already.
    func next(after waited: Duration) async throws(ClientError) -> Response?

    func post(_ frame: Frame) async throws(ClientError)

    func abandon()

    /// For a reader that already knows why: the stream ends at once.
    func end()
}

/// Cancels the request when its stream can no longer be iterated.
final class ReplyReading: Sendable {
    let source: any ReplySource
    init(_ source: any ReplySource) { self.source = source }
    deinit { source.abandon() }
}
