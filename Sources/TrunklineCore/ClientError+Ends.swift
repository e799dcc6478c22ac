/// The errors of calls that fail because a client, a connection, a handshake or a link has ended: one message for each
/// reason, wherever it is noticed.
///
/// "is closed" is for a call that came too late, "was closed" for a call that waited.
extension ClientError {
    // MARK: Clients and connections

    /// The call came after the client began to close.
    static var clientIsClosed: ClientError { ClientError(.closed, .notSent, "the client is closed") }

    /// The request had not ended when the client was closed.
    static func clientWasClosed(_ fate: Fate) -> ClientError { ClientError(.closed, fate, "the client was closed") }

    /// The request had not ended when the last reference to the client went away.
    static func clientWasDeallocated(_ fate: Fate) -> ClientError {
        ClientError(.closed, fate, "the client was deallocated without close()")
    }

    /// The call came after a connection without a client began to close.
    static var connectionIsClosed: ClientError { ClientError(.closed, .notSent, "the connection is closed") }

    /// The frame was not written, or not as a whole, when its connection was closed.
    static func connectionWasClosed(_ fate: Fate) -> ClientError {
        ClientError(.closed, fate, "the connection was closed")
    }

    // MARK: Requests and handshakes

    /// The call came after the reply of its ``OpenRequest`` had ended.
    static var replyEnded: ClientError {
        ClientError(.closed, .notSent, "the reply has ended, so nothing more can be sent for its request")
    }

    /// The call came after the handshake had returned or its attempt had ended.
    static var handshakeIsOver: ClientError { ClientError(.closed, .notSent, "the handshake is over") }

    /// The request of the handshake had not ended when its link was lost.
    static func lostDuringHandshake(_ cause: any Error, _ fate: Fate) -> ClientError {
        ClientError(.connectionLost, fate, "the link ended during the handshake", cause: cause)
    }

    // MARK: Calls that did not begin

    package static var cancelledUnsent: ClientError {
        ClientError(.cancelled, .notSent, "cancelled before the request was sent")
    }

    static var answeredWhenPosted: ClientError {
        ClientError(.invalidRequest, .notSent, "the server answers this message, so it cannot be posted: use send")
    }

    package static func expiredUnsent(_ timeout: Duration) -> ClientError {
        ClientError(.timedOut, .notSent, "timeout must be positive, not \(timeout)")
    }

    // MARK: Links

    /// The request had started on a link that was lost. `code` is `tlsFailed` if the server refused the client.
    static func lostBeforeResponse(
        _ code: Code,
        _ fate: Fate,
        _ endpoint: Endpoint?,
        _ cause: (any Error)?
    ) -> ClientError {
        ClientError(code, fate, "the link was lost before the response arrived", endpoint: endpoint, cause: cause)
    }

    /// The message of `unavailable` for a request that may not wait for a link.
    package static let mayNotWaitMessage = "not connected, and waitsForReady is false"

    /// TLS cannot begin on an established link.
    static func tlsUnusable(_ cause: TransportError) -> ClientError {
        ClientError(.tlsFailed, .notSent, "TLS cannot be used", cause: cause)
    }
}
