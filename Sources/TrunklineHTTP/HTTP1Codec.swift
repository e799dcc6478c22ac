public import TrunklineCore

/// The client side of HTTP/1.1 (RFC 9112): encodes requests and decodes responses, which are matched in order
/// (pipelining).
///
/// ```swift
/// let client = Client(to: "api.internal:80", speaking: HTTP1Codec(host: "api.internal"))
/// let response = try await client.send(HTTP1Request(.get, "/users/7"))
/// ```
///
/// For a guide, see <doc:HTTP1>.
///
/// **Frames.** A request frame's `type` is the number of its method (``HTTP1Request/Method-swift.struct/type``). Its
/// `body` is the whole message, head and content. ``HTTP1Request/frame()`` creates such frames. A response frame's
/// `status` is the status code. Its `body` is the head, the content (decoded from its chunks) and the trailers;
/// `frame["headLength"]` and `frame["trailerLength"]` hold the sizes of the head and of the trailers in bytes.
/// ``HTTP1Response/init(_:)`` reads such frames.
///
/// **Parts.** A response that has arrived completely is decoded as one frame. A response that is still incomplete, and
/// that is larger than ``partSize`` or of unknown length, is decoded in parts: first the head alone, then content as it
/// arrives. The last part is a frame of kind `response`. `send` joins the parts, up to
/// `options.requests.maximumReplySize` (16 MiB). ``HTTP1ReplyStream`` returns them one by one:
///
/// ```swift
/// let reply = HTTP1ReplyStream(client.stream(try Request(HTTP1Request(.get, "/export.csv"))))
/// for try await part in reply {
///     switch part {
///     case .head(let response): print(response.status, response.headers)
///     case .content(let bytes): file.append(bytes)
///     case .trailers(let fields): print(fields)
///     }
/// }
/// ```
///
/// **End of a link.** The client closes the link after these responses. It replaces the link at once if a request
/// waits, and otherwise connects with the next request:
/// - a response with `Connection: close`
/// - a response of HTTP/1.0 without `Connection: keep-alive`
/// - a response that ends only when the connection ends
/// - a successful response to `CONNECT`; the codec does not carry the tunnel's traffic
/// - the response to a request with `Connection: close`, whatever that response contains
///
/// The frame of such a response has `linkEnding` set. A response that arrives before any request was sent on a link, or
/// after all requests were answered, ends the link in the same way and is discarded: servers and proxies send `408`
/// before they close an idle link. It is decoded as a frame of kind `goAway` with `linkEnding` set.
///
/// **Strictness.** The codec rejects messages that two readers could understand differently, in both directions:
/// - more than one `Content-Length`, even with equal values or as a list
/// - both `Content-Length` and `Transfer-Encoding`
/// - a transfer coding other than `chunked`
/// - a carriage return without a line feed, or a line feed without a carriage return
/// - folded lines, whitespace before a colon, and control characters
/// - `Content-Length`, `Transfer-Encoding` or `Host` in a trailer section
///
/// A head is rejected as soon as one of its lines is invalid. The codec also rejects an empty line before a response,
/// and `101`, because upgrades are not supported. It skips interim responses (`100`, `103`), at most 64 before each
/// response.
///
/// **Pipelining.** If a request is not idempotent (`POST`, `PATCH`, `CONNECT` and unknown methods) or has `Connection:
/// close`, later requests are not written to its link until its response has arrived (RFC 9112 §9.3.2, §9.6). If it is
/// abandoned, the later requests go to another link. All other requests are pipelined. When a link ends, the fate of
/// the pipelined requests without a response is unknown. `options.requests.maximumInFlight` limits their number (1
/// turns pipelining off), and the retry policy `.idempotent` sends them again. Every request has a response, so `post`
/// fails with `invalidRequest`.
public struct HTTP1Codec: FrameCodec, EndOfStreamCodec, SentFrameCodec, PipeliningCodec, PostingCodec, CachingCodec,
    NamingCodec, ServerSideCodec
{
    /// The value of `Host` for requests that do not have that field: the server's name, followed by its port unless
    /// that is 80 (RFC 9110 §7.2). Default `nil`: a request without the field fails with `invalidRequest`.
    public var host: String?
    /// The status codes for which `send` throws `rejected`. Default `nil`: every status is a normal response, including
    /// 404.
    ///
    /// With a range that contains no status code (100 to 999), every request fails with `invalidRequest`.
    public var rejected: ClosedRange<Int>?
    /// The maximum size of a head, and of a trailer section, in bytes, in either direction. Default 64 KiB; at least
    /// 1, at most 2⁵⁶.
    public var maximumHeadSize = 64 * 1024
    /// The maximum size of the content, in bytes, in either direction. Default 64 MiB; at least 0, at most
    /// 2⁵⁶. The limit also applies to the whole content of a response that is read in parts.
    public var maximumBodySize = 64 * 1024 * 1024
    /// The maximum number of fields in a head, and in a trailer section. Default 256; at least 1.
    public var maximumFields = 256
    /// The size, in bytes with the head, up to which a response of known length is always decoded as one frame. A
    /// larger response is decoded in parts, unless all of it has already arrived. Default 64 KiB; at least 0.
    public var partSize = 64 * 1024

    var responses = HTTP1Responses()

    /// Creates a codec with default limits.
    ///
    /// Stops the program, reporting `file` and `line`, if `host` is invalid (for example, empty, a URL, or with a space
    /// or a line break).
    public init(
        host: String? = nil,
        rejecting rejected: ClosedRange<Int>? = nil,
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        self.init(host: host, file: file, line: line) { $0.rejected = rejected }
    }

    /// Creates a codec and sets its options in a closure.
    ///
    /// Stops the program, reporting `file` and `line`, if the parameter `host` is invalid.
    ///
    /// If the host comes from a configuration, set it in `change` instead of passing it as a parameter. A host that
    /// `change` sets does not stop the program: if it is invalid, every request without a `Host` field fails with
    /// `invalidRequest`.
    public init(
        host: String? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ change: (inout HTTP1Codec) -> Void
    ) {
        if let host {
            require(
                HTTP1Grammar.isHost(host),
                "HTTP1Codec: “\(host.withoutCredentials.escaped())” is not a valid host (a name or an address)",
                file,
                line
            )
        }
        self.host = host
        change(&self)
    }

    var limits: HTTP1Limits { HTTP1Limits(head: maximumHeadSize, body: maximumBodySize, fields: maximumFields) }

    /// `.inOrder`: HTTP/1.1 has no serials.
    public var matching: ResponseMatching { .inOrder }

    /// Notes the method of a request: the length of its response depends on it.
    public mutating func noteSent(_ frame: Frame) {
        responses.noteSent(frame.type, isLast: HTTP1Request.isLast(frame.body))
    }

    /// Returns whether other requests may be written before `request` has its response.
    ///
    /// Returns `false` if `request` is not idempotent, because the fate of later requests could be unknown (RFC 9112
    /// §9.3.2), or if it has `Connection: close` (RFC 9112 §9.6).
    public func mayPipeline(behind request: Frame) -> Bool {
        HTTP1Request.Method.isIdempotent(request.type) && !HTTP1Request.isLast(request.body)
    }

    /// Returns `false`, because every request has a response.
    public func mayPost(_ message: Frame) -> Bool { false }

    /// Returns whether `response` may be cached: whether its status is 200 to 399, and its `Cache-Control` does not
    /// contain `no-store` (RFC 9111 §5.2.2.5). Other directives of `Cache-Control` are ignored; the
    /// ``/Trunkline/CachePolicy`` of the call decides.
    public func mayCache(_ response: Frame) -> Bool {
        guard (200..<400).contains(response.status), let response = try? HTTP1Response(response) else { return false }
        var mayBeStored = true
        HTTP1Grammar.forEachElement(of: response.headers["Cache-Control"] ?? "") { directive in
            if directive.count == 8, directive.elementsEqual("no-store".utf8) { mayBeStored = false }
        }
        return mayBeStored
    }

    /// Returns the method of a request, such as `GET`, or `nil` if it is not one of those of
    /// ``HTTP1Request/Method-swift.struct``.
    public func name(of request: Frame) -> String? { HTTP1Request.Method.method(ofType: request.type)?.name }

    /// `false`: the type number tells the method.
    public var namesEachRequest: Bool { false }

    /// Decodes a response, or a part of one. Returns `nil` until enough bytes have arrived.
    ///
    /// - Throws: `malformed` if the bytes are not valid HTTP/1.1. `illegalLength`, with `exceedsLimit` set, if they
    ///   exceed a limit.
    public mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        try responses.decode(&input, self.limits, partSize: partSize).map { mark($0) }
    }

    /// Decodes the rest of a response without a length, which ends when the connection ends.
    ///
    /// Returns `nil` if no such response is in progress. If a response has a length and the connection ends before all
    /// of it has arrived, its request fails with the link.
    ///
    /// - Throws: `illegalLength`, with `exceedsLimit` set, if the content exceeds ``maximumBodySize``.
    public mutating func decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        try responses.decodeEnd(&input, limits).map { mark($0) }
    }

    private func mark(_ frame: Frame) -> Frame {
        guard frame.kind != .goAway, let rejected, rejected.contains(Int(frame.status)) else { return frame }
        var frame = frame
        frame.isErrorResponse = true
        return frame
    }

    /// Writes the message in the frame's body, and adds `Host` and `Content-Length` where they are missing.
    ///
    /// - Throws: `malformed` or `illegalLength` if the message is invalid or exceeds a limit. `malformed` if
    ///   ``rejected`` contains no status. `unknownType` if the frame's type does not match the method.
    public func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard frame.kind == .request else {
            throw FrameError(.malformed, "an HTTP/1.1 client sends only requests, not a frame of kind \(frame.kind)")
        }
        if let rejected, !rejected.overlaps(100...999) {
            throw FrameError(.malformed, "the rejected range \(rejected) contains no status (100...999)")
        }
        try HTTP1Encoding(frame.body, limits, host: host).encode(requestOf: frame.type, into: &output)
    }

    /// Returns the server side of the same protocol, for tests.
    ///
    /// The body of a frame determines what is sent:
    ///
    /// - A body that begins with `HTTP/1.`, such as that of ``HTTP1Response/frame()``, is sent as a complete message.
    /// - Any other body is sent as the content of a response with the frame's status, or 200 if that is 0. If the frame
    ///   is a received request, only the request's content is sent.
    /// - Parts, and the response after them, are sent as chunks.
    ///
    /// The content of responses to `HEAD` is omitted. A missing `Content-Length` is added, except to:
    ///
    /// - chunked responses;
    /// - responses with status 1xx, 204 or 304;
    /// - responses to `HEAD` that are given without content.
    public func serverSide() -> any FrameCodec { HTTP1Server(limits: limits) }
}
