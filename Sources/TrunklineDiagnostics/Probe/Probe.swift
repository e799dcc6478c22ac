public import TrunklineCore

/// Reports what a server does: how its name resolves, which of its addresses accept connections, TLS and its
/// certificates, whether it accepts the login, and how long it takes to answer pings.
///
/// ```swift
/// let report = try await Probe(of: "tls://gateway.example:7443", speaking: acme, options: options).run()
/// print(report.text)
/// exit(report.exitCode)
/// ```
///
/// It takes the codec and the options of a client. With a handshake in the options, the probe logs in as the client
/// would. Pings are those of the codec, or a closure that sends a request. ``run(_:speaking:options:ping:)`` makes a
/// command of it. See <doc:/Trunkline/Probing>.
public struct Probe: Sendable {
    /// The endpoint of the server.
    public let endpoint: Endpoint
    /// The number of pings or, without any, of further connections. Default 5, at most 10,000; 0 or less for none.
    public var pings = 5
    /// The pause between pings or connections. Default 100 ms. Without pings, also how long the probe waits for a
    /// server that closes the link at once.
    public var interval: Duration = .milliseconds(100)
    /// How long connecting may take, with the login, and each answer to a ping. Default 5 s, at least 1 ms.
    /// `options.handshake.timeout` limits the login too.
    public var timeout: Duration = .seconds(5)
    /// The health is degraded if a certificate expires within this time. Default 14 days.
    public var certificateWarning: Duration = .seconds(14 * 86_400)

    let codec: (any FrameCodec)?
    let format: String
    let options: ClientOptions
    let ping: (@Sendable (Client) async throws -> Void)?

    /// Creates a probe that sends nothing: it only connects, with TLS if the endpoint has it.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint of the server.
    ///   - options: The options of the client. Only `tls` is used.
    public init(of endpoint: Endpoint, options: ClientOptions = ClientOptions()) {
        self.init(of: endpoint, speaking: nil, called: "none", options: options, ping: nil)
    }

    /// Creates a probe that speaks a protocol.
    ///
    /// With `options.handshake.perform` or `ping`, a ``/Trunkline/Client`` with these options connects once the
    /// addresses are examined, if it can use one of them. It makes one attempt. Otherwise, the pings of the codec are
    /// sent on the connection that won.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint of the server.
    ///   - codec: The wire format.
    ///   - options: The options of the client. The probe sets `connecting.timeout` and `reconnecting.maximumAttempts`,
    ///     and for the pings of the codec `liveness.interval` and `liveness.deadline`.
    ///   - ping: Sends a request that the server answers. An error that it throws makes the report unhealthy. If it
    ///     does not return when its task is cancelled, the probe does not return either. Default `nil`: the ping of the
    ///     codec, if it has one.
    public init(
        of endpoint: Endpoint,
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        ping: (@Sendable (Client) async throws -> Void)? = nil
    ) {
        self.init(of: endpoint, speaking: codec, called: "\(type(of: codec))", options: options, ping: ping)
    }

    init(
        of endpoint: Endpoint,
        speaking codec: (any FrameCodec)?,
        called format: String,
        options: ClientOptions,
        ping: (@Sendable (Client) async throws -> Void)?
    ) {
        (self.endpoint, self.codec, self.format) = (endpoint, codec, format)
        (self.options, self.ping) = (options, ping)
    }

    /// Probes the server once.
    ///
    /// Whatever the server does is in the report, and no error.
    ///
    /// - Parameter loops: The event loops that carry the connections.
    /// - Throws: A ``/Trunkline/TransportError`` with a code `tls` if `options.tls` cannot be used: TLS is not
    ///   installed, a file cannot be read, or the private key does not match the certificate. With the code
    ///   `invalidAddress` for a `udp://` endpoint: there is no connection to probe.
    public func run(on loops: EventLoops = .shared) async throws(TransportError) -> ProbeReport {
        if endpoint.usesDatagrams { throw TransportError(.invalidAddress, "probing \(endpoint): \(Self.noDatagrams)") }
        let security = endpoint.isSecured ? try await ProbeSecurity(for: endpoint, options.tls) : nil
        return await Prober(self, security, on: loops).run()
    }

    static let noDatagrams = "datagrams (udp://) have no connection to probe"

    var needsClient: Bool { codec != nil && (options.handshake.perform != nil || ping != nil) }

    var isInsecure: Bool { options.tls.verification == .insecureNone }

    var effectivePings: Int { min(max(0, pings), 10_000) }

    var effectiveTimeout: Duration { min(max(.milliseconds(1), timeout), .century) }

    var effectiveInterval: Duration { min(max(.zero, interval), .century) }
}

extension Probe: CustomReflectable {
    /// The endpoint and the numbers: the options, the codec and the closure may hold tokens.
    public var customMirror: Mirror {
        Mirror(
            self,
            children: [
                "endpoint": endpoint, "pings": pings, "interval": interval, "timeout": timeout,
                "certificateWarning": certificateWarning,
            ],
            displayStyle: .struct
        )
    }
}
