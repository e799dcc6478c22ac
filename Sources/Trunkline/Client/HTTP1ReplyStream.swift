/// A response of HTTP/1.1 as it comes: see `Client.stream` of an `HTTP1Request`.
///
/// It can be read once, and is cancelled under the same conditions as a `ReplyStream`: mind top-level code.
public struct HTTP1ReplyStream: AsyncSequence, Sendable {
    /// The head, content, or trailers.
    public typealias Element = HTTP1Part
    /// What `send` throws.
    public typealias Failure = ClientError

    let frames: ReplyStream

    /// Gives the request up at once. Without effect after the end.
    public func cancel() { frames.cancel() }

    /// Takes elements off a stream.
    public struct AsyncIterator: AsyncIteratorProtocol {
        var frames: ReplyStream.AsyncIterator
        var isFirst = true
        /// Of the last frame that was taken: what is next is at the end.
        var rest: [HTTP1Part] = []

        /// The next element; `nil` at the end. Throws once, and is at its end then.
        public mutating func next() async throws(ClientError) -> HTTP1Part? {
            while rest.isEmpty {
                guard let frame = try await frames.next() else { return nil }
                do throws(FrameError) {
                    rest = try HTTP1Part.parts(of: frame, isFirst: isFirst).reversed()
                } catch {
                    frames.reading.channel.end()
                    throw .unreadable(frame, error)
                }
                isFirst = false
            }
            return rest.popLast()
        }

        /// The next element; `nil` at the end. Throws once, and is at its end then.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(ClientError) -> HTTP1Part? {
            try await next()
        }
    }

    /// An iterator. Have one for a stream: several would share its elements.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(frames: frames.makeAsyncIterator()) }
}
