/// Keeps a record of one client, such as the flight recorder of the library `TrunklineDiagnostics`.
///
/// Called on the event loop of the client.
package protocol ClientRecorder: AnyObject, Sendable {
    /// What the recorder passes on and its receiver has not received yet; `nil` if there is no receiver.
    var deliveries: (any DeliveryQueue)? { get }

    /// The client that is recorded, not retained; `nil` for a connection without a client.
    var client: (any RecordedClient)? { get set }

    /// The request `id`, whose call follows, has a name that its type number does not tell.
    func name(_ name: String, of id: RequestID)

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
    /// Makes the recorder of a new client.
    ///
    /// - Parameters:
    ///   - quarantine: How long the serial of an abandoned request is held.
    ///   - codec: Tells the channel of a frame and the name of a request.
    func makeRecorder(
        of endpoints: [Endpoint],
        quarantine: Duration,
        codec: ProtocolCodec,
        on loop: any EventLoop
    ) -> any ClientRecorder
}

/// A client that has a recorder.
///
/// Called on the event loop of the client.
package protocol RecordedClient: AnyObject, Sendable {
    /// The requests that wait for a response, or for a link or their turn, in ascending order of their IDs.
    var pendingRequests: [RecordedRequest] { get }
}

/// A request that has not ended.
package struct RecordedRequest: Sendable {
    package let id: RequestID
    /// The type number of the request.
    package let type: UInt32
    /// Its name; `nil` if it has none, or if its type number tells it.
    package let name: String?
    /// The session of its link; `nil` if it is on no link.
    package let session: SessionID?
    /// The number that identifies its response on that link: its serial number or, if responses are matched in order,
    /// its place among the requests of the link; 0 if it is on no link.
    package let number: SerialNumber

    package init(id: RequestID, type: UInt32, name: String? = nil, session: SessionID?, number: SerialNumber) {
        (self.id, self.type, self.name, self.session, self.number) = (id, type, name, session, number)
    }
}

extension Client: RecordedClient {
    package nonisolated var pendingRequests: [RecordedRequest] { onItsLoop { $0.dispatcher.pendingRequests } }
}

extension Dispatcher {
    fileprivate var pendingRequests: [RecordedRequest] {
        requests.ids.compactMap { id in
            guard let facts = requests[id] else { return nil }
            let name = ledger.keptName(of: id)
            switch facts.place {
            case .waiting, .delayed:
                return RecordedRequest(id: id, type: facts.type, name: name, session: nil, number: 0)
            case .onLink(let session, .response(let number)):
                return RecordedRequest(id: id, type: facts.type, name: name, session: session, number: number)
            case .onLink(_, .written): return nil
            }
        }
    }
}
