/// The options of a ``Connection`` that is used alone. The groups are those of ``ClientOptions`` that do not concern
/// requests.
///
/// ```swift
/// let options = ConnectionOptions { $0.reconnecting.maximumAttempts = 5 }
/// ```
public struct ConnectionOptions: Sendable {
    /// Options for establishing links.
    public var connecting = ClientOptions.Connecting()
    /// TLS options for `tls://` endpoints.
    public var tls = ClientOptions.TLS()
    /// Options for replacing links that failed or were lost.
    public var reconnecting = ClientOptions.Reconnecting()
    /// The handshake on every new link. `restore` is not called, because there are no subscriptions.
    public var handshake = ClientOptions.Handshake()
    /// Options for several endpoints. `errorRate` has no effect, because there are no requests.
    public var failover = ClientOptions.Failover()
    /// Options for following the host's network.
    public var network = ClientOptions.Network()
    /// Options for detecting dead links.
    public var liveness = ClientOptions.Liveness()
    /// Options for diagnosing why links end.
    public var diagnosis = ClientOptions.Diagnosis()
    /// Limits for received bytes.
    public var inbound = ClientOptions.Inbound()
    /// How long ``Connection/close()`` waits until everything is written. Default 30 s.
    public var drainTimeout: Duration = .seconds(30)

    /// Creates options with the default values.
    public init() {}

    /// Creates options with the default values, modified by `change`.
    public init(_ change: (inout ConnectionOptions) throws -> Void) rethrows { try change(&self) }

    var clientOptions: ClientOptions {
        var options = ClientOptions()
        (options.connecting, options.tls, options.reconnecting) = (connecting, tls, reconnecting)
        (options.handshake, options.failover, options.liveness) = (handshake, failover, liveness)
        options.network = network
        (options.diagnosis, options.inbound) = (diagnosis, inbound)
        options.requests.drainTimeout = drainTimeout
        return options
    }
}
