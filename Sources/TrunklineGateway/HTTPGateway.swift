import Foundation
public import TrunklineCore
import TrunklineFoundation
public import TrunklineLoopback

/// The server side of an `HTTPTunnel`: forwards requests to origins and streams their responses back.
///
/// ```swift
/// let gateway = HTTPGateway(allowing: ["https://api.example.com"])
/// let server = try await LoopbackServer.start(speaking: .standard, handler: gateway.handler)
/// ```
///
/// The gateway forwards requests only to origins on its list, which is empty by default. It refuses an origin whose
/// name resolves to an address that is not public, unless the list allows that. If it does not forward a request, it
/// responds itself, with a field `Trunkline-Gateway` that contains the reason:
/// - 400: the request is invalid
/// - 403: the origin is not allowed
/// - 413: the body exceeds the limit
/// - 502 or 504: the origin failed or timed out
/// - 503: too many requests are in progress
///
/// The client follows redirects, so each step is checked. Fields that concern only one connection, and fields whose
/// names begin with `Trunkline-`, are not forwarded in either direction. The gateway decodes content with a content
/// coding such as `gzip`, and removes `Content-Encoding` and `Content-Length` from such a response.
///
/// The gateway looks up a name for the check, and the URLSession that connects looks it up again. A malicious name
/// server could give different answers, so allow only origins whose name servers you trust.
public final class HTTPGateway: Sendable {
    /// The limits of a gateway.
    public struct Options: Sendable {
        /// The maximum size of a request's body in bytes. A request with a longer body is refused with 413. Default
        /// 1 GiB.
        public var maximumRequestBody = 1024 * 1024 * 1024
        /// The maximum size of a decoded response body in bytes. Default 4 GiB.
        ///
        /// If `Content-Length` exceeds the limit, the gateway responds with 502. Otherwise a longer body is truncated
        /// and ends with an error.
        ///
        /// On Linux the limit does not apply to the body of a redirect (301 to 308 with a `Location`): URLSession holds
        /// it in memory until it is complete. Allow only origins that you trust not to send an endless one.
        public var maximumResponseBody = 4 * 1024 * 1024 * 1024
        /// Bytes of one response that may wait in a file for a slow client; beyond it the response is truncated. The
        /// temporary directory may have to hold `maximumConcurrency` times the sum of this and `maximumRequestBody`.
        var maximumSpool = 4 * 1024 * 1024 * 1024
        /// The maximum number of requests in progress. Further requests are refused with 503. Default 256.
        public var maximumConcurrency = 256
        /// The longest time without progress at the origin, rounded up to whole seconds, at least 1 s. After that time
        /// the request fails. Default 60 s.
        public var timeout: Duration = .seconds(60)
        /// From the request to the end of its response, including slow clients.
        var maximumDuration: Duration = .seconds(3600)

        /// Creates the default limits.
        public init() {}

        /// Creates the default limits and changes them in a closure.
        public init(_ change: (inout Options) throws -> Void) rethrows { try change(&self) }
    }

    /// The counters of a gateway.
    public struct Metrics: Sendable, Hashable {
        /// The number of requests received.
        public var requests = 0
        /// The number of requests that were refused before they were sent to an origin.
        public var refused = 0
        /// The number of requests that an origin answered completely.
        public var answered = 0
        /// The number of requests that failed because of the origin, a limit, or a client that cancelled or
        /// disconnected.
        public var failed = 0
        var underWay = 0

        init() {}
    }

    let origins: [HTTPOrigin.Identity: HTTPOrigin]
    let options: Options
    let session: OriginSession
    let resolver: Resolver
    let counters = Lock(Metrics())

    /// Creates a gateway.
    ///
    /// - Parameters:
    ///   - origins: The origins that clients may reach. Default: none.
    ///   - options: The limits.
    public convenience init(allowing origins: [HTTPOrigin] = [], options: Options = Options()) {
        self.init(allowing: origins, options: options, resolver: .shared)
    }

    init(allowing origins: [HTTPOrigin], options: Options, resolver: Resolver) {
        self.resolver = resolver
        self.origins = Dictionary(origins.map { ($0.identity, $0) }) { $1.allowsPrivateAddresses ? $1 : $0 }
        self.options = options
        var limits = OriginSession.Options()
        limits.maximumSpooled = min(options.maximumSpool, options.maximumResponseBody)
        session = OriginSession(limits)
    }

    /// The counters since the gateway was created.
    public var metrics: Metrics { counters.withLock { $0 } }

    /// A handler, for a server, that forwards HTTP requests. It treats frames of type 0x403 and requests in parts as
    /// HTTP, and refuses them if they are invalid. It does not reply to other frames.
    public var handler: LoopbackServer.Handler {
        { frame in
            guard frame.kind == .part || frame.type == TunnelWire.messageType else { return .noReply }
            return .perform { try await self.serve($0) }
        }
    }

    /// Returns the reaction to `frame` if it is an HTTP message or the first part of one, and `nil` for other frames.
    /// Use it in a handler that also handles other requests: `{ gateway.reaction(to: $0) ?? .echo }`.
    public func reaction(to frame: Frame) -> Reaction? { isMessage(frame) ? handler(frame) : nil }

    /// Parts have no type: a part is one if it begins like a request with an `http` or `https` URL.
    func isMessage(_ frame: Frame) -> Bool {
        frame.kind == .part ? GatewayRequest.isBeginning(frame.body) : frame.type == TunnelWire.messageType
    }

    private func serve(_ exchange: ServerExchange) async throws {
        let limit = options.maximumConcurrency
        let isAdmitted = counters.withLock { counters in
            counters.requests += 1
            guard counters.underWay < limit else { return false }
            counters.underWay += 1
            return true
        }
        let performance = GatewayPerformance(self, exchange, hasPlace: isAdmitted)
        // A cancelled request releases its place at once, before all of its tasks have ended.
        try await withTaskCancellationHandler {
            defer { performance.leave(.failed) }
            do {
                guard isAdmitted else {
                    throw GatewayRefusal(.busy, "the gateway has \(limit) requests in progress (maximumConcurrency)")
                }
                try await withTimeout(options.maximumDuration) { try await performance.run() }
            } catch let refusal as GatewayRefusal {
                try await performance.refuse(refusal)
            } catch let error as ClientError where error.code == .timedOut {
                try await performance.refuse(
                    GatewayRefusal(.failed, "the request took longer than \(options.maximumDuration)", .timedOut)
                )
            }
        } onCancel: {
            performance.leave(.failed)
        }
    }
}

/// The reason why a gateway does not forward a request, or stops it.
struct GatewayRefusal: Error {
    let verdict: GatewayVerdict
    let message: String

    init(_ reason: GatewayVerdict.Reason, _ message: String, _ code: URLError.Code? = nil) {
        verdict = GatewayVerdict(reason, code)
        self.message = message
    }
}
