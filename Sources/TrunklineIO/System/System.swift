// The differences between platforms: every function here exists on all of them.

#if os(Linux)
    import CTrunkline
#endif

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

package func processorCount() -> Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

func closeDescriptor(_ descriptor: Int32) { _ = close(descriptor) }

func nanoseconds(of time: timespec) -> Int64 {
    #if os(Linux)
        trunkline_nanoseconds(time)
    #else
        Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    #endif
}

private func nanoseconds(of clock: clockid_t) -> Int64 {
    #if os(Linux)
        return trunkline_clock(clock)
    #else
        var time = timespec()
        unsafe clock_gettime(clock, &time)
        return nanoseconds(of: time)
    #endif
}

/// Runs while the machine sleeps.
func monotonicNow() -> Instant {
    #if os(Linux)
        Instant(nanoseconds: nanoseconds(of: CLOCK_BOOTTIME))
    #else
        Instant(nanoseconds: nanoseconds(of: CLOCK_MONOTONIC))
    #endif
}

/// Stops while the machine sleeps.
func awakeNow() -> Instant {
    #if os(Linux)
        Instant(nanoseconds: nanoseconds(of: CLOCK_MONOTONIC))
    #else
        Instant(nanoseconds: nanoseconds(of: CLOCK_UPTIME_RAW))
    #endif
}

func threadProcessorNanoseconds() -> Int64 { nanoseconds(of: CLOCK_THREAD_CPUTIME_ID) }

func processProcessorNanoseconds() -> Int64 { nanoseconds(of: CLOCK_PROCESS_CPUTIME_ID) }

package func wallClockSeconds() -> Int { time(nil) }

/// Since 1970. The clock may jump.
package func wallClockNanoseconds() -> Int64 { nanoseconds(of: CLOCK_REALTIME) }

/// Unbuffered: visible even if the next step ends the process. SIGPIPE must not end the program of the user.
package func writeToStandardError(_ text: String, descriptor: Int32 = 2) {
    withoutPipeSignal {
        _ = unsafe Array(text.utf8).withUnsafeBytes { bytes in
            unsafe writeFully(bytes) { rest, _ in unsafe write(descriptor, rest.baseAddress, rest.count) }
        }
    }
}

/// The thread that writes receives SIGPIPE, so it is blocked there, and taken back before it is unblocked.
private func withoutPipeSignal(_ body: () -> Void) {
    var (signals, before, pending) = (sigset_t(), sigset_t(), sigset_t())
    unsafe sigemptyset(&signals)
    unsafe sigaddset(&signals, SIGPIPE)
    unsafe pthread_sigmask(SIG_BLOCK, &signals, &before)
    unsafe sigpending(&pending)
    let wasPending = unsafe sigismember(&pending, SIGPIPE) == 1
    body()
    unsafe sigpending(&pending)
    if !wasPending, unsafe sigismember(&pending, SIGPIPE) == 1 {
        var signal: Int32 = 0
        unsafe sigwait(&signals, &signal)
    }
    unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
}

package func currentThread() -> UInt {
    #if os(Linux)
        UInt(pthread_self())
    #else
        UInt(bitPattern: unsafe pthread_self())
    #endif
}

package func startThread(named name: String, _ body: @escaping @Sendable () -> Void) -> Int32 {
    final class Start {
        let name: String
        let body: @Sendable () -> Void
        init(_ name: String, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }
    let start = unsafe Unmanaged.passRetained(Start(String(name.prefix(15)), body)).toOpaque()
    #if os(Linux)
        var thread = pthread_t()
        let code = unsafe pthread_create(
            &thread,
            nil,
            { argument in
                guard let argument = unsafe argument else { return nil }
                let start = unsafe Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                unsafe trunkline_name_thread(start.name)
                start.body()
                return nil
            },
            start
        )
        if code == 0 { pthread_detach(thread) }
    #else
        var thread: pthread_t?
        let code = unsafe pthread_create(
            &thread,
            nil,
            { argument in
                let start = unsafe Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                unsafe pthread_setname_np(start.name)
                start.body()
                return nil
            },
            start
        )
        if code == 0, let thread = unsafe thread { unsafe pthread_detach(thread) }
    #endif
    if code != 0 { unsafe Unmanaged<Start>.fromOpaque(start).release() }
    return code
}

func yieldProcessor() { sched_yield() }

func systemMessage(_ code: Int32) -> String {
    guard let text = unsafe strerror(code) else { return "error \(code)" }
    let message = unsafe String(cString: text)
    switch code {
    case EMFILE:
        // Opening the directory that lists them needs a descriptor, and the error says that there are so many.
        guard let limit = descriptorLimit() else { return message }
        return "\(message): all \(limit) file descriptors that this process may have are open"
    case ENFILE: return "\(message): this host has no free file descriptor"
    default: return message
    }
}

private func descriptorLimit() -> UInt64? {
    var limit = rlimit()
    #if canImport(Glibc)
        let code = unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    #else
        let code = unsafe getrlimit(RLIMIT_NOFILE, &limit)
    #endif
    return code == 0 && limit.rlim_cur < UInt64(Int32.max) ? UInt64(limit.rlim_cur) : nil
}

/// `EMFILE` or `ENFILE` if no descriptor is free, for calls of the system that do not report it. May block shortly.
func descriptorShortage() -> Int32? {
    let descriptor = unsafe open("/dev/null", O_RDONLY | O_CLOEXEC)
    if descriptor >= 0 { closeDescriptor(descriptor) }
    let code = errno
    return descriptor < 0 && (code == EMFILE || code == ENFILE) ? code : nil
}

extension TransportError {
    var isDescriptorShortage: Bool { errno == EMFILE || errno == ENFILE }

    package var descriptorAdvice: String? {
        switch errno {
        case EMFILE:
            "raise the limit of this process (ulimit -n, or LimitNOFILE= of systemd), or find what opens descriptors and"
                + " does not close them (ls -l /proc/PID/fd)"
        case ENFILE:
            "raise fs.file-max of this host, or find the process that has its descriptors"
        default: nil
        }
    }
}

package func transportError(_ code: Int32, _ doing: String) -> TransportError {
    let kind: TransportError.Code =
        switch code {
        case ECONNREFUSED: .refused
        case EHOSTUNREACH, ENETUNREACH, ENETDOWN, EHOSTDOWN: .unreachable
        case ETIMEDOUT: .timedOut
        case ECONNRESET, EPIPE, ECONNABORTED: .reset
        default: .system
        }
    return TransportError(kind, errno: code, "\(doing): \(rejection(code) ?? systemMessage(code))")
}

/// The error of an ICMP message. The system's text, "no route to host", sends operators to the routes of this host.
private func rejection(_ code: Int32) -> String? {
    switch code {
    case EHOSTUNREACH:
        "a router or a firewall on the way reports that the host cannot be reached, or no host has this address in its network"
    case ENETUNREACH: "a router or a firewall on the way reports that the network cannot be reached"
    default: nil
    }
}

extension TransportError {
    /// Not `EHOSTUNREACH`: it may come from the network, because the server is down. Not `EADDRNOTAVAIL` if only a free
    /// local port is missing.
    package var saysNoRoute: Bool {
        errno == EAFNOSUPPORT || code == .unreachable && (errno == ENETUNREACH || errno == EADDRNOTAVAIL)
    }
}

/// For calls with an address, such as `socket`, `bind` and `connect`.
func addressError(_ code: Int32, _ doing: String) -> TransportError {
    var error = transportError(code, doing)
    if [EAFNOSUPPORT, EINVAL, ENAMETOOLONG, EPROTONOSUPPORT].contains(code) { error.code = .invalidAddress }
    return error
}

/// `isAtOnce`: the call itself failed, so this host has decided. A later error is an answer of another, or none came.
func connectError(
    _ code: Int32,
    _ address: SocketAddress,
    _ doing: String,
    isAtOnce: Bool = true
) -> TransportError {
    switch code {
    case ENETUNREACH where isAtOnce:
        return TransportError(.unreachable, errno: code, "\(doing): no route of this host leads to the address")
    case EHOSTUNREACH where isAtOnce:
        let reason = "this host rejects the address (a route of the type unreachable)"
        return TransportError(.unreachable, errno: code, "\(doing): \(reason)")
    case EACCES where isAtOnce && address.family != nil:
        let reason = "this host prohibits the address (a route of the type prohibit, a policy, or a broadcast address)"
        return TransportError(.system, errno: code, "\(doing): \(reason)")
    case EACCES where address.family != nil:  // ICMPv6, code 1
        let reason = "a firewall on the way prohibits the connection (administratively prohibited)"
        return TransportError(.unreachable, errno: code, "\(doing): \(reason)")
    case ENOENT:  // no socket file
        return TransportError(.refused, errno: code, "\(doing): \(systemMessage(code))")
    case ECONNRESET where address.isVirtual:  // what vsock says instead of ECONNREFUSED
        return TransportError(.refused, errno: code, "\(doing): no program listens on this port")
    case EADDRNOTAVAIL where SocketPath.hasSource(for: address):
        let reason = "no free local port: links and other connections to this address use every ephemeral port"
        return TransportError(.system, errno: code, "\(doing): \(reason)")
    case EADDRNOTAVAIL:
        let family = address.family.map { " \($0.name)" } ?? ""
        let reason = "this host has no\(family) address from which it could be reached"
        return TransportError(.unreachable, errno: code, "\(doing): \(reason)")
    default: return addressError(code, doing)
    }
}

extension SocketAddress {
    fileprivate var isVirtual: Bool { if case .vsock = self { true } else { false } }
}

extension TransportError {
    package static func selfConnected(_ address: SocketAddress) -> TransportError {
        let reason = "no server listens on this port: the connection reached the client's own socket"
        return TransportError(.refused, "connecting to \(address): \(reason)")
    }
}

// MARK: - Sockets

/// Returns a negative number and sets `errno` on failure. Falls back to TCP if the kernel has no Multipath TCP.
func openSocket(for address: SocketAddress, multipath: Bool = false) -> Int32 {
    #if os(Linux)
        if multipath, address.family != nil {
            let descriptor = openSocket(Int32(SOCK_STREAM.rawValue), for: address, protocol: 262)  // IPPROTO_MPTCP
            if descriptor >= 0 { return descriptor }
        }
        return openSocket(Int32(SOCK_STREAM.rawValue), for: address)
    #else
        openSocket(SOCK_STREAM, for: address)
    #endif
}

func openDatagramSocket(for address: SocketAddress) -> Int32 {
    #if os(Linux)
        openSocket(Int32(SOCK_DGRAM.rawValue), for: address)
    #else
        openSocket(SOCK_DGRAM, for: address)
    #endif
}

#if os(Linux)
    /// AF_VSOCK of linux/socket.h.
    let vsockFamily: Int32 = 40
#else
    private let vsockFamily: Int32 = -1  // the system rejects it
#endif

private func openSocket(_ type: Int32, for address: SocketAddress, protocol: Int32 = 0) -> Int32 {
    let family: Int32 =
        switch address {
        case .ipv4: AF_INET
        case .ipv6: AF_INET6
        case .unix: AF_UNIX
        case .vsock: vsockFamily
        case .command, .descriptors: -1  // no socket: the system rejects it
        }
    #if os(Linux)
        return socket(family, type | Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), `protocol`)
    #else
        let descriptor = socket(family, type, `protocol`)
        if descriptor >= 0 { prepare(descriptor) }
        return descriptor
    #endif
}

func acceptSocket(_ listener: Int32) -> Int32 {
    #if os(Linux)
        return trunkline_accept(listener)
    #else
        let descriptor = unsafe accept(listener, nil, nil)
        if descriptor >= 0 { prepare(descriptor) }
        return descriptor
    #endif
}

#if !os(Linux)
    private func prepare(_ descriptor: Int32) {
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        setOption(descriptor, SOL_SOCKET, SO_NOSIGPIPE, 1)
    }
#endif

func setOption(_ descriptor: Int32, _ level: Int32, _ name: Int32, _ value: Int32) {
    var value = value
    unsafe setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
}

func pendingError(_ descriptor: Int32) -> Int32 {
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    guard unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) == 0 else { return errno }
    return code
}

/// Makes `close` send a reset.
func setLingerZero(_ descriptor: Int32) {
    var option = linger(l_onoff: 1, l_linger: 0)
    unsafe setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
}

/// Without SIGPIPE. Returns a negative number and sets `errno` on failure.
func sendPieces(_ descriptor: Int32, _ pieces: BytePieces) -> Int {
    #if os(Linux)
        let flags = Int32(MSG_NOSIGNAL)
    #else
        let flags: Int32 = 0  // SO_NOSIGPIPE is set on the socket
    #endif
    if pieces.count == 1 {
        return unsafe send(descriptor, pieces[0].baseAddress, pieces[0].count, flags)
    }
    return unsafe withVectors(of: pieces) { vectors in
        var message = unsafe msghdr()
        unsafe message.msg_iov = vectors.baseAddress
        unsafe message.msg_iovlen = .init(vectors.count)
        return unsafe sendmsg(descriptor, &message, flags)
    }
}

/// The system takes no more than `IOV_MAX` pieces at once.
func withVectors(of pieces: BytePieces, _ body: (UnsafeMutableBufferPointer<iovec>) -> Int) -> Int {
    unsafe withUnsafeTemporaryAllocation(of: iovec.self, capacity: min(pieces.count, 1024)) { vectors in
        for index in vectors.indices {
            let piece = unsafe pieces[index]
            unsafe vectors.initializeElement(
                at: index,
                to: iovec(iov_base: UnsafeMutableRawPointer(mutating: piece.baseAddress), iov_len: piece.count)
            )
        }
        return unsafe body(vectors)
    }
}

/// Calls `read(2)`, whose name methods hide.
func readDescriptor(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int {
    unsafe read(descriptor, buffer.baseAddress, buffer.count)
}

/// Calls `connect(2)`, whose name methods hide.
func connectDescriptor(_ descriptor: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
    unsafe connect(descriptor, address, length)
}

func isBroken(_ descriptor: Int32) -> Bool {
    var request = pollfd(fd: descriptor, events: 0, revents: 0)
    return unsafe poll(&request, 1, 0) == 1 && Int32(request.revents) & Int32(POLLERR | POLLHUP) != 0
}
