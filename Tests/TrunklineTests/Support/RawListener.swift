import Trunkline

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A listening socket that accepts only on request, at 127.0.0.1 or another IPv4 loopback address.
final class RawListener {
    private let descriptor: Int32
    private var others: [Int32] = []
    let port: UInt16

    /// `backlog` connections, or one more, wait to be accepted. Further ones are not answered.
    init(host: [UInt8] = [127, 0, 0, 1], port: UInt16 = 0, backlog: Int32 = 16) throws(TransportError) {
        #if os(Linux)
            descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        var address = Self.address(host, port)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let code = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                guard unsafe bind(descriptor, $0, length) == 0, listen(descriptor, backlog) == 0 else { return errno }
                return unsafe getsockname(descriptor, $0, &length) == 0 ? 0 : errno
            }
        }
        self.port = UInt16(bigEndian: address.sin_port)
        guard code == 0 else { throw TransportError(.system, errno: code, "listening on \(host)") }
    }

    deinit {
        for descriptor in others + [descriptor] { _ = close(descriptor) }
    }

    private static func address(_ host: [UInt8], _ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        unsafe withUnsafeMutableBytes(of: &address.sin_addr) { unsafe $0.copyBytes(from: host) }
        return address
    }

    /// Waits for the next connection, accepts it and returns the address of its client.
    func accept() -> [UInt8] {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let accepted = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe systemAccept(descriptor, $0, &length)
            }
        }
        others.append(accepted)
        return unsafe withUnsafeBytes(of: address.sin_addr) { unsafe Array($0) }
    }

    /// Fills the backlog with connections that are never accepted, so that no further one is answered.
    func fill(_ host: [UInt8] = [127, 0, 0, 1], count: Int = 4) {
        for _ in 0..<count {
            #if os(Linux)
                let other = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
            #else
                let other = socket(AF_INET, SOCK_STREAM, 0)
                _ = fcntl(other, F_SETFL, O_NONBLOCK)
            #endif
            var address = Self.address(host, port)
            unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    _ = unsafe connect(other, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            others.append(other)
        }
    }
}

/// `accept(2)`, which a method of the same name hides.
private func systemAccept(
    _ descriptor: Int32,
    _ address: UnsafeMutablePointer<sockaddr>,
    _ length: UnsafeMutablePointer<socklen_t>
) -> Int32 {
    unsafe accept(descriptor, address, length)
}

/// Waits for a millisecond, so that other threads can run.
func sleepShortly() { usleep(1000) }
