public import TrunklineCore

/// An HTTP/1.1 response, read while it arrives: the head, content in pieces, trailers.
///
/// ```swift
/// let log = HTTP1ReplyStream(client.stream(try Request(HTTP1Request(.get, "/log"))))
/// for try await part in log { … }
/// ```
///
/// Iterate it once. It is cancelled under the same conditions as the ``/Trunkline/ReplyStream`` that it reads. The
/// article <doc:/Trunkline/StreamsUploadsAndPushes> describes streams in top-level code.
///
/// Leaving the loop early abandons the request. HTTP/1.1 has no cancellation: the client reads the rest of the content
/// and discards it. If no other request may follow this one on its link (``HTTP1Codec/mayPipeline(behind:)``), requests
/// that wait for its response go to another link.
public struct HTTP1ReplyStream: AsyncSequence, Sendable {
    let reply: ReplyStream<Response>

    /// Creates a stream that reads `reply`, the response to an ``HTTP1Request``.
    public init(_ reply: ReplyStream<Response>) { self.reply = reply }

    /// Abandons the request at once. Has no effect after the end.
    public func cancel() { reply.cancel() }

    /// The iterator of an ``HTTP1ReplyStream``.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let reply: ReplyStream<Response>
        /// `nil` after a frame that is not valid HTTP/1.1.
        var frames: ReplyStream<Response>.AsyncIterator?
        var isFirst = true
        /// In reverse order: the next element is the last.
        var rest: [HTTP1Part] = []

        // Required in addition to `next(isolation:)`: the standard library's default would leave the caller's actor.
        /// Returns the next element, or `nil` at the end.
        ///
        /// - Throws: A `ClientError`, once; after that the stream has ended. The code is `protocolViolation`, fate
        ///   `answered`, if the response is not valid HTTP/1.1; other errors are those of the
        ///   ``/Trunkline/ReplyStream``.
        public mutating func next() async throws(ClientError) -> HTTP1Part? { try await next(isolation: #isolation) }

        /// Returns the next element, or `nil` at the end.
        ///
        /// - Throws: The same errors as ``next()``.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(ClientError) -> HTTP1Part? {
            while rest.isEmpty {
                guard let response = try await frames?.next(isolation: actor) else { return nil }
                do throws(FrameError) {
                    rest = try HTTP1Part.parts(of: response.frame, isFirst: isFirst).reversed()
                } catch {
                    frames = nil
                    reply.cancel()
                    let message = "invalid HTTP/1.1 response"
                    throw ClientError(.protocolViolation, .answered, message, response: response, cause: error)
                }
                isFirst = false
            }
            return rest.popLast()
        }
    }

    /// Returns an iterator. Use only one, because several iterators would share the elements.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(reply: reply, frames: reply.makeAsyncIterator())
    }
}

/// An element of an ``HTTP1ReplyStream``: first the head, then content in any number of pieces, then the trailers, if
/// there are any.
public enum HTTP1Part: Sendable, Hashable {
    /// The status and the fields; the body is empty.
    case head(HTTP1Response)
    /// Content, decoded from its chunks; never empty. The boundaries between pieces depend on the network and have no
    /// meaning.
    case content(Bytes)
    /// The trailer fields, after content that came in chunks.
    case trailers(HTTP1Headers)

    static func parts(of frame: Frame, isFirst: Bool) throws(FrameError) -> [HTTP1Part] {
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
    /// Unavailable: only the first part of a reply is an HTTP message. Use ``HTTP1ReplyStream`` instead.
    @available(*, unavailable, message: "write HTTP1ReplyStream(client.stream(try Request(request)))")
    public nonisolated func stream(
        _ request: HTTP1Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) throws(ClientError) -> ReplyStream<HTTP1Response> {
        fatalError("unavailable")  // never runs: the compiler rejects every call
    }
}
