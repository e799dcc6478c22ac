import TrunklineCore
import TrunklineIO

/// TLS that begins in mid-connection, because the greeting has asked the server for it.
extension Connection {
    /// Goes on with TLS on the link of `session`, with what was read for it; success has an empty frame.
    func startTLS(_ session: UInt64, _ prepared: Result<Security, TransportError>) async -> Outcome {
        switch prepared {
        case .success(let prepared): security = prepared
        case .failure(let error):
            if greeting?.session == session { greetingFailed(session, error) }
            return .failure(ClientError(.tlsFailed, .notSent, "TLS cannot be used", cause: error))
        }
        return await withTaskCancellationHandler {
            await withSuspension { suspension in
                if let refusal = beginUpgrade(session, suspension) { suspension.resume(returning: .failure(refusal)) }
            }
        } onCancel: {
            giveUpGreeting(session)
        }
    }

    /// Puts TLS between the link and its socket; `suspension` hears how that ends, unless it returns why it does not begin.
    private func beginUpgrade(_ session: UInt64, _ suspension: Suspension<Outcome>) -> ClientError? {
        // Pongs, which else go out at the end of the turn.
        if greeting?.session == session, greeting?.outbound.isEmpty == false { flushGreeting() }
        guard let greeting, greeting.session == session, let link else {
            return ClientError(.closed, .notSent, "the greeting is over")
        }
        if let loss = greeting.loss { return .lostWhileGreeting(loss, .notSent) }
        guard !Task.isCancelled else { return .cancelledUnsent }
        guard greeting.requests.isEmpty, greeting.outbound.isEmpty, !(link.transport is SecuredTransport) else {
            let message = "TLS begins once, and not while a request of the greeting is under way"
            return ClientError(.invalidRequest, .notSent, message)
        }
        guard link.received.isEmpty, greeting.inbox.isEmpty, !greeting.hasStray else {
            let violation = FrameError.plaintextBehindAgreement
            greetingFailed(session, violation)
            return ClientError(.protocolViolation, .notSent, "the server broke the protocol", cause: violation)
        }
        do throws(TransportError) {
            let engine = try makeEngine(for: link.endpoint)
            let transport = SecuredTransport(engine, on: loop, handler: self, over: link.transport)
            self.greeting?.securing = suspension
            self.link?.transport = transport
            updateReading()
            return nil
        } catch {
            greetingFailed(session, error)
            return ClientError(.tlsFailed, .notSent, "TLS cannot be used", cause: error)
        }
    }

    func upgraded() {
        let waiter = greeting?.securing
        greeting?.securing = nil
        waiter?.resume(returning: .success(Frame(.response)))
    }

    func upgradeFailed(_ error: TransportError) {
        guard let session = greeting?.session else { return }
        greetingFailed(session, error.code == .tls(.notTLS) ? FrameError.plaintextBehindAgreement : error)
    }
}

extension FrameError {
    fileprivate static var plaintextBehindAgreement: FrameError {
        FrameError(.unexpectedBytes, "there were bytes in plaintext where TLS was to begin")
    }
}
