public import Trunkline

/// HTTP/1.1 as a client speaks it (RFC 9112): requests out, responses in, in their order (pipelining).
///
/// ```swift
/// let client = Client(to: "api.internal:80", speaking: HTTP1Codec(host: "api.internal"))
/// let response = try await client.send(HTTP1Request(.get, "/users/7"))
/// ```
///
/// **Frames.** A request's `type` is the number of its method (`HTTP1Request.Method.type`) and its `body` the whole
/// message, head and content; `HTTP1Request.frame()` makes such frames. A response's `status` is the status code and its
/// `body` is head, content (taken out of its chunks) and trailers, whose lengths are in `frame["headLength"]` and
/// `frame["trailerLength"]`; `HTTP1Response(frame)` reads them.
///
/// **Parts.** A response that is there in full is one frame. One that is not, and is larger than `partSize` or of unknown
/// length, comes in parts: the head by itself, then content as it arrives; the `response` is the last of them. `send`
/// joins them, up to `options.requests.maximumReplySize` (16 MiB), `HTTP1ReplyStream` hands them out:
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
/// **The end of a link.** After a response with `Connection: close`, one of HTTP/1.0 without `keep-alive`, one that ends
/// with the connection, and a tunnel (a `CONNECT` that succeeded; what it leads to is not this protocol) the frame's
/// `endsLink` is true: the client goes on with another link, at once. So it does after the response to a request with
/// `Connection: close`, whatever that response says.
///
/// **Strictness.** What two readers could take for different messages is refused, in both directions: conflicting and
/// repeated lengths (equal ones and lists, too), a length beside chunks, other transfer codings, a carriage return or a
/// line feed alone, folded lines, blanks before a colon, control characters, lengths among trailers. So are responses
/// that nobody asked for and `101`, as nothing is upgraded here. Interim responses (`100`, `103`) are skipped, 64 for each response at most.
///
/// **Pipelining.** Behind a request that may not be carried out twice (`POST`, `PATCH`, `CONNECT` and methods that are not
/// known) the next one waits for the response, and so it does behind `Connection: close` (RFC 9112 §9.3.2, §9.6). When such
/// a request is given up, those behind it go out on another link. Others are pipelined, which costs something when a link
/// ends: `options.requests.maximumInFlight` bounds how many requests are out at a time, 1 means none behind another, and
/// `.idempotent` sends those again that the server did not answer. Every request has a response: `post` is refused.
public struct HTTP1Codec: FrameCodec, EndOfStreamCodec, SentFrameCodec, PipeliningCodec, PostingCodec, CachingCodec,
    ServerSideCodec
{
    /// What `Host` says in requests that do not say it: the server's name, with its port unless that is 80 (RFC 9110
    /// §7.2). `nil`, the default, if every request says it.
    public var host: String?
    /// Status codes that `send` throws `rejected` for. Default none: with HTTP, 404 is an answer like others.
    public var rejected: ClosedRange<Int>?
    /// The most bytes of a head, or of a trailer section, in either direction. Default 64 KiB.
    public var maximumHeadSize = 64 * 1024
    /// The most bytes of content, in either direction. Default 64 MiB; those who take responses in parts may want more.
    public var maximumBodySize = 64 * 1024 * 1024
    /// The most fields of a head, or of a trailer section. Default 256.
    public var maximumFields = 256
    /// Responses of known length up to this size, in bytes, are waited for rather than given in parts. Default 64 KiB.
    public var partSize = 64 * 1024

    /// What goes on on this link.
    var responses = HTTP1Responses()

    /// The codec; what is left out has its default. A `host` that is none (empty, a URL, with a line break in it) and
    /// `rejected` without any status stop the program, naming `file` and `line`.
    public init(
        host: String? = nil,
        rejecting rejected: ClosedRange<Int>? = nil,
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        self.init(host: host, file: file, line: line) { $0.rejected = rejected }
    }

    /// The codec with the options that `change` sets. A `host` that is none and limits that no message keeps stop the
    /// program, naming `file` and `line`. A host that `change` sets is checked with every request instead, which fails with
    /// `invalidRequest`: for one that is read from a configuration.
    public init(
        host: String? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        _ change: (inout HTTP1Codec) -> Void
    ) {
        if let host {
            require(
                HTTP1Grammar.isHost(host),
                "HTTP1Codec: “\(host.withoutCredentials.escaped())” is no host: a name or an address, perhaps with a port",
                file,
                line
            )
        }
        self.host = host
        change(&self)
        require(maximumHeadSize > 0, "HTTP1Codec: maximumHeadSize \(maximumHeadSize)", file, line)
        require(maximumFields > 0, "HTTP1Codec: maximumFields \(maximumFields)", file, line)
        require(maximumBodySize >= 0, "HTTP1Codec: maximumBodySize \(maximumBodySize)", file, line)
        require(partSize >= 0, "HTTP1Codec: partSize \(partSize)", file, line)
        if let rejected {
            require(rejected.overlaps(100...999), "HTTP1Codec: no status is within \(rejected)", file, line)
        }
    }

    var limits: HTTP1Limits { HTTP1Limits(head: maximumHeadSize, body: maximumBodySize, fields: maximumFields) }

    /// In order: HTTP/1.1 has no serials.
    public var matching: ResponseMatching { .inOrder }

    /// Takes down what the next response but those before it answers: its length depends on the method of its request.
    public mutating func noteSent(_ frame: Frame) {
        responses.noteSent(frame.type, isLast: HTTP1Request.isLast(frame.body))
    }

    /// Not behind a request that may not be carried out twice, for it would not be known what became of those behind it (RFC
    /// 9112 §9.3.2), and not behind `Connection: close` (§9.6).
    public func mayPipeline(behind request: Frame) -> Bool {
        HTTP1Request.Method.isIdempotent(request.type) && !HTTP1Request.isLast(request.body)
    }

    /// Every request has a response.
    public func mayPost(_ message: Frame) -> Bool { false }

    /// Not an error, which is an answer like others here, and not what the server forbids to store (RFC 9111 §5.2.2.5).
    public func mayCache(_ response: Frame) -> Bool {
        guard (200..<400).contains(response.status), let response = try? HTTP1Response(response) else { return false }
        let directives = (response.headers["Cache-Control"] ?? "").lowercased().split(separator: ",")
        return !directives.contains { $0.filter { $0 != " " && $0 != "\t" } == "no-store" }
    }

    /// Takes a response, or a part of one.
    public mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        try responses.decode(&input, self.limits, partSize: partSize).map { mark($0) }
    }

    /// The end of the connection ends a response that says nothing of its length. One that says more than has come is
    /// lost with its link.
    public mutating func decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        try responses.decodeEnd(&input, limits).map { mark($0) }
    }

    private func mark(_ frame: Frame) -> Frame {
        guard let rejected, rejected.contains(Int(frame.status)) else { return frame }
        var frame = frame
        frame.isErrorResponse = true
        return frame
    }

    /// Writes the message in the frame's body, with `Host` and `Content-Length` where they are missing.
    public func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard frame.kind == .request else {
            throw FrameError(.malformed, "a client sends nothing but requests, and no \(frame.kind)")
        }
        try HTTP1Encoding(frame.body, limits, host: host).encode(requestOf: frame.type, into: &output)
    }

    /// The same protocol as the server sees it, for tests. It sends whole messages, as `HTTP1Response.frame()` makes them,
    /// adds `Content-Length`, and leaves the content of responses to `HEAD` out. The body of any other response is sent as
    /// content with the frame's status, 200 if that is 0; of a request that is sent back, its content is. Parts and the
    /// response behind them become chunks.
    public func serverSide() -> any FrameCodec { HTTP1Server(limits: limits) }
}
