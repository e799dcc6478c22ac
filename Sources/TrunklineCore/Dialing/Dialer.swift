/// Connects to one endpoint, once. Lives on the event loop of its connection.
protocol Dialer: AnyObject {
    /// Reports to `delegate`, but never before this method returns.
    func dial(for delegate: any DialerDelegate)

    var progress: DialProgress { get }

    var opening: [any Transport] { get }

    func loopWasLate(_ delay: LoopDelay)

    /// Nothing more is reported.
    func cancel()
}

/// Held weakly.
protocol DialerDelegate: AnyObject, Sendable {
    /// Called on the loop.
    func dialer(did event: DialEvent)
}

enum DialEvent {
    case progressed
    case connected(DialedChannel)
    /// `isPermanent`: whether a repetition must fail too; `nil` if that follows from the error.
    case failed(TransportError, isPermanent: Bool?)
}

struct DialProgress: Equatable {
    /// Resolving, connecting or securing; `nil` before anything was opened.
    var phase: DisconnectReport.Phase?
    var addresses: [SocketAddress] = []
    var isResolved = false
    var hasFailedLookup = false
    /// The name may have other addresses than those that were found.
    var isPartlyResolved: Bool { hasFailedLookup && !addresses.isEmpty }
    var firstAddress: SocketAddress?
}

struct DialedChannel {
    let transport: any Transport
    let address: SocketAddress
    let deadline: Instant
    let fileVersions: [FileVersion?]?
    /// Tried before `address`; they failed or did not answer.
    let passedOver: [AddressRace.Failure]
}
