/// How much a streamed reply holds for a reader that is slow, and what happens beyond that.
public struct ReplyBuffering: Sendable, Hashable {
    /// What happens when the buffer is full.
    @nonexhaustive
    public enum Overflow: Sendable, Hashable {
        /// Nothing more is handed over until the reader has caught up. Reading goes on meanwhile for the sake of heartbeats,
        /// up to `options.inbound.maximumHeld` (1 MiB); then TCP pushes back on the server, whose pings stay unanswered from
        /// then on.
        ///
        /// Everything else on the link waits too, *replies to other requests included*, while their deadlines run: a
        /// reader that asks something else of the same client before it goes on waits in vain. Use a second client for
        /// that, or `.fail` with a buffer for the longest reply. A link that is not read is not given up for its silence.
        /// What was read at once with the part that filled the buffer, at most 1 MiB, and what was held are added to the
        /// buffer.
        case suspendReading
        /// The stream ends with `overloaded`, fate `unknown`, after the parts that it holds. The request is cancelled.
        case fail
    }

    /// How many parts are held. Default 256, at least 1.
    public var maximumCount: Int
    /// How many bytes of bodies and named bytes are held; one part of any size always fits. Of an error response in
    /// parts, how many bytes the error has. Default 1 MiB.
    public var maximumBytes: Int
    /// What happens beyond that. Default `.suspendReading`.
    public var overflow: Overflow

    /// Makes a description of a buffer.
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

/// The parts of one reply as they come, the response last: see `Client.stream`.
///
/// Of a `Request` it is a `ReplyStream<Response>`; of a `TypedRequest` its elements are what the request reads them as. An
/// element that cannot be read is thrown as an error and gives the request up.
///
/// It ends after the response. What fails, cancellation included, is thrown once, after the parts that came before it; then
/// the stream is at its end. Sequences that cannot fail (`PushStream`, `states`, `disconnects`) end without an error.
///
/// It can be read once. Several iterators of one stream share its elements; each element goes to one of them. The stream
/// does not keep the client alive.
///
/// The request is cancelled when the stream and all of its iterators have been destroyed before the end, as when a function
/// leaves its `for` loop by `break`, `return` or `throw`; when a task that waits for an element is cancelled; and by
/// `cancel()`.
///
/// - Important: Top-level code (`main.swift`, scripts) does not destroy them: its variables, and the iterator of a `for`
///   loop, live until the program ends, in a debug build even within `do { … }`. After `break` the request goes on there,
///   and a full buffer suspends reading for the whole link. Put the loop in a function, or call `cancel()` after it. The
///   same holds for a stream that is kept in a property or a global variable.
public struct ReplyStream<Element: Sendable>: AsyncSequence, Sendable {
    let reading: ReplyReading
    private let read: @Sendable (Response) throws(ClientError) -> Element

    init(_ channel: ReplyChannel, reading read: @escaping @Sendable (Response) throws(ClientError) -> Element) {
        (reading, self.read) = (ReplyReading(channel), read)
    }

    private init(_ reading: ReplyReading, reading read: @escaping @Sendable (Response) throws(ClientError) -> Element) {
        (self.reading, self.read) = (reading, read)
    }

    /// Cancels the request at once, and ends the stream. No effect after the end.
    public func cancel() { reading.channel.abandon() }

    /// Takes elements off a stream.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let reading: ReplyReading
        fileprivate let read: @Sendable (Response) throws(ClientError) -> Element

        /// The next part, the response after the last part, and then `nil`. Throws once, and is at its end then.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(ClientError) -> Element? {
            try await next()
        }

        // Beside the other, as that of the standard library leaves the caller's actor.
        /// The next part, the response after the last part, and then `nil`. Throws once, and is at its end then.
        public mutating func next() async throws(ClientError) -> Element? {
            guard let response = try await reading.channel.next() else { return nil }
            do throws(ClientError) {
                return try read(response)
            } catch {
                reading.channel.end()
                throw error
            }
        }
    }

    /// An iterator; see `ReplyStream` for what several of them do.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading: reading, read: read) }
}

extension ReplyStream<Response> {
    init(_ channel: ReplyChannel) { self.init(channel) { $0 } }

    /// The same, its elements read by `request`.
    func read<Typed: TypedRequest>(by request: Typed) -> ReplyStream<Typed.Reply> {
        ReplyStream<Typed.Reply>(reading) { response throws(ClientError) in try request.read(response) }
    }

    /// Sends one more frame of this request, with its serial and on its link: a piece of an `OpenRequest`, the last one unless
    /// `isPart`, or a window update.
    package func post(_ request: Request, isPart: Bool = false) async throws(ClientError) {
        var frame = request.frame
        if isPart { frame.kind = .part }
        try await reading.channel.post(frame)
    }
}

/// Gives the request up when nobody can read the reply any more.
final class ReplyReading: Sendable {
    let channel: ReplyChannel
    init(_ channel: ReplyChannel) { self.channel = channel }
    deinit { channel.abandon() }
}
