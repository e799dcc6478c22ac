#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Holds a port without listening: connections to it are refused, and no other process gets it. Deallocate it just
/// before listening on the port again.
package final class PortReservation: Sendable {
    private let descriptor: Int32

    /// Reserves the port of `address`. Returns `nil` if another process has taken it, or if the address has no port.
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
