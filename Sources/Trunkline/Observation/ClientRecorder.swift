/// Keeps a record of one client, such as the flight recorder of the library `TrunklineDiagnostics`.
///
/// Called on the event loop of the client.
package protocol ClientRecorder: AnyObject, Sendable {
    /// What the recorder passes on and its receiver has not received yet; `nil` if there is no receiver.
    var deliveries: (any DeliveryQueue)? { get }

    /// The event loop has received a call.
    func call(
        _ id: RequestID,
        _ type: UInt32,
        _ bodyCount: Int,
        _ expectsResponse: Bool,
        isOpen: Bool,
        _ deadline: Instant?,
        at now: Instant
    )

    /// The event loop has received the first `count` calls of a batch.
    func calls(
        _ requests: borrowing [Request],
        _ count: Int,
        first: RequestID,
        _ expectsResponse: Bool,
        _ deadline: Instant?,
        at now: Instant
    )

    /// The next `length` bytes of `queue` were written. Records the frames whose first byte is among them.
    ///
    /// - Parameter isHandshake: Whether the requests are those of a handshake, whose IDs are not those of calls.
    func sent(in queue: borrowing OutboundQueue, within length: Int, session: SessionID, isHandshake: Bool)

    /// Frames were decoded.
    func received(_ frames: borrowing [Frame], session: SessionID, at now: Instant)

    /// Something happened. Some events repeat what the other methods have reported.
    func note(_ event: ClientEvent)

    /// A timer of the client has fired.
    func timerFired(_ name: String)
}

/// The settings from which each client makes its recorder.
package protocol RecorderSettings: Sendable {
    func makeRecorder(on loop: any EventLoop) -> any ClientRecorder
}
