/// Everything that can be set for a `Connection` that is used alone. The groups are those of `ClientOptions`, without what
/// concerns requests.
///
/// ```swift
/// let options = ConnectionOptions { $0.reconnecting.maximumAttempts = 5 }
/// ```
public struct ConnectionOptions: Sendable {
    /// How a link is established.
    public var connecting = ClientOptions.Connecting()
    /// How `tls://` endpoints are secured.
    public var tls = ClientOptions.TLS()
    /// What happens when there is no link.
    public var reconnecting = ClientOptions.Reconnecting()
    /// What is said on a new link before it is ready. `restore` is not called, as there are no subscriptions.
    public var handshake = ClientOptions.Handshake()
    /// How several endpoints are used. `errorRate` has no effect, as there are no requests.
    public var failover = ClientOptions.Failover()
    /// What changes of the host's network mean.
    public var network = ClientOptions.Network()
    /// How a link that has died is noticed.
    public var liveness = ClientOptions.Liveness()
    /// How it is found out whether the network is up.
    public var diagnosis = ClientOptions.Diagnosis()
    /// What is held of what was received.
    public var inbound = ClientOptions.Inbound()
    /// How long `close()` waits until everything is written. Default 30 s.
    public var drainTimeout: Duration = .seconds(30)

    /// The defaults.
    public init() {}

    /// The defaults but for what `change` changes.
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
