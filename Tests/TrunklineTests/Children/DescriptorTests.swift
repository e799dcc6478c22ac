import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Links over descriptors of the user.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct DescriptorTests {}

extension DescriptorTests {
    /// Two pipes, whose other ends a thread copies. It ends when the client has closed.
    private func pipes() -> (reading: Int32, writing: Int32) {
        var (up, down): ([Int32], [Int32]) = ([-1, -1], [-1, -1])
        #expect(unsafe pipe(&up) == 0 && pipe(&down) == 0)
        copy(from: up[0], to: down[1])
        return (down[0], up[1])
    }

    /// A socket, whose other end a thread copies.
    private func socket() -> Int32 {
        var ends: [Int32] = [-1, -1]
        #if os(Linux)
            #expect(unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        #else
            #expect(unsafe socketpair(AF_UNIX, SOCK_STREAM, 0, &ends) == 0)
        #endif
        copy(from: ends[1], to: ends[1])
        return ends[0]
    }

    private func copy(from source: Int32, to target: Int32) {
        let code = startThread(named: "copy") {
            var bytes = [UInt8](repeating: 0, count: 4096)
            copying: while true {
                let count = unsafe read(source, &bytes, bytes.count)
                guard count > 0 else { break }
                var sent = 0
                while sent < count {
                    let written = unsafe bytes.withUnsafeBytes {
                        unsafe write(target, $0.baseAddress?.advanced(by: sent), count - sent)
                    }
                    guard written > 0 else { break copying }
                    sent += written
                }
            }
            close(source)
            if target != source { close(target) }
        }
        #expect(code == 0)
    }

    private func client(_ endpoint: Endpoint, _ mechanism: Mechanism = .epoll) -> Client {
        Client(to: endpoint, speaking: lineCodec, options: quickOptions(), on: mechanism.loops)
    }

    @Test(arguments: Mechanism.allCases, [true, false])
    func requestsOverPipesAndSockets(_ mechanism: Mechanism, _ isSocket: Bool) async throws {
        let endpoint: Endpoint
        if isSocket {
            let socket = self.socket()
            endpoint = .descriptors(reading: socket, writing: socket)
            #expect(endpoint.description == "descriptors(\(socket))")
        } else {
            let (reading, writing) = pipes()
            endpoint = .descriptors(reading: reading, writing: writing)
            #expect(endpoint.description == "descriptors(\(reading), \(writing))")
        }
        let client = self.client(endpoint, mechanism)
        for size in [1, 65_536, 1 << 20] { try await expectEcho(filled(size), by: client) }
        try await withThrowingTaskGroup { group in
            for number in 0..<500 { group.addTask { try await expectEcho(Bytes("\(number)"), by: client) } }
            try await group.waitForAll()
        }
        await client.close()
    }

    @Test(arguments: Mechanism.allCases)
    func descriptorsServeOneLink(_ mechanism: Mechanism) async throws {
        let (reading, writing) = pipes()
        let endpoint = Endpoint.descriptors(reading: reading, writing: writing)
        let client = self.client(endpoint, mechanism)
        try await expectEcho("a", by: client)
        await client.suspend()
        await client.resume()
        let error = await failure { () throws(ClientError) in try await client.connect() }
        let cause = error?.cause as? TransportError
        #expect(error?.code == .unavailable && cause?.code == .invalidAddress && cause?.errno == 0)
        await client.close()
    }

    @Test func endpointsEqualTheirCopies() {
        let (first, second) = (
            Endpoint.descriptors(reading: -1, writing: -1), Endpoint.descriptors(reading: -1, writing: -1)
        )
        let copy = first
        #expect(first == copy && first != second && Set([first, second, copy]).count == 2)
    }

    @Test func unusedDescriptorsAreClosed() throws {
        let (reading, writing) = pipes()
        var endpoint: Endpoint? = .descriptors(reading: reading, writing: writing)
        let before = [identity(of: reading), identity(of: writing)]
        #expect(!before.contains(nil) && endpoint != nil)
        endpoint = nil
        #expect(identity(of: reading) != before[0] && identity(of: writing) != before[1])
    }

    /// The file of a descriptor; `nil` if it is closed. Another test may have opened the number again.
    private func identity(of descriptor: Int32) -> [UInt64]? {
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { return nil }
        return [UInt64(status.st_dev), UInt64(status.st_ino)]
    }

    @Test(arguments: Mechanism.allCases)
    func theEndOfThePeerEndsTheLink(_ mechanism: Mechanism) async throws {
        var (up, down): ([Int32], [Int32]) = ([-1, -1], [-1, -1])
        #expect(unsafe pipe(&up) == 0 && pipe(&down) == 0)
        let client = self.client(.descriptors(reading: down[0], writing: up[1]), mechanism)
        let reports = client.firstReport()
        try await client.connect()
        close(up[0])
        close(down[1])
        #expect(await reports.value?.cause == .closedByServer)
        await client.close()
    }

    @Test func descriptorsThatCannotBeUsed() async throws {
        let closed = client(.descriptors(reading: 99_999, writing: 99_999))
        let error = await failure { () throws(ClientError) in try await closed.connect() }
        #expect((error?.cause as? TransportError)?.code == .invalidAddress)
        #expect(error?.code == .unavailable && "\(error.map { "\($0)" } ?? "")".contains("Bad file descriptor"))
        await closed.close()
        let file = unsafe open("/etc/passwd", O_RDONLY | O_CLOEXEC)
        let before = identity(of: file)
        let unwatched = client(.descriptors(reading: file, writing: file))
        for _ in 0..<2 {
            let error = await failure { () throws(ClientError) in try await unwatched.connect() }
            #expect(
                error?.code == .unavailable && "\(error.map { "\($0)" } ?? "")".contains("a file cannot be watched")
            )
        }
        #expect(await unwatched.metrics.connection.links == 0)
        await unwatched.close()
        #expect(identity(of: file) != before)
    }

    /// Regression: the second attempt said that the descriptors had served a link, which they never had.
    @Test(arguments: Mechanism.allCases)
    func theReasonWhyDescriptorsCannotBeUsedIsSaidEachTime(_ mechanism: Mechanism) async throws {
        func expectReason(_ reason: String, _ reading: Int32, _ writing: Int32) async {
            let client = client(.descriptors(reading: reading, writing: writing), mechanism)
            for _ in 0..<3 {
                let error = await failure { () throws(ClientError) in try await client.connect() }
                let cause = error?.cause as? TransportError
                #expect(error?.code == .unavailable)
                #expect(
                    cause?.code == .invalidAddress && cause?.message.contains(reason) == true,
                    "\(reason): \(cause)"
                )
            }
            #expect(await client.metrics.connection.links == 0)
            await client.close()
        }
        let null = unsafe open("/dev/null", O_RDWR | O_CLOEXEC)
        await expectReason("descriptor \(null) is a device that cannot be watched", null, null)
        // The ends of two pipes, swapped.
        var (up, down): ([Int32], [Int32]) = ([-1, -1], [-1, -1])
        #expect(unsafe pipe(&up) == 0 && pipe(&down) == 0)
        await expectReason("descriptor \(up[1]) is open for writing only, and cannot be read", up[1], down[0])
        #expect(unsafe pipe(&down) == 0)
        await expectReason("descriptor \(down[0]) is open for reading only, and cannot be written", up[0], down[0])
    }

    /// A socket of TCP that something else has connected, and TLS on it.
    @Test func aConnectedSocketWithTLS() async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "localhost")
        let serverOptions = LoopbackServer.Options { $0.tls = .init(identity) }
        try await withLoopbackServer(speaking: lineCodec, options: serverOptions) { server in
            let address = SocketAddress.loopback(port: try #require(server.endpoint.port))
            let socket = openSocket(for: address)
            _ = unsafe withSockaddr(address) { unsafe connect(socket, $0, $1) }
            var request = pollfd(fd: socket, events: Int16(POLLOUT), revents: 0)
            let readyCount = unsafe poll(&request, 1, 10_000)
            #expect(readyCount == 1)
            let options = ClientOptions {
                $0.tls.roots = .only(authority.root)
                $0.tls.serverName = "localhost"
                $0.connecting.timeout = patience
                $0.requests.timeout = patience
            }
            let endpoint = Endpoint.descriptors(reading: socket, writing: socket).secured()
            try await withClient(to: endpoint, speaking: lineCodec, options: options) { client in
                try await expectEcho("a", by: client)
                #expect(await client.diagnostics.tlsSession != nil)
            }
        }
    }

    /// The file may be that of a terminal, which a shell uses too.
    @Test func theModeOfADescriptorIsGivenBack() async throws {
        let (reading, writing) = pipes()
        let other = dup(reading)
        defer { close(other) }
        #expect(fcntl(other, F_GETFL) & O_NONBLOCK == 0)
        let client = self.client(.descriptors(reading: reading, writing: writing))
        try await expectEcho("a", by: client)
        #expect(fcntl(other, F_GETFL) & O_NONBLOCK != 0)
        await client.close()
        #expect(await eventually { fcntl(other, F_GETFL) & O_NONBLOCK == 0 })
    }
}
