#if os(Linux)
    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// `struct sockaddr_nl`.
    private struct NetlinkAddress {
        var family = UInt16(AF_NETLINK)
        var padding: UInt16 = 0
        var port: UInt32 = 0
        var groups: UInt32 = 0
    }

    /// `groups` has one bit per group. Returns the negative error number on failure.
    @Sendable
    func openNetlinkSocket(_ groups: UInt32) -> Int32 {
        let type = Int32(SOCK_RAW.rawValue) | Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_NETLINK, type, 0)
        guard descriptor >= 0 else { return -errno }
        let code = unsafe withUnsafePointer(to: NetlinkAddress(groups: groups)) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(descriptor, $0, socklen_t(MemoryLayout<NetlinkAddress>.size)) == 0 ? 0 : errno
            }
        }
        guard code != 0 else { return descriptor }
        closeDescriptor(descriptor)
        return -code
    }

    /// Returns the size, 0 if the datagram is not from the kernel, or the negative error number.
    func receiveNetlink(_ descriptor: Int32, into memory: inout [UInt8]) -> Int {
        var sender = NetlinkAddress(family: 0)
        var length = socklen_t(MemoryLayout<NetlinkAddress>.size)
        let count = unsafe withUnsafeMutablePointer(to: &sender) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe memory.withUnsafeMutableBytes {
                    let count = unsafe recvfrom(descriptor, $0.baseAddress, $0.count, 0, address, &length)
                    return count < 0 ? -Int(errno) : count
                }
            }
        }
        guard count > 0 else { return count }
        return length == MemoryLayout<NetlinkAddress>.size && sender.family == AF_NETLINK && sender.port == 0
            ? count : 0
    }
#endif
