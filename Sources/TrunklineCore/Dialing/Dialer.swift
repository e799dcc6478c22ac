/// Connects to one endpoint, once: looks up its name, chooses among its addresses, adds TLS. The result is a byte channel
/// (`Transport`). Lives on the event loop of its connection.
protocol Dialer: AnyObject {
    /// Begins to connect. Reports every progress to `delegate`, and at the end the channel or the failure, but never
    /// before this method returns.
    func dial(for delegate: any DialerDelegate)

    /// How far the dialer has come.
    var progress: DialProgress { get }

    /// The channels that it has opened, and not reported yet.
    var opening: [any Transport] { get }

    /// The event loop was late: the dialer has its time back.
    func loopWasLate(_ delay: LoopDelay)

    /// Ends dialling. Nothing more is reported.
    func cancel()
}

/// Receives what a dialer reports. Held weakly.
protocol DialerDelegate: AnyObject, Sendable {
    /// Called on the loop.
    func dialer(did event: DialEvent)
}

enum DialEvent {
    /// `progress` has changed.
    case progressed
    /// The channel is connected. The dialer is done.
    case connected(DialedChannel)
    /// The dialer is done. `isPermanent`: whether a repetition must fail too; `nil` if that follows from the error.
    case failed(TransportError, isPermanent: Bool?)
}

/// How far a dialer has come.
struct DialProgress: Equatable {
    /// Resolving, connecting or securing; `nil` before anything was opened.
    var phase: DisconnectReport.Phase?
    /// The addresses found for the name of the endpoint so far; empty if it has none.
    var addresses: [SocketAddress] = []
    /// Whether every look-up has been answered.
    var isResolved = false
    /// Whether a look-up has failed.
    var hasFailedLookup = false
    /// Whether the name may have other addresses than those that were found.
    var isPartlyResolved: Bool { hasFailedLookup && !addresses.isEmpty }
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
    /// The addresses of the endpoint that were tried before this one, and failed or did not answer.
    let passedOver: [AddressRace.Failure]
}
