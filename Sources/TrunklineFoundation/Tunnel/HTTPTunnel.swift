public import Foundation
public import TrunklineCore

#if canImport(FoundationNetworking)
    public import FoundationNetworking
#endif

/// An HTTP client whose requests travel over the link of a ``/Trunkline/Client``. Its methods are like those of
/// `URLSession`.
///
/// Requests travel to a gateway as frames of type 0x403. If there is no link, or the link fails, they can be sent
/// directly with a `URLSession` instead.
///
/// ```swift
/// let tunnel = HTTPTunnel(client)
/// let (data, response) = try await tunnel.data(from: url)
/// print(response.route)  // .link or .direct
/// ```
///
/// The client's codec is `.standard`, or a codec with the same roles (<doc:GatewayProtocol>). Bodies are streamed in
/// both directions. Redirects are followed, at most 20. Nothing is cached. Cancelling the task cancels the request, at
/// the gateway and at the origin. Errors are `URLError`s, with the ``/Trunkline/ClientError`` that caused them, if any,
/// as the underlying error. For a guide, see <doc:HTTPOverTheLink>.
public final class HTTPTunnel: Sendable {
    /// The route by which a response arrived.
    @nonexhaustive
    public enum Route: Sendable, Hashable {
        /// The response arrived over the link, from the gateway.
        case link
        /// The response arrived directly, from a `URLSession`.
        case direct
    }

    /// The routes that requests may take.
    @nonexhaustive
    public enum Policy: Sendable, Hashable {
        /// Requests are sent only over the link. If there is no link, they wait for one.
        case linkOnly
        /// Requests are sent over the link, or directly if the link does not work.
        ///
        /// An idempotent request (GET, HEAD, OPTIONS, TRACE, PUT, DELETE: RFC 9110 §9.2.2) is sent directly if there is
        /// no link or if the link fails. If the link has not answered within `hedgeAfter`, and
        /// ``HTTPTunnel/Options/hedgeBudget`` allows it, the request is also sent directly: the first response wins,
        /// and the other request is cancelled. Any other request, and a request whose body can be read only once, is
        /// sent directly only if nothing of it was sent, or if the gateway has not forwarded it.
        ///
        /// The slower of two hedged requests may still be performed later: a PUT or DELETE over the link may overwrite
        /// the effect of a later request. If this matters, use ``linkOnly`` or ``directOnly``, or let the origin check
        /// (`If-Match`).
        case preferLink(hedgeAfter: Duration)
        /// Requests are sent only directly, with a `URLSession`.
        case directOnly
    }

    /// The options of a tunnel.
    public struct Options: Sendable {
        /// The policy of calls that do not set one. Default `.preferLink` with a hedge after 500 ms.
        public var policy = Policy.preferLink(hedgeAfter: .milliseconds(500))
        /// The budget of hedges; `nil` for no limit. A fallback takes nothing from the budget: it replaces a request
        /// that failed over the link, and each request has at most one.
        ///
        /// By default each request adds 0.1 hedges to the budget and each second adds 1. The budget begins with 10
        /// hedges and saves at most 100.
        public var hedgeBudget: RetryBudget? = {
            var budget = RetryBudget()
            (budget.share, budget.perSecond, budget.maximumSaved, budget.initial) = (0.1, 1, 100, 10)
            return budget
        }()
        /// The number of bytes of one response that the gateway may send ahead of the reader. Default 1 MiB; clamped to
        /// 64 KiB to 1 GiB.
        public var window = 1024 * 1024
        /// The cookie storage. Default `nil`: cookies are neither stored nor sent, unlike with `URLSession`, which uses
        /// `HTTPCookieStorage.shared` by default.
        public var cookieStorage: HTTPCookieStorage?
        /// Header fields that are added to requests that do not have them. Default: none.
        public var httpAdditionalHeaders: [String: String] = [:]
        /// The maximum size, in bytes, of a request body of unknown length that is sent directly, not over the link.
        /// Such a body is collected before it is sent: in memory up to 1 MiB, otherwise in a file. A longer body fails
        /// with `dataLengthExceedsMaximum`. Default 4 GiB.
        public var maximumUploadSpool = 4 * 1024 * 1024 * 1024
        /// The maximum size, in bytes, of a decoded response body that `data` and `upload` collect in memory, on both
        /// routes. Also the limit of `TunnelURLProtocol` on Linux. Default 64 MiB; at least 0.
        ///
        /// A longer body fails with `dataLengthExceedsMaximum`, at once if `Content-Length` exceeds the limit, and the
        /// transfer is cancelled at the gateway and at the origin. The underlying `ClientError` is `overloaded`, fate
        /// `answered`: the origin has performed the request. `bytes` and `download` do not hold the body in memory and
        /// have no limit.
        ///
        /// On Linux, `URLSession` holds the body of a redirect (301 to 308 with a `Location`) that arrives directly in
        /// memory, without a limit: see <doc:HTTPOverTheLink>. With the policy `.linkOnly`, nothing arrives directly.
        public var maximumBodySize = 64 * 1024 * 1024

        /// Creates the default options.
        public init() {}

        /// Creates the default options and changes them in a closure.
        public init(_ change: (inout Options) throws -> Void) rethrows { try change(&self) }
    }

    /// Counters since the tunnel was created. Each step of a redirect counts as a request.
    public struct Metrics: Sendable, Hashable {
        /// The number of requests that were started.
        public var requests = 0
        /// The number of requests that were answered over the link.
        public var link = 0
        /// The number of requests that were answered directly.
        public var direct = 0
        /// The number of requests that were also sent directly because the link was slow.
        public var hedges = 0
        /// The number of hedges whose direct response was used.
        public var hedgesWon = 0
        /// The number of requests that were sent directly because there was no link, the link failed, or the gateway
        /// failed or refused to forward them.
        public var fallbacks = 0
        /// The number of hedges that were not sent because the budget was exhausted.
        public var refusedByBudget = 0

        /// Creates counters at zero.
        public init() {}
    }

    let sender: any RequestSender
    let options: Options
    let origins = OriginSession()
    let counters = Lock(Metrics())
    let budget: Lock<RetryAccount>?

    /// Creates a tunnel over the link of a client, or over the links of a cluster.
    public init(_ sender: some RequestSender, options: Options = Options()) {
        self.sender = sender
        var options = options
        options.maximumBodySize = max(0, options.maximumBodySize)
        options.window = min(max(options.window, TunnelWire.windows.lowerBound), TunnelWire.windows.upperBound)
        self.options = options
        budget = options.hedgeBudget.map { Lock(RetryAccount($0)) }
    }

    /// The counters since the tunnel was created.
    public var metrics: Metrics { counters.withLock { $0 } }

    /// Sends a GET request for `url` and returns the response's body and the response. The body may have at most
    /// `options.maximumBodySize` bytes.
    ///
    /// - Parameters:
    ///   - url: The URL to request.
    ///   - policy: The routes that the request may take; `nil`, the default, for `options.policy`.
    /// - Throws: The errors of ``data(for:policy:)``.
    public func data(from url: URL, policy: Policy? = nil) async throws(URLError) -> (Data, URLResponse) {
        try await data(for: URLRequest(url: url), policy: policy)
    }

    /// Sends `request` and returns the response's body and the response.
    ///
    /// The request's `httpBody` or `httpBodyStream` is its body. A stream is read once: see
    /// ``upload(for:from:policy:)-gnvx``. To read a response of more than `options.maximumBodySize` bytes, use
    /// ``bytes(for:policy:)`` or ``download(for:policy:)``.
    ///
    /// - Parameters:
    ///   - request: The request. Its URL, method, fields, body, `timeoutInterval` (the longest time without progress)
    ///     and `httpShouldHandleCookies` are used; its other properties are ignored.
    ///   - policy: The routes that the request may take; `nil`, the default, for `options.policy`.
    /// - Throws: A `URLError` with its `failingURL`. The code is `timedOut` after `timeoutInterval` without progress,
    ///   `cancelled` if the task is cancelled, `dataLengthExceedsMaximum` if the body is too long,
    ///   `cannotConnectToHost` or `networkConnectionLost` if there is no link or it was lost and the request was not
    ///   sent directly, or another code of `URLSession`. If the request failed over the link,
    ///   `userInfo[NSUnderlyingErrorKey]` is the ``/Trunkline/ClientError`` with its fate.
    public func data(for request: URLRequest, policy: Policy? = nil) async throws(URLError) -> (Data, URLResponse) {
        try await whole(try await run(request, body(of: request), policy), of: request)
    }

    /// Sends `request` with `data` as its body and returns the response's body and the response.
    ///
    /// - Parameters:
    ///   - request: The request; its own body is ignored.
    ///   - data: The body.
    ///   - policy: The routes that the request may take; `nil`, the default, for `options.policy`.
    /// - Throws: The errors of ``data(for:policy:)``.
    public func upload(
        for request: URLRequest,
        from data: Data,
        policy: Policy? = nil
    ) async throws(URLError) -> (Data, URLResponse) {
        try await whole(try await run(request, .data(data), policy), of: request)
    }

    /// Sends `request` with the contents of a file as its body and returns the response's body and the response.
    ///
    /// - Parameters:
    ///   - request: The request; its own body is ignored.
    ///   - file: The URL of a regular file.
    ///   - policy: The routes that the request may take; `nil`, the default, for `options.policy`.
    /// - Throws: The errors of ``data(for:policy:)``, `fileDoesNotExist`, and `cannotOpenFile` if the file cannot be
    ///   read, is not a regular file, or becomes shorter while it is sent.
    public func upload(
        for request: URLRequest,
        fromFile file: URL,
        policy: Policy? = nil
    ) async throws(URLError) -> (Data, URLResponse) {
        try await whole(try await run(request, try await .file(at: file), policy), of: request)
    }

    /// Sends `request` with a body that is produced while it is sent, and returns the response's body and the
    /// response.
    ///
    /// The tunnel reads the sequence only once. Once it has begun to read it, the request cannot be sent again: there
    /// is no fallback, and a redirect that keeps the body fails with `requestBodyStreamExhausted`. `pieces` must end
    /// when its task is cancelled, because the call returns only after the sequence has ended.
    ///
    /// - Parameters:
    ///   - request: The request; its own body is ignored.
    ///   - pieces: The pieces of the body.
    ///   - policy: The routes that the request may take; `nil`, the default, for `options.policy`.
    /// - Throws: The errors of ``data(for:policy:)``. If `pieces` throws a `URLError`, the call throws that error. If
    ///   `pieces` throws another error, the call throws `requestBodyStreamExhausted` with that error as the underlying
    ///   error. If no piece arrives within `timeoutInterval`, the call throws `timedOut`.
    public func upload<Pieces: AsyncSequence & Sendable>(
        for request: URLRequest,
        from pieces: Pieces,
        policy: Policy? = nil
    ) async throws(URLError) -> (Data, URLResponse) where Pieces.Element == Data {
        try await whole(try await run(request, .stream(BodyStream(pieces)), policy), of: request)
    }

    /// Sends `request` and returns its response as soon as the head has arrived, with the body as a stream.
    ///
    /// A slow reader delays its own response, but nothing else on the link. If the body is deallocated before its end,
    /// the request is cancelled.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - policy: The routes that the request may take; `nil`, the default, for `options.policy`.
    /// - Throws: The errors of ``data(for:policy:)``. If the response fails after its head, reading the body throws.
    public func bytes(for request: URLRequest, policy: Policy? = nil) async throws(URLError) -> (Body, URLResponse) {
        let reply = try await run(request, body(of: request), policy)
        return (reply.body, reply.response)
    }

    /// Sends `request`, writes the body of its response to a file, and returns the URL of the file and the response.
    /// The caller must move or remove the file.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - policy: The routes that the request may take; `nil`, the default, for `options.policy`.
    /// - Throws: The errors of ``data(for:policy:)``, and `cannotWriteToFile`.
    public func download(for request: URLRequest, policy: Policy? = nil) async throws(URLError) -> (URL, URLResponse) {
        let reply = try await run(request, body(of: request), policy)
        do {
            let file = try await Disk.run {
                Result { try Disk.makeFile(isNamed: true) }
            }.get()
            var offset = 0
            while let piece = try await reply.body.storage.next() {
                let start = offset
                try await Disk.run { Result { try file.write(piece, at: start) } }.get()
                offset += piece.count
            }
            return (try await Disk.run { Result { try Self.keep(file) } }.get(), reply.response)
        } catch let error as URLError {
            throw error
        } catch {
            throw URLError(.cannotWriteToFile, reason: "\(error)", underlying: error)
        }
    }

    /// Renames the file so that its owner does not remove it.
    private static func keep(_ file: TemporaryFile) throws -> URL {
        let url = URL(fileURLWithPath: file.path + ".download")
        try FileManager.default.moveItem(at: URL(fileURLWithPath: file.path), to: url)
        return url
    }

    private func body(of request: URLRequest) -> TunnelBody {
        if let stream = request.httpBodyStream { return .stream(BodyStream(reading: stream)) }
        return request.httpBody.map { $0.isEmpty ? .none : .data($0) } ?? .none
    }

    private func whole(_ reply: TunnelReply, of request: URLRequest) async throws(URLError) -> (Data, URLResponse) {
        let isEmpty = request.httpMethod == "HEAD" || [204, 304].contains(reply.response.statusCode)
        // With a content coding, Content-Length is the encoded size, which almost never exceeds the decoded size.
        if !isEmpty, reply.response.expectedContentLength > options.maximumBodySize { throw excess(reply) }
        var data = Data()
        while let piece = try await reply.body.storage.next() {
            guard data.count + piece.count <= options.maximumBodySize else { throw excess(reply) }
            data += piece
        }
        return (data, reply.response)
    }

    private func excess(_ reply: TunnelReply) -> URLError {
        reply.body.cancel()
        let reason = "the response's body exceeds the limit of \(options.maximumBodySize) bytes (maximumBodySize)"
        let error = ClientError(.overloaded, .answered, reason)
        return URLError(.dataLengthExceedsMaximum, reason: reason, underlying: error).failing(at: reply.response.url)
    }
}

extension HTTPTunnel: CustomReflectable {
    /// The options.
    public var customMirror: Mirror { Mirror(self, children: ["options": options]) }
}

extension HTTPTunnel.Options: CustomReflectable {
    /// The options, without cookies and without the values of header fields: these may be secret.
    public var customMirror: Mirror {
        Mirror(
            self,
            children: [
                "policy": policy, "hedgeBudget": hedgeBudget as Any, "window": window,
                "hasCookieStorage": cookieStorage != nil,
                "httpAdditionalHeaders": httpAdditionalHeaders.keys.sorted(),
                "maximumUploadSpool": maximumUploadSpool, "maximumBodySize": maximumBodySize,
            ],
            displayStyle: .struct
        )
    }
}
