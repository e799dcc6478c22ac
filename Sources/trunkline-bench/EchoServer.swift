#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// An echo server, or a sink that returns nothing: one thread, no frames, one read and write for all bytes at hand.
struct EchoServer {
    private let listener: Int32
    private let isSink: Bool
    private var connections: [Connection] = []

    init(isSink: Bool = false) throws {
        self.isSink = isSink
        let (listener, port) = try listeningSocket()
        self.listener = listener
        print(port)
        fflush(nil)
    }

    mutating func run() throws {
        while true {
            var watched = [pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)]
            watched.append(pollfd(fd: listener, events: Int16(POLLIN), revents: 0))
            for connection in connections {
                watched.append(pollfd(fd: connection.descriptor, events: connection.interest, revents: 0))
            }
            // Interests change rarely, so the list is reused until one does.
            var isCurrent = true
            while isCurrent {
                if unsafe poll(&watched, nfds_t(watched.count), -1) < 0, errno != EINTR {
                    throw BenchError("poll", errno: errno)
                }
                if watched[0].revents != 0 { return }
                for index in connections.indices where watched[2 + index].revents != 0 {
                    connections[index].echo()
                    if connections[index].interest != watched[2 + index].events { isCurrent = false }
                }
                if watched[1].revents != 0 {
                    let descriptor = accept(listener, nil, nil)
                    if descriptor >= 0 {
                        sendSmallSegmentsAtOnce(descriptor)
                        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
                        connections.append(Connection(descriptor, isSink: isSink))
                        isCurrent = false
                    }
                }
            }
            connections.removeAll { $0.isClosed }
        }
    }

    private final class Connection {
        let descriptor: Int32
        private(set) var isClosed = false
        /// `memory[start..<end]` holds the bytes to write.
        private var memory = [UInt8](repeating: 0, count: 1024 * 1024)
        private var start = 0
        private var end = 0

        private static let largestRead = 256 * 1024

        private let isSink: Bool

        init(_ descriptor: Int32, isSink: Bool) {
            self.descriptor = descriptor
            self.isSink = isSink
        }

        deinit { close(descriptor) }

        var interest: Int16 {
            if isClosed { return 0 }
            return Int16((end < memory.count ? POLLIN : 0) | (start < end ? POLLOUT : 0))
        }

        func echo() {
            if end < memory.count {
                let count = unsafe memory.withUnsafeMutableBytes { [end] in
                    unsafe recv(descriptor, $0.baseAddress?.advanced(by: end), min($0.count - end, Self.largestRead), 0)
                }
                if count > 0, !isSink { end += count }
                if count == 0 || count < 0 && !isPassing(errno) { isClosed = true }
            }
            guard start < end else { return }
            let count = unsafe memory.withUnsafeBytes { [start, end] in
                unsafe send(descriptor, $0.baseAddress?.advanced(by: start), end - start, 0)
            }
            if count > 0 { start += count }
            if count < 0 && !isPassing(errno) { isClosed = true }
            if start == end {
                start = 0
                end = 0
            }
        }
    }
}

func isPassing(_ code: Int32) -> Bool { code == EAGAIN || code == EWOULDBLOCK || code == EINTR }

func openSocket() throws -> Int32 {
    #if os(Linux)
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    #else
        let descriptor = socket(AF_INET, SOCK_STREAM, 0)
    #endif
    guard descriptor >= 0 else { throw BenchError("socket", errno: errno) }
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    return descriptor
}

/// `receiveBuffer` limits, in bytes, what its connections hold unread.
func listeningSocket(receiveBuffer: Int32? = nil) throws -> (descriptor: Int32, port: UInt16) {
    let listener = try openSocket()
    if var receiveBuffer {
        let size = socklen_t(MemoryLayout<Int32>.size)
        unsafe setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, size)
    }
    var address = loopback(port: 0)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = unsafe withUnsafeMutablePointer(to: &address) {
        unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            unsafe bind(listener, $0, length) == 0 && listen(listener, 128) == 0
                && getsockname(listener, $0, &length) == 0 ? 0 : errno
        }
    }
    guard code == 0 else { throw BenchError("listen", errno: code) }
    return (listener, UInt16(bigEndian: address.sin_port))
}

func writeAll(_ bytes: some Collection<UInt8>, to descriptor: Int32) -> Bool {
    unsafe Array(bytes).withUnsafeBytes { memory in
        var rest = unsafe memory[...]
        while unsafe !rest.isEmpty {
            let part = unsafe UnsafeRawBufferPointer(rebasing: rest)
            let count = unsafe write(descriptor, part.baseAddress, part.count)
            guard count > 0 else { return false }
            unsafe rest = unsafe rest.dropFirst(count)
        }
        return true
    }
}

func connectedSocket(_ port: UInt16) throws -> Int32 {
    let descriptor = try openSocket()
    var address = loopback(port: port)
    let code = unsafe withUnsafeMutablePointer(to: &address) {
        unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0 ? 0 : errno
        }
    }
    guard code == 0 else {
        close(descriptor)
        throw BenchError("connect to port \(port)", errno: code)
    }
    sendSmallSegmentsAtOnce(descriptor)
    return descriptor
}

func sendSmallSegmentsAtOnce(_ descriptor: Int32) {
    var one: Int32 = 1
    unsafe setsockopt(descriptor, Int32(IPPROTO_TCP), Int32(TCP_NODELAY), &one, socklen_t(MemoryLayout<Int32>.size))
}

func loopback(port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    return address
}
