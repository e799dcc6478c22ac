import TrunklineCore

/// One connection to one address.
///
/// Unchecked `Sendable`: everything but the constants is accessed only on the event loop.
final class ProbedLink: TransportHandler, @unchecked Sendable {
    let address: SocketAddress
    let loop: any EventLoop
    let begun: Instant
    private(set) var connected: Instant?
    /// With TLS, when the TLS handshake was complete.
    private(set) var usable: Instant?
    private(set) var failure: TransportError?
    private(set) var session: TLSSession?
    /// Why the certificate chain is not valid. The link is usable nevertheless.
    private(set) var distrust: TransportError?
    private(set) var transport: (any Transport)?
    var exchange = ProbeExchange()
    private(set) var security: ProbeSecurity?
    private let onSettled: @Sendable (ProbedLink) -> Void

    /// `onSettled` is called on the loop, once, when the link is usable or has failed.
    init(to address: SocketAddress, on loop: any EventLoop, onSettled: @escaping @Sendable (ProbedLink) -> Void) {
        self.address = address
        self.loop = loop
        self.onSettled = onSettled
        begun = loop.now
    }

    var isSettled: Bool { usable != nil || failure != nil }

    func connect(_ security: ProbeSecurity?) {
        self.security = security
        guard let security else {
            transport = loop.connect(to: address, options: SocketOptions(), handler: self)
            return
        }
        do throws(TransportError) {
            let engine = try security.context.makeEngine(for: security.name)
            transport = SecuredTransport(engine, on: loop, handler: self) { [loop, address] handler in
                loop.connect(to: address, options: SocketOptions(), handler: handler)
            }
        } catch {
            loop.schedule(LoopClosure { [weak self] in self?.fail(error) })
        }
    }

    func transport(_ id: UInt64, did event: TransportEvent) {
        switch event {
        case .securing, .connected:
            if usable == nil, transport?.isSelfConnected == true { return failAsSelfConnected() }
        default: break
        }
        switch event {
        case .securing, .opening: connected = loop.now
        case .connected:
            let now = loop.now
            if connected == nil { connected = now }
            usable = now
            if let secured = transport as? SecuredTransport {
                session = secured.session
                distrust = secured.verificationFailure
            }
            onSettled(self)
        case .connectFailed(let error): fail(error)
        case .readable: readAll()
        case .writable: flush()
        }
    }

    func timeOut(after timeout: Duration) {
        let what = connected == nil ? "no answer from" : "TLS handshake not completed with"
        fail(TransportError(.timedOut, "connecting to \(address): \(what) the server within \(timeout.text)"))
    }

    private func failAsSelfConnected() {
        transport?.reset()
        fail(.selfConnected(address))
    }

    private func fail(_ error: TransportError) {
        guard !isSettled else { return }
        failure = error
        close()
        onSettled(self)
    }

    func close() {
        transport?.close()
        transport = nil
    }
}
