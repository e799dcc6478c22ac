/// Keeps a record of one client, such as the flight recorder of the library `TrunklineDiagnostics`. Called on the event
/// loop of the client.
package protocol ClientRecorder: AnyObject, Sendable {
    var deliveries: (any DeliveryQueue)? { get }

    /// Not retained; `nil` for a connection without a client.
    var client: (any RecordedClient)? { get set }

    /// The call of `id` follows. The type number does not tell the name.
    func name(_ name: String, of id: RequestID)

    func call(
        _ id: RequestID,
        _ type: UInt32,
        _ bodyCount: Int,
        _ expectsResponse: Bool,
        isOpen: Bool,
        _ deadline: Instant?,
        at now: Instant
    )

    func calls(
        _ requests: borrowing [Request],
        _ count: Int,
        first: RequestID,
        _ expectsResponse: Bool,
        _ deadline: Instant?,
        at now: Instant
    )

    /// The next `length` bytes of `queue` were written. Records the frames whose first byte is among them. The requests
    /// of a handshake have IDs that are not those of calls.
    func sent(in queue: borrowing OutboundQueue, within length: Int, session: SessionID, isHandshake: Bool)

    func received(_ frames: borrowing [Frame], session: SessionID, at now: Instant)

    /// Some events repeat what the other methods have reported.
    func note(_ event: ClientEvent)

    func timerFired(_ name: String)
}

package protocol RecorderSettings: Sendable {
    /// `quarantine` is how long the serial of an abandoned request is held. `codec` tells the channel of a frame and
    /// the name of a request.
    func makeRecorder(
        of endpoints: [Endpoint],
        quarantine: Duration,
        codec: ProtocolCodec,
        on loop: any EventLoop
    ) -> any ClientRecorder
}

package protocol RecordedClient: AnyObject, Sendable {
    /// In ascending order of their IDs.
    var pendingRequests: [RecordedRequest] { get }
}

/// A request that has not ended.
package struct RecordedRequest: Sendable {
    package let id: RequestID
    package let type: UInt32
    /// `nil` if the type number tells it, too.
    package let name: String?
    package let session: SessionID?
    /// Its serial number or, if responses are matched in order, its place among the requests of the link; 0 if it is on
    /// none.
    package let number: SerialNumber

    package init(id: RequestID, type: UInt32, name: String? = nil, session: SessionID?, number: SerialNumber) {
        (self.id, self.type, self.name, self.session, self.number) = (id, type, name, session, number)
    }
}
