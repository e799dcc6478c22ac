/// One message for each way in which a client, a connection, a handshake or a link ends. "is closed" is for a call that
/// came too late, "was closed" for a call that waited.
extension ClientError {
    static var clientIsClosed: ClientError { ClientError(.closed, .notSent, "the client is closed") }

    static func clientWasClosed(_ fate: Fate) -> ClientError { ClientError(.closed, fate, "the client was closed") }

    static func clientWasDeallocated(_ fate: Fate) -> ClientError {
        ClientError(.closed, fate, "the client was deallocated without close()")
    }

    static var connectionIsClosed: ClientError { ClientError(.closed, .notSent, "the connection is closed") }

    static func connectionWasClosed(_ fate: Fate) -> ClientError {
        ClientError(.closed, fate, "the connection was closed")
    }

    static var replyEnded: ClientError {
        ClientError(.closed, .notSent, "the reply has ended, so nothing more can be sent for its request")
    }

    static var handshakeIsOver: ClientError { ClientError(.closed, .notSent, "the handshake is over") }

    static func lostDuringHandshake(_ cause: any Error, _ fate: Fate) -> ClientError {
        ClientError(.connectionLost, fate, "the link ended during the handshake", cause: cause)
    }

    package static var cancelledUnsent: ClientError {
        ClientError(.cancelled, .notSent, "cancelled before the request was sent")
    }

    static var answeredWhenPosted: ClientError {
        ClientError(.invalidRequest, .notSent, "the server answers this message, so it cannot be posted: use send")
    }

    package static func expiredUnsent(_ timeout: Duration) -> ClientError {
        ClientError(.timedOut, .notSent, "timeout must be positive, not \(timeout)")
    }

    /// `code` is `tlsFailed` if the server refused the client.
    static func lostBeforeResponse(
        _ code: Code,
        _ fate: Fate,
        _ endpoint: Endpoint?,
        _ cause: (any Error)?
    ) -> ClientError {
        ClientError(code, fate, "the link was lost before the response arrived", endpoint: endpoint, cause: cause)
    }

    package static let mayNotWaitMessage = "not connected, and waitsForReady is false"

    static func tlsUnusable(_ cause: TransportError) -> ClientError {
        ClientError(.tlsFailed, .notSent, "TLS cannot be used", cause: cause)
    }
}
