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

/// Cancels the request when its stream can no longer be iterated.
final class ReplyReading: Sendable {
    let source: any ReplySource
    init(_ source: any ReplySource) { self.source = source }
    deinit { source.abandon() }
}
