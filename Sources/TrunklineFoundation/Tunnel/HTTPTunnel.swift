public import Foundation
public import Trunkline

#if canImport(FoundationNetworking)
    public import FoundationNetworking
#endif

/// HTTP over a client's link, with a real fallback: the calls of a `URLSession`, which travel to a gateway as frames of
/// type 0x403 and go directly when the link is down.
///
/// ```swift
/// let tunnel = HTTPTunnel(client)
/// let (data, response) = try await tunnel.data(from: url)
/// print(response.route)  // .link or .direct
/// ```
///
/// The client speaks `.standard`, or a codec that has the same roles (the article *HTTP over the link*). Errors are those of `URLSession`: a `URLError`, with the `ClientError` that it comes
/// from as its underlying error. Redirects are followed as `URLSession` does, at most 20. Cancelling the task cancels the
/// request, at the gateway and at the origin. Bodies stream in both directions. Nothing is cached.
public final class HTTPTunnel: Sendable {
    /// Which way an answer came.
    @nonexhaustive
    public enum Route: Sendable, Hashable {
        /// Over the link, from the gateway.
        case link
        /// Through a `URLSession`.
        case direct
    }

    /// Which way requests go.
    @nonexhaustive
    public enum Policy: Sendable, Hashable {
        /// Over the link, and not at all without it: they wait for one.
        case linkOnly
        /// Over the link if it is there and answers.
        ///
        /// One that may be carried out twice (GET, HEAD, OPTIONS, TRACE, PUT, DELETE: RFC 9110 §9.2.2) goes directly when there
        /// is no link, when the link fails, and also when the link has not answered for `hedgeAfter`; the first answer wins
        /// and the other is cancelled. One that may not, and one whose body can be read only once, goes directly only when
        /// nothing of it was sent or the gateway has not passed it on.
        ///
        /// What a hedge has overtaken may still be carried out later: a PUT or DELETE whose place is taken by the next one
        /// meanwhile may undo that. Ask with `.linkOnly` or `.directOnly` where this matters, or have the origin check
        /// (`If-Match`).
        case preferLink(hedgeAfter: Duration)
        /// Past the link.
        case directOnly
    }

    /// How a tunnel behaves.
    public struct Options: Sendable {
        /// Which way requests go, for calls that do not say otherwise. Default `.preferLink`, with a hedge after 500 ms.
        public var policy = Policy.preferLink(hedgeAfter: .milliseconds(500))
        /// What hedges draw on; `nil` for no limit. Default: a tenth of all requests, 1 per second, at most 100 saved up and 10
        /// to begin with. A fallback draws on nothing: it takes the place of a request whose link is gone, once.
        public var hedgeBudget: RetryBudget? = {
            var budget = RetryBudget()
            (budget.share, budget.perSecond, budget.maximumSaved, budget.initial) = (0.1, 1, 100, 10)
            return budget
        }()
        /// How many bytes of one response the gateway may send ahead of its reader. Default 1 MiB, from 64 KiB to 1 GiB.
        public var window = 1024 * 1024
        /// Where cookies are kept; `nil`, the default, for none. `HTTPCookieStorage.shared` is what `URLSession` has.
        public var cookieStorage: HTTPCookieStorage?
        /// Fields of requests that do not have them.
        public var httpAdditionalHeaders: [String: String] = [:]
        /// How many bytes of a body that is sent directly, and whose length is not known, are collected in a file. Default
        /// 4 GiB.
        public var maximumUploadSpool = 4 * 1024 * 1024 * 1024
        /// The most bytes of a response's body, decoded, that `data` and `upload` collect in memory, over the link and
        /// directly; `TunnelURLProtocol` too, on Linux. Default 64 MiB, at least 0.
        ///
        /// A longer one fails with `dataLengthExceedsMaximum`, at once when its `Content-Length` says so, and the transfer is
        /// cancelled at the gateway and at the origin. The underlying `ClientError` is `overloaded`, with the fate `answered`:
        /// the origin has carried the request out. `bytes` and `download` have no limit: they hold no body in memory.
        ///
        /// On Linux, `URLSession` holds the body of a redirect (301 to 308 with a `Location`) that it receives directly in
        /// memory, without a limit: see <doc:HTTPOverTheLink>. With the policy `.linkOnly` nothing is received directly.
        public var maximumBodySize = 64 * 1024 * 1024

        /// The defaults.
        public init() {}

        /// The defaults with changes.
        public init(_ change: (inout Options) throws -> Void) rethrows { try change(&self) }
    }

    /// Counts since the tunnel was made, of requests and of each step of a redirect.
    public struct Statistics: Sendable, Hashable {
        /// Asked.
        public var requests = 0
        /// Answered over the link.
        public var link = 0
        /// Answered directly.
        public var direct = 0
        /// Sent directly because the link was slow.
        public var hedges = 0
        /// Those of them whose answer it was.
        public var hedgesWon = 0
        /// Sent directly because the link was not there or failed, or the gateway refused or could not.
        public var fallbacks = 0
        /// Hedges that were left out because the budget was spent.
        public var refusedByBudget = 0

        /// All counts at zero.
        public init() {}
    }

    let client: Client
    let options: Options
    let origins = OriginSession()
    let counters = Lock(Statistics())
    let budget: Lock<RetryAccount>?

    /// A tunnel over the link of `client`.
    public init(_ client: Client, options: Options = Options()) {
        self.client = client
        var options = options
        options.maximumBodySize = max(0, options.maximumBodySize)
        options.window = min(max(options.window, TunnelWire.windows.lowerBound), TunnelWire.windows.upperBound)
        self.options = options
        budget = options.hedgeBudget.map { Lock(RetryAccount($0)) }
    }

    /// Counts since the tunnel was made.
    public var statistics: Statistics { counters.withLock { $0 } }

    // MARK: Calls

    /// What `url` has, of at most `options.maximumBodySize` bytes.
    public func data(from url: URL, policy: Policy? = nil) async throws(URLError) -> (Data, URLResponse) {
        try await data(for: URLRequest(url: url), policy: policy)
    }

    /// The answer to `request`, with its `httpBody` or `httpBodyStream`, which is read once: see `upload(for:from:)`.
    ///
    /// A body of more than `options.maximumBodySize` fails with `dataLengthExceedsMaximum`; see `bytes` and `download`.
    ///
    /// - Parameters:
    ///   - request: Of its properties count: URL, method, fields, body, `timeoutInterval` (the longest time without progress)
    ///     and `httpShouldHandleCookies`.
    ///   - policy: Which way it goes; `nil` for `options.policy`.
    public func data(for request: URLRequest, policy: Policy? = nil) async throws(URLError) -> (Data, URLResponse) {
        try await whole(try await run(request, body(of: request), policy), of: request)
    }

    /// The answer to `request` with `data` as its body.
    public func upload(
        for request: URLRequest,
        from data: Data,
        policy: Policy? = nil
    ) async throws(URLError) -> (Data, URLResponse) {
        try await whole(try await run(request, .data(data), policy), of: request)
    }

    /// The answer to `request` with what is in a file as its body: a regular file, or else `cannotOpenFile`.
    public func upload(
        for request: URLRequest,
        fromFile file: URL,
        policy: Policy? = nil
    ) async throws(URLError) -> (Data, URLResponse) {
        try await whole(try await run(request, try await .file(at: file), policy), of: request)
    }

    /// The answer to `request` with a body that is made as it is sent. It is read once, so the request is not sent again
    /// once that has begun: not by a fallback, and not by a redirect, which fails with `requestBodyStreamExhausted`.
    ///
    /// An error that `pieces` throws ends the request with `requestBodyStreamExhausted`, with it as the underlying error; a
    /// `URLError` as it is. When no piece comes within `timeoutInterval`, it is `timedOut`. `pieces` must heed cancellation: the
    /// call returns when it has ended.
    public func upload<Pieces: AsyncSequence & Sendable>(
        for request: URLRequest,
        from pieces: Pieces,
        policy: Policy? = nil
    ) async throws(URLError) -> (Data, URLResponse) where Pieces.Element == Data {
        try await whole(try await run(request, .stream(BodyStream(pieces)), policy), of: request)
    }

    /// The head of the answer to `request`, and its body as it comes.
    ///
    /// A reader that is slow holds up the gateway, not the link. Letting go of the body before its end cancels the request.
    public func bytes(for request: URLRequest, policy: Policy? = nil) async throws(URLError) -> (Body, URLResponse) {
        let reply = try await run(request, body(of: request), policy)
        return (reply.body, reply.response)
    }

    /// The answer to `request`, with its body in a file that is yours to move or remove.
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

    /// Moves a file out of the reach of the one who would remove it.
    private static func keep(_ file: TemporaryFile) throws -> URL {
        let url = URL(fileURLWithPath: file.path + ".download")
        try FileManager.default.moveItem(at: URL(fileURLWithPath: file.path), to: url)
        return url
    }

    private func body(of request: URLRequest) -> TunnelBody {
        if let stream = request.httpBodyStream { return .stream(BodyStream(reading: stream)) }
        return request.httpBody.map { $0.isEmpty ? .none : .data($0) } ?? .none
    }

    /// The body in one piece, unless it is longer than it may be.
    private func whole(_ reply: TunnelReply, of request: URLRequest) async throws(URLError) -> (Data, URLResponse) {
        let isEmpty = request.httpMethod == "HEAD" || [204, 304].contains(reply.response.statusCode)
        // What the head says of a body with a coding is how long it was before it was decoded: hardly ever longer.
        if !isEmpty, reply.response.expectedContentLength > options.maximumBodySize { throw excess(reply) }
        var data = Data()
        while let piece = try await reply.body.storage.next() {
            guard data.count + piece.count <= options.maximumBodySize else { throw excess(reply) }
            data += piece
        }
        return (data, reply.response)
    }

    /// Gives up a response that is longer than it may be.
    private func excess(_ reply: TunnelReply) -> URLError {
        reply.body.cancel()
        let reason = "the response's body has more than \(options.maximumBodySize) bytes (maximumBodySize)"
        let error = ClientError(.overloaded, .answered, reason)
        return URLError(.dataLengthExceedsMaximum, reason: reason, underlying: error).failing(at: reply.response.url)
    }
}
