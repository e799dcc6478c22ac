#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The only owner of its descriptor.
///
/// Safe to share between threads: apart from `deinit`, it is used only on its loop.
final class SocketListener: Listener, WatchedSocket, TimerTarget, @unchecked Sendable {
    let id: UInt64
    let address: SocketAddress
    private let loop: SocketEventLoop
    private weak var handler: (any ListenerHandler)?
    private var descriptor: Int32
    private let accept: (Int32) -> Int32
    private lazy var timer = LoopTimer(target: self)
    private let pause: Duration

    init(
        id: UInt64,
        loop: SocketEventLoop,
        address: SocketAddress,
        handler: any ListenerHandler,
        pause: Duration = .milliseconds(100),
        accepting accept: @escaping (Int32) -> Int32 = acceptSocket
    ) throws(TransportError) {
        let doing = "listening on \(address)"
        let descriptor = openSocket(for: address)
        guard descriptor >= 0 else { throw addressError(errno, doing) }
        setOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
        let code = unsafe withSockaddr(address) { pointer, length in
            unsafe bind(descriptor, pointer, length) == 0 && listen(descriptor, 1024) == 0 ? 0 : errno
        }
        guard code == 0 else {
            closeDescriptor(descriptor)
            guard let code else { throw TransportError(.invalidAddress, "\(doing): \(unwritable)") }
            throw addressError(code, doing)
        }
        self.id = id
        self.loop = loop
        self.handler = handler
        self.pause = pause
        self.accept = accept
        self.descriptor = descriptor
        self.address = localAddress(descriptor) ?? address
        loop.watch(descriptor, id: id, reading: true, writing: false)
    }

    deinit { close() }

    func close() {
        guard descriptor >= 0 else { return }
        // Otherwise nothing else could listen at this path.
        if case .unix(let path) = address { _ = unsafe unlink(path) }
        loop.release(descriptor, id: id)
        descriptor = -1
    }

    func closeKeepingPort() -> PortReservation? {
        close()
        return PortReservation(address)
    }

    func isReady(_ readiness: Readiness) {
        // Bounded, so that a storm of connections does not keep the loop from its existing sockets.
        for _ in 0..<64 {
            guard descriptor >= 0, let owner = self.handler else { return }
            let accepted = accept(descriptor)
            if accepted < 0 {
                let code = errno
                switch code {
                case EAGAIN, EWOULDBLOCK: return  // nothing waiting
                case EINTR, ECONNABORTED: continue  // the peer closed it already
                case _ where isOfConnection(code): continue
                // No descriptor or no memory. The socket stays readable: without a pause the loop would spin.
                default: return rest()
                }
            }
            apply(SocketOptions(), to: accepted, for: address)
            let transport = SocketTransport(id: loop.newID(), loop: loop, accepted: accepted)
            loop.register(transport, id: transport.id)
            // Ownership passes to the handler: only a weak reference, used on the loop, stays here.
            let registered = Handover(transport)
            let handler = owner.accepted(unsafe registered.transport)
            unsafe registered.transport.handler = handler
        }
    }
}

/// Linux reports errors of the accepted connection. The next one may be usable.
private func isOfConnection(_ code: Int32) -> Bool {
    #if os(Linux)
        if code == ENONET { return true }
    #endif
    let codes = [EPROTO, ENOPROTOOPT, EOPNOTSUPP, ENETDOWN, ENETUNREACH, EHOSTDOWN, EHOSTUNREACH]
    return codes.contains(code)
}

extension SocketListener {
    private func rest() {
        loop.watch(descriptor, id: id, reading: false, writing: false)
        loop.arm(timer, at: loop.now.advanced(by: pause))
    }

    func timerFired() {
        if descriptor >= 0 { loop.watch(descriptor, id: id, reading: true, writing: false) }
    }

    func watchFailed(_ code: Int32) {
        if descriptor >= 0 { rest() }
    }
}

private struct Handover {
    /// Created and used only on the loop.
    nonisolated(unsafe) let transport: SocketTransport
    init(_ transport: SocketTransport) { unsafe self.transport = transport }
}
