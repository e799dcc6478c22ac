#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

#if os(Linux)
    private let keepIdle = Int32(TCP_KEEPIDLE)
#else
    private let keepIdle = Int32(TCP_KEEPALIVE)
#endif
private let tcp = Int32(IPPROTO_TCP)

/// If the system rejects an option, its value stays unchanged: no option is worth failing a connection.
func apply(_ options: SocketOptions, to descriptor: Int32, for address: SocketAddress) {
    guard address.family != nil else { return }
    setOption(descriptor, tcp, Int32(TCP_NODELAY), options.noDelay ? 1 : 0)
    setOption(descriptor, tcp, Int32(TCP_NOTSENT_LOWAT), Int32(clamping: options.unsentLimit))
    setOption(descriptor, SOL_SOCKET, SO_KEEPALIVE, options.keepAlive == nil ? 0 : 1)
    if let keepAlive = options.keepAlive {
        setOption(descriptor, tcp, keepIdle, whole(keepAlive.idle, .seconds(1), atMost: 32_767))
        setOption(descriptor, tcp, Int32(TCP_KEEPINTVL), whole(keepAlive.interval, .seconds(1), atMost: 32_767))
        setOption(descriptor, tcp, Int32(TCP_KEEPCNT), Int32(min(max(keepAlive.count, 1), 127)))
    }
    #if os(Linux)
        if let userTimeout = options.userTimeout {
            setOption(descriptor, tcp, Int32(TCP_USER_TIMEOUT), whole(userTimeout, .milliseconds(1), atMost: .max))
        }
    #endif
}

/// Rounded up: zero would mean the system's default, or be rejected.
private func whole(_ duration: Duration, _ unit: Duration, atMost limit: Int32) -> Int32 {
    let (nanoseconds, size) = (duration.clampedNanoseconds, unit.clampedNanoseconds)
    let count = nanoseconds / size + (nanoseconds % size > 0 ? 1 : 0)
    return Int32(min(max(count, 1), Int64(limit)))
}

func bindSource(_ descriptor: Int32, to source: SocketAddress, doing: String) -> TransportError? {
    #if os(Linux)
        // The port is chosen once the destination is known. Otherwise all connections from `source` share 28,000 ports.
        setOption(descriptor, Int32(IPPROTO_IP), Int32(IP_BIND_ADDRESS_NO_PORT), 1)
    #endif
    let code = unsafe withSockaddr(source.with(port: 0)) { pointer, length in
        unsafe bind(descriptor, pointer, length) == 0 ? 0 : errno
    }
    guard code != 0 else { return nil }
    let reason =
        switch code {
        case nil: "invalid address"
        case EADDRNOTAVAIL?: "this host does not have this address, which is options.connecting.sourceAddress"
        case let code?: systemMessage(code)
        }
    return TransportError(.invalidAddress, errno: code ?? 0, "\(doing) from \(source): \(reason)")
}

func readSocketOptions(_ descriptor: Int32) -> SocketOptions {
    var options = SocketOptions()
    options.noDelay = option(descriptor, tcp, Int32(TCP_NODELAY)) != 0
    options.unsentLimit = Int(option(descriptor, tcp, Int32(TCP_NOTSENT_LOWAT)))
    options.keepAlive = nil
    if option(descriptor, SOL_SOCKET, SO_KEEPALIVE) != 0 {
        options.keepAlive = KeepAliveOptions(
            idle: .seconds(option(descriptor, tcp, keepIdle)),
            interval: .seconds(option(descriptor, tcp, Int32(TCP_KEEPINTVL))),
            count: Int(option(descriptor, tcp, Int32(TCP_KEEPCNT)))
        )
    }
    #if os(Linux)
        let milliseconds = option(descriptor, tcp, Int32(TCP_USER_TIMEOUT))
        options.userTimeout = milliseconds == 0 ? nil : .milliseconds(milliseconds)
    #endif
    options.sourceAddress = localAddress(descriptor)
    return options
}

func readTCPInformation(_ descriptor: Int32) -> TCPInformation? {
    #if os(Linux)
        // `struct tcp_info` of linux/tcp.h in 32-bit words: that of the C library ends before `tcpi_notsent_bytes`.
        var words = [UInt32](repeating: 0, count: 58)
        var length = socklen_t(words.count * MemoryLayout<UInt32>.stride)
        let code = unsafe words.withUnsafeMutableBytes {
            unsafe getsockopt(descriptor, tcp, Int32(TCP_INFO), $0.baseAddress, &length)
        }
        guard code == 0, length >= 104 else { return nil }
        return TCPInformation(
            smoothedRoundTripTime: .microseconds(words[17]),
            roundTripTimeVariation: .microseconds(words[18]),
            retransmissions: Int(words[25]),
            unacknowledgedSegments: Int(words[6]),
            congestionWindow: Int(words[20]),
            unsentBytes: length >= 148 ? Int(words[36]) : nil,
            sendWindow: length >= 232 ? Int(words[57]) : nil,
            subflows: subflows(of: descriptor)
        )
    #else
        return nil
    #endif
}

/// `nil` without Multipath TCP, and if the connection has fallen back to TCP.
private func subflows(of descriptor: Int32) -> Int? {
    #if os(Linux)
        // `struct mptcp_info` of linux/mptcp.h begins with the number of subflows in addition to the first.
        var information = [UInt8](repeating: 0, count: 256)
        var length = socklen_t(information.count)
        let code = unsafe information.withUnsafeMutableBytes {
            unsafe getsockopt(descriptor, 284, 1, $0.baseAddress, &length)  // SOL_MPTCP, MPTCP_INFO
        }
        return code == 0 && length > 0 ? 1 + Int(information[0]) : nil
    #else
        return nil
    #endif
}

private func option(_ descriptor: Int32, _ level: Int32, _ name: Int32) -> Int32 {
    var value: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    unsafe getsockopt(descriptor, level, name, &value, &length)
    return value
}
