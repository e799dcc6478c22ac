public import Trunkline

/// A response of HTTP/1.1 as it comes: the head, content in pieces, trailers.
///
/// ```swift
/// let log = HTTP1ReplyStream(client.stream(try Request(HTTP1Request(.get, "/log"))))
/// for try await part in log { … }
/// ```
///
/// It can be read once, and is cancelled under the same conditions as the `ReplyStream` that it reads: mind top-level code.
/// Leaving the loop early gives the request up; its content is still read to the end and dropped, as HTTP/1.1 knows no
/// cancellation, or the link is left behind with it where nothing may follow the request
/// (`PipeliningCodec.mayPipeline(behind:)`).
public struct HTTP1ReplyStream: AsyncSequence, Sendable {
    let reply: ReplyStream<Response>

    /// Reads `reply`, the response to an `HTTP1Request`.
    public init(_ reply: ReplyStream<Response>) { self.reply = reply }

    /// Gives the request up at once. Without effect after the end.
    public func cancel() { reply.cancel() }

    /// Takes elements off a stream.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let reply: ReplyStream<Response>
        /// `nil` once the reply turned out to be no HTTP.
        var frames: ReplyStream<Response>.AsyncIterator?
        var isFirst = true
        /// Of the last frame that was taken: what is next is at the end.
        var rest: [HTTP1Part] = []

        // Beside the other, as that of the standard library leaves the caller's actor.
        /// The next element; `nil` at the end. Throws once, and is at its end then.
        public mutating func next() async throws(ClientError) -> HTTP1Part? { try await next(isolation: #isolation) }

        /// The next element; `nil` at the end. Throws once, and is at its end then.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(ClientError) -> HTTP1Part? {
            while rest.isEmpty {
                guard let response = try await frames?.next(isolation: actor) else { return nil }
                do throws(FrameError) {
                    rest = try HTTP1Part.parts(of: response.frame, isFirst: isFirst).reversed()
                } catch {
                    frames = nil
                    reply.cancel()
                    let message = "the response is no message of HTTP/1.1"
                    throw ClientError(.protocolViolation, .answered, message, response: response, cause: error)
                }
                isFirst = false
            }
            return rest.popLast()
        }
    }

    /// An iterator. Have one for a stream: several would share its elements.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(reply: reply, frames: reply.makeAsyncIterator())
    }
}

/// A piece of a response of HTTP/1.1 that is read as it comes: first the head, then content in any number of pieces, then
/// the trailers if there are any. See `HTTP1ReplyStream`.
public enum HTTP1Part: Sendable, Hashable {
    /// Status and fields, with an empty body.
    case head(HTTP1Response)
    /// Content, out of its chunks; never empty. Where it is cut is the network's doing and means nothing.
    case content(Bytes)
    /// The fields after content in chunks.
    case trailers(HTTP1Headers)

    /// What is in `frame`, a part of a response or the last of it; `isFirst` if it is the first too.
    package static func parts(of frame: Frame, isFirst: Bool) throws(FrameError) -> [HTTP1Part] {
        var (parts, content, trailers) = ([HTTP1Part](), frame.body, HTTP1Headers())
        if isFirst {
            var response = try HTTP1Response(frame)
            (content, trailers) = (response.body, response.trailers)
            response.empty()
            parts.append(.head(response))
        } else if let length = frame[Frame.trailerLength], length > 0 {
            let end = content.count - Int(clamping: min(length, UInt64(content.count)))
            trailers = try content.withSpan { bytes throws(FrameError) in
                try HTTP1Headers(bytes, end..<bytes.count)
            }
            content = content.part(0..<end)
        }
        if !content.isEmpty { parts.append(.content(content)) }
        if !trailers.isEmpty { parts.append(.trailers(trailers)) }
        return parts
    }
}

extension Client {
    /// Not a way to read a response as it comes: of its parts only the first is a message. Read them by an
    /// `HTTP1ReplyStream`.
    @available(*, unavailable, message: "write HTTP1ReplyStream(client.stream(try Request(request)))")
    public nonisolated func stream(
        _ request: HTTP1Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) throws(ClientError) -> ReplyStream<HTTP1Response> {
        fatalError("unavailable")  // never runs: the compiler refuses every call
    }
}
