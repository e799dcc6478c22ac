/// The options of a client. The defaults suit a server in the same region.
///
/// ```swift
/// let options = ClientOptions {
///     $0.requests.timeout = .seconds(2)
///     $0.failover.maximumLinkAge = .seconds(3600)
/// }
/// let client = Client(to: "gateway.example:7000", speaking: .standard, options: options)
/// ```
///
/// A client reads its options once, when it is created. <doc:ServerSettings> has recipes for particular kinds of
/// server.
///
/// Every number and duration may have any value. A value outside the range that the documentation of an option names
/// counts as the nearest one within the range. Without a named minimum, a negative duration or limit counts as zero. A
/// duration of more than 292 years counts as endless.
public struct ClientOptions: Sendable {
    /// The options for establishing links.
    public var connecting = Connecting()
    /// The TLS options of links to `tls://` endpoints.
    public var tls = TLS()
    /// The options for reconnecting after a link failed or was lost.
    public var reconnecting = Reconnecting()
    /// The options of the handshake, which runs on every new link before any other traffic.
    public var handshake = Handshake()
    /// The options for choosing among endpoints and for replacing links that still work.
    public var failover = Failover()
    /// The options for reacting to changes of the host's network.
    public var network = Network()
    /// The options for detecting dead links.
    public var liveness = Liveness()
    /// Deadlines, limits and retries of requests.
    public var requests = Requests()
    /// The options for diagnosing why links end.
    public var diagnosis = Diagnosis()
    /// The limits for bytes that wait to be written.
    public var outbound = Outbound()
    /// The limits for bytes that were received and are not yet delivered.
    public var inbound = Inbound()

    /// The observers of the client. Default: none.
    public var observers: [any ClientObserver] = []
    /// Set by the library `TrunklineDiagnostics`.
    package var recorderSettings: (any RecorderSettings)?
    package var membership: ClusterMembership?
    /// Set by the library `TrunklineLogging`.
    package var loggingSettings: (any ObserverSettings)?
    /// The interceptors through which every call passes, in this order. Default: none.
    public var interceptors: [any ClientInterceptor] = []

    /// Creates options with the default values.
    public init() {}

    /// Creates options with the default values, modified by `change`.
    public init(_ change: (inout ClientOptions) throws -> Void) rethrows { try change(&self) }
}

extension ClientOptions: CustomReflectable {
    /// The options, with only the types of observers and interceptors: these may hold tokens.
    public var customMirror: Mirror {
        Mirror(
            self,
            children: [
                "connecting": connecting, "tls": tls, "reconnecting": reconnecting, "handshake": handshake,
                "failover": failover, "network": network, "liveness": liveness, "requests": requests,
                "diagnosis": diagnosis, "outbound": outbound, "inbound": inbound,
                "observers": observers.map { "\(type(of: $0))" }, "recorder": recorderSettings as Any,
                "logging": loggingSettings as Any, "interceptors": interceptors.map { "\(type(of: $0))" },
            ],
            displayStyle: .struct
        )
    }
}
