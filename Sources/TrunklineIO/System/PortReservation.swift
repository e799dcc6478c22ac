#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Holds a port without listening. Deallocate it just before listening on the port again.
package final class PortReservation: Sendable {
    private let descriptor: Int32

    init?(_ address: SocketAddress) {
        if address.family == nil { return nil }
        let descriptor = openSocket(for: address)
        guard descriptor >= 0 else { return nil }
        setOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
        let isBound = unsafe withSockaddr(address) { pointer, length in unsafe bind(descriptor, pointer, length) == 0 }
        guard isBound == true else {
            closeDescriptor(descriptor)
            return nil
        }
        self.descriptor = descriptor
    }

    deinit { closeDescriptor(descriptor) }
}
