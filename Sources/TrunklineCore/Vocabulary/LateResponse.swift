/// A response to a request that was cancelled or timed out before it arrived.
public struct LateResponse: Sendable {
    /// The number of the request, as in ``ClientEvent`` and in the timeline of its error.
    public let id: RequestID
    /// The type number of the request.
    public let requestType: UInt32
    /// The response. If the request was answered with an error, ``isErrorResponse`` is true.
    public let response: Response
    /// Whether the server has rejected the request.
    public var isErrorResponse: Bool { response.frame.isErrorResponse }
    /// Why the server has rejected the request, in its own words; `nil` if it has not, or if the codec does not say.
    public var reason: ServerReason? { response.frame.reason }
    /// The link on which it was received, as in ``ConnectionState/ready(_:session:)``.
    public let session: SessionID
    /// The server.
    public let endpoint: Endpoint
}
