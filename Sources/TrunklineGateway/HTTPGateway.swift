import Foundation
public import Trunkline
import TrunklineFoundation
public import TrunklineTesting

/// The server side of an `HTTPTunnel`: asks origins for its clients, and streams their answers back.
///
/// ```swift
/// let gateway = HTTPGateway(allowing: ["https://api.example.com"])
/// let server = try await LoopbackServer.start(speaking: .standard, handler: gateway.handler)
/// ```
///
/// It asks no origin that is not on its list, which is empty unless you say otherwise, and none whose name leads to an
/// address of this machine or this network. What it refuses it answers itself, with a field `Trunkline-Gateway` that says
/// why: 400 for what is no request, 403 for an origin that is not allowed, 413 for a body beyond its limit, 503 when it has
/// too much to do, 502 and 504 for an origin that fails or is slow.
///
/// Redirects are the client's to follow, so each step is checked. Fields that concern one connection alone, and those that
/// begin with `Trunkline-`, are not passed on in either direction. Content that has a coding (`gzip`) is decoded on the way, and
/// then `Content-Encoding` and `Content-Length` are left out. A name is looked up for the check and again by the URLSession
/// that connects: a name server in league with a client could answer differently, so allow only origins whose name servers
/// you trust.
public final class HTTPGateway: Sendable {
    /// Limits.
    public struct Options: Sendable {
        /// The most bytes of a request's body. Default 1 GiB.
        public var maximumRequestBody = 1024 * 1024 * 1024
        /// The most bytes of a response's body, decoded; one that is longer is cut off and ends with an error. Default 4 GiB.
        ///
        /// It does not hold for the body of a redirect (301 to 308 with a `Location`) on Linux: the URLSession there keeps that
        /// in memory until it has all of it, and tells nobody. Allow only origins that you trust not to send one without end.
        public var maximumResponseBody = 4 * 1024 * 1024 * 1024
        /// The most bytes of one response that wait in a file for a client that is slower than the origin; with more of them
        /// it is cut off and ends with an error. Never more than `maximumResponseBody`. Default 4 GiB.
        ///
        /// There is no limit for all of them together: what the temporary directory may have to hold is `maximumConcurrency`
        /// times the sum of this and `maximumRequestBody`.
        package var maximumSpool = 4 * 1024 * 1024 * 1024
        /// How many requests are under way at once; further ones are refused. Default 256.
        public var maximumConcurrency = 256
        /// The longest time without progress at the origin, rounded up to whole seconds. Default 60 s.
        public var timeout: Duration = .seconds(60)
        /// The longest time from a request to the end of its answer, slow clients included. Default 1 hour.
        package var maximumDuration: Duration = .seconds(3600)

        /// The defaults.
        public init() {}

        /// The defaults with changes.
        public init(_ change: (inout Options) throws -> Void) rethrows { try change(&self) }
    }

    /// Counts since the gateway was made.
    public struct Statistics: Sendable, Hashable {
        /// Received.
        public var requests = 0
        /// Those that were refused before an origin was asked.
        public var refused = 0
        /// Those that an origin answered, to the end.
        public var answered = 0
        /// Those that failed: the origin, a limit on the way, or a client that went away.
        public var failed = 0
        /// Those that are under way.
        package var underWay = 0

        init() {}
    }

    let origins: [HTTPOrigin.Identity: HTTPOrigin]
    let options: Options
    let session: OriginSession
    let resolver: Resolver
    let counters = Lock(Statistics())

    /// A gateway to `origins`.
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

    /// Counts since the gateway was made.
    public var statistics: Statistics { counters.withLock { $0 } }

    /// What a server does about requests; those in one frame that are no HTTP message get no reply, those in pieces a refusal.
    public var handler: LoopbackServer.Handler {
        { frame in
            guard frame.kind == .part || frame.type == TunnelWire.messageType else { return .noReply }
            return .perform { try await self.serve($0) }
        }
    }

    /// What a server does about `frame` if it is an HTTP message, or the first piece of one; `nil` for all others. For handlers
    /// that do other things as well: `{ gateway.reaction(to: $0) ?? .echo }`.
    public func reaction(to frame: Frame) -> Reaction? { isMessage(frame) ? handler(frame) : nil }

    /// Whether `frame` is an HTTP message, or the first piece of one: pieces have no type of their own, so one that begins as a
    /// request with an `http` URL does is taken for one.
    package func isMessage(_ frame: Frame) -> Bool {
        frame.kind == .part ? GatewayRequest.isBeginning(frame.body) : frame.type == TunnelWire.messageType
    }

    // MARK: One request

    private func serve(_ exchange: ServerExchange) async throws {
        let limit = options.maximumConcurrency
        let isAdmitted = counters.withLock { counters in
            counters.requests += 1
            guard counters.underWay < limit else { return false }
            counters.underWay += 1
            return true
        }
        let performance = GatewayPerformance(self, exchange, hasPlace: isAdmitted)
        // One that its client has given up leaves at once, not when all of it has noticed.
        try await withTaskCancellationHandler {
            defer { performance.leave(.failed) }
            do {
                guard isAdmitted else { throw GatewayRefusal(.busy, "the gateway has \(limit) requests under way") }
                try await withTimeout(options.maximumDuration) { try await performance.run() }
            } catch let refusal as GatewayRefusal {
                try await performance.refuse(refusal)
            } catch let error as ClientError where error.code == .timedOut {
                try await performance.refuse(GatewayRefusal(.failed, "it took too long", .timedOut))
            }
        } onCancel: {
            performance.leave(.failed)
        }
    }
}

/// Why a gateway does not do, or go on with, what it was asked.
struct GatewayRefusal: Error {
    let verdict: GatewayVerdict
    /// In words, for people.
    let message: String

    init(_ reason: GatewayVerdict.Reason, _ message: String, _ code: URLError.Code? = nil) {
        verdict = GatewayVerdict(reason, code)
        self.message = message
    }
}
