#if os(Linux)
    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// The kernel answers within the system call, so nothing waits. The only owner of its socket.
    final class NetlinkRequests {
        enum Answer {
            case message(NetlinkMessage)
            case refused(Int32)
            case missing(Int32)
        }

        private let descriptor: Int32
        private var sequence: UInt32 = 0
        private var memory = [UInt8](repeating: 0, count: 16 * 1024)

        /// Takes ownership of a socket in no groups. Throws if requests are not answered.
        init(_ descriptor: Int32) throws(NetlinkFailure) {
            self.descriptor = descriptor
            switch route(to: .loopback(port: 1), from: nil) {
            case .message: break
            // The loopback itself may be down.
            case .refused(ENETUNREACH), .refused(EHOSTUNREACH), .refused(ENETDOWN): break
            case .refused(let code), .missing(let code): throw NetlinkFailure(code: code)
            }
        }

        deinit { closeDescriptor(descriptor) }

        func route(to address: SocketAddress, from source: SocketAddress?, findsEntry: Bool = false) -> Answer {
            sequence &+= 1
            let request = NetlinkRequest.route(to: address, from: source, findsEntry: findsEntry, sequence: sequence)
            guard let request else { return .refused(EINVAL) }
            return answer(to: request)
        }

        func link(_ index: UInt32) -> NetlinkLink? {
            sequence &+= 1
            guard case .message(let message) = answer(to: NetlinkRequest.link(index, sequence: sequence)) else {
                return nil
            }
            return NetlinkLink(message)
        }

        private func answer(to request: [UInt8]) -> Answer {
            var code: Int32
            repeat {
                code =
                    unsafe request.withUnsafeBytes { unsafe send(descriptor, $0.baseAddress, $0.count, 0) } < 0
                    ? errno : 0
            } while code == EINTR
            guard code == 0 else { return .missing(code) }
            // Skips late answers to earlier requests.
            for _ in 0..<16 {
                let count = receiveNetlink(descriptor, into: &memory)
                if count < 0 {
                    guard count == -Int(EINTR) else { return .missing(Int32(-count)) }
                    continue
                }
                for message in NetlinkMessages(memory.prefix(count)) where message.sequence == sequence {
                    if let code = message.errorNumber { return .refused(code) }
                    return .message(message)
                }
            }
            return .missing(EAGAIN)
        }
    }

    struct NetlinkFailure: Error {
        let code: Int32

        var isTemporary: Bool { [EMFILE, ENFILE, ENOMEM, ENOBUFS].contains(code) }

        var message: String {
            let names: [Int32: String] = [
                EPERM: "EPERM", EACCES: "EACCES", EAFNOSUPPORT: "EAFNOSUPPORT", EPROTONOSUPPORT: "EPROTONOSUPPORT",
                EOPNOTSUPP: "EOPNOTSUPP", EINVAL: "EINVAL", ENOSYS: "ENOSYS", EMFILE: "EMFILE", ENFILE: "ENFILE",
                ENOMEM: "ENOMEM", ENOBUFS: "ENOBUFS", EAGAIN: "EAGAIN",
            ]
            let name = names[code] ?? "error \(code)"
            return "trunkline: network changes are not monitored: netlink: \(systemMessage(code)) (\(name))\n"
        }
    }
#endif
