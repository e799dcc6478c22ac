import TrunklineCore

/// One connection to one address.
///
/// Unchecked `Sendable`: everything but the constants is accessed only on the event loop.
final class ProbedLink: TransportHandler, @unchecked Sendable {
    let address: SocketAddress
    let loop: any EventLoop
    /// When the attempt began.
    let begun: Instant
    /// When the socket was connected.
    private(set) var connected: Instant?
    /// When the link was usable: with TLS, when the TLS handshake was complete.
    private(set) var usable: Instant?
    /// Why the link did not become usable.
    private(set) var failure: TransportError?
    /// What the TLS handshake agreed on, with the certificates.
    private(set) var session: TLSSession?
    /// Why the certificate chain is not valid. The link is usable nevertheless.
    private(set) var distrust: TransportError?
    private(set) var transport: (any Transport)?
    /// What is sent and received once the link is usable.
    var exchange = ProbeExchange()
    /// How the link is secured; `nil` in plaintext.
    private(set) var security: ProbeSecurity?
    private let onSettled: @Sendable (ProbedLink) -> Void

    /// Creates a link that calls `onSettled` on the loop, once, when it is usable or has failed.
    init(to address: SocketAddress, on loop: any EventLoop, onSettled: @escaping @Sendable (ProbedLink) -> Void) {
        self.address = address
        self.loop = loop
        self.onSettled = onSettled
        begun = loop.now
    }

    /// Whether the link is usable or has failed.
    var isSettled: Bool { usable != nil || failure != nil }

    /// Begins to connect.
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

    /// Ends an attempt that has taken too long.
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
