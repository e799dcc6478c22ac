import TrunklineCore
import TrunklineIO

/// Failures on the loop: which of them end a request.
extension Client {
    /// A request has left by a failure: it is tried again, or its caller is told.
    func fail(_ ticket: Ticket, _ waiter: Waiter, _ error: ClientError) {
        if exchange.retry(ticket, waiter, after: error, at: loop.now) { return }
        waiter.resume(.failure(error))
        endFollowUps(of: ticket, error)
    }

    /// Why a request with these terms may not be taken in; `nil` when it may.
    func refusal(_ terms: Terms) -> ClientError? {
        if terms.endsWithItsLink { exchange.hasLinkbound = true }
        if let session = terms.session, session != self.session || !exchange.isReady {
            return ClientError(.connectionLost, .notSent, "the link on which the push was received is gone")
        }
        guard !terms.waitsForReady, !exchange.isReady else { return nil }
        // It does not wait, but the next one will be better off.
        ownedConnection.want()
        return unsentError(.unavailable, "the call does not wait for a link")
    }

    /// The link is gone: ends those that were queued for it, not sent, and do not wait for the next one.
    func endLinkbound(_ endpoint: Endpoint?, _ cause: any Error, where isMeant: (Terms) -> Bool = { _ in true }) {
        let tickets = exchange.linkbound(where: isMeant)
        guard !tickets.isEmpty else { return }
        flushOutgoing()
        let message = "the link was lost before the request was written"
        let error = ClientError(.connectionLost, .notSent, message, endpoint: endpoint, cause: cause)
        for ticket in tickets {
            guard
                case .notSent(let waiter, let position) = exchange.cancel(
                    ticket,
                    now: loop.now,
                    hasStarted: { _ in false }
                )
            else { continue }
            if position != 0 { connection.assumeIsolated { _ = $0.outbound.remove(position) } }
            waiter.resume(.failure(error))
            endFollowUps(of: ticket, error)
        }
    }

    /// Lets those go on whose back-off is over.
    func endRests(at now: Instant) {
        let rested = exchange.takeRested(at: now)
        guard !rested.isEmpty else { return }
        for ticket in rested where !exchange.tryAgain(ticket) {
            cancel(ticket, .unavailable, "the call does not wait for a link")
        }
        ownedConnection.want()
    }
}
