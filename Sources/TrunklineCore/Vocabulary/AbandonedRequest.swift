/// A request that was abandoned while the server may work on it: the argument of
/// ``ClientOptions/Requests/cancelling``.
public struct AbandonedRequest: Sendable {
    /// The request as it was sent, after the interceptors.
    public let request: Request
    /// The number by which events, logs and interceptors name the request.
    public let id: RequestID
    /// The serial number of the request on its link; 0 in protocols without serials. The client does not reuse it
    /// before the closure has returned.
    public let serial: SerialNumber
    /// The endpoint of the link on which the request was sent.
    public let endpoint: Endpoint
    /// The address to which the link is connected, such as `192.0.2.7:5432`; `nil` for a Unix domain socket. If the
    /// name of the endpoint has several addresses, they may belong to several servers: connect to this one.
    public let address: String?
    /// The number of the link on which the request was sent.
    public let session: SessionID
    /// Whether the deadline of the request has passed. If false, its caller has cancelled it, or its reply has exceeded
    /// a limit.
    public let isTimedOut: Bool
    let info: (any Sendable)?

    /// Returns the value that the handshake of the request's link stored with ``Handshaker/setServerInfo(_:)``, or
    /// `nil` if it stored none, or a value of another type. A later link does not change it.
    public func serverInfo<Info: Sendable>(as type: Info.Type) -> Info? { info as? Info }
}

extension AbandonedRequest: CustomStringConvertible, CustomReflectable {
    /// The type, the ID and the link of the request.
    public var description: String {
        "request \(id) of type \(hexadecimal(request.type)) on link \(session) to \(endpoint)"
    }

    /// Empty: what the handshake has stored may be a secret.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
