/// Establishes byte channels: turns an endpoint into a connected `Transport`, with everything that is between the two,
/// such as names, several addresses, and TLS.
///
/// A connection has one dialer and dials one endpoint at a time. Everything happens on its event loop.
protocol Dialer: AnyObject, Sendable {
    /// Begins to connect to `endpoint`, in place of what it did before. `delegate` hears of every progress, and at the
    /// end of the channel or of the failure, but never before this method returns.
    func dial(_ endpoint: Endpoint, for delegate: any DialerDelegate)

    /// How far the present dialling has come, or had come when it failed.
    var progress: DialProgress { get }

    /// Ends the present dialling, if there is any. Its delegate hears nothing more.
    func cancel()

    /// Forgets what earlier diallings have found out about all endpoints but these. Addresses found in one network are
    /// not used in another.
    func forget(except endpoints: Set<Endpoint>)

    /// Reads what TLS needs. Not on the event loop, which reading files would block.
    func loadTLS() async -> Result<LoadedTLS, TransportError>

    /// Puts TLS over a connected channel to `endpoint` (STARTTLS). `handler` receives the events of the new transport:
    /// `.connected` or `.connectFailed` first.
    func secure(
        _ channel: any Transport,
        to endpoint: Endpoint,
        with tls: LoadedTLS,
        handler: any TransportHandler
    ) throws(TransportError) -> SecuredTransport
}

/// Receives what a dialer reports. Held weakly.
protocol DialerDelegate: AnyObject, Sendable {
    /// Called on the loop.
    func dialer(did event: DialEvent)
}

enum DialEvent {
    /// `progress` has changed.
    case progressed
    /// The channel is connected. The dialling is over.
    case connected(DialedChannel)
    /// The dialling is over. `isPermanent`: whether a repetition must fail too; `nil` if that follows from the error.
    case failed(TransportError, isPermanent: Bool?)
}

/// How far dialling has come.
struct DialProgress: Equatable {
    /// Resolving, connecting or securing; `nil` before anything was opened.
    var phase: DisconnectReport.Phase?
    /// The addresses found for the name of the endpoint so far; empty if it has none.
    var addresses: [SocketAddress] = []
    /// Whether every look-up has been answered.
    var isResolved = false
    /// The first address that a socket began to connect to.
    var firstAddress: SocketAddress?
}

/// A connected channel, with what is known about it.
struct DialedChannel {
    let transport: any Transport
    let address: SocketAddress
    /// When the time for the attempt ends.
    let deadline: Instant
    /// The versions of the files that its TLS settings were made from; `nil` in plaintext.
    let fileVersions: [FileVersion?]?
}
