import Foundation
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The system takes a zero byte as the end of a name or path. The name that it uses would then differ from the name
/// that was checked.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct NulByteTests {}

extension NulByteTests {
    @Test func addressesWithAZeroByteAreInvalid() {
        #expect(literalAddress("127.0.0.1", port: 1) == .loopback(port: 1))
        for text in ["127.0.0.1\0.trusted.example", "127.0.0.1\0", "::1\0x", "\0"] {
            #expect(literalAddress(text, port: 1) == nil)
            let answer = systemLookUp(text, .ipv4)
            #expect(throws: TransportError.self) { try answer.get() }
        }
        let isWritten = unsafe withSockaddr(.unix(path: "/tmp/a\0b")) { _, _ in true }
        #expect(isWritten == nil)
    }

    /// Regression: the error for a host that was given with a password contained the password.
    @Test func errorsOfNameResolutionContainNoCredentials() throws {
        let error = try #require(throws: TransportError.self) { try systemLookUp("ada:s3cret@gw\0", .ipv4).get() }
        #expect(error.message == #"resolving (redacted)@gw\u{0}: invalid host name: empty, or contains a NUL byte"#)
        let resolver = Resolver(maximumThreads: 0, maximumQueued: 0) { _, _ in .success([]) }
        let answers = Lock([NameLookup.Answer]())
        _ = resolver.resolve("ada:s3cret@gw", port: 1, family: .ipv4) { answer in
            answers.withLock { $0.append(answer) }
        }
        let refusal = try #require(throws: TransportError.self) { try answers.withLock { $0 }.first?.get() }
        #expect(refusal.message.hasPrefix("resolving (redacted)@gw: too many lookups: 0 are"))
    }

    /// Regression: the client connected to the part before the zero byte.
    @Test func hostsAndPathsWithAZeroByteAreInvalid() async throws {
        try await withServer(speaking: .standard) { server in
            let (host, port) = try #require(server.endpoint.hostAndPort)
            for endpoint in [Endpoint.host(host + "\0.trusted.example", port: port), .unix(path: "/tmp/a\0b")] {
                let error = await refusal(of: Wire.endpoint(endpoint))
                #expect(error?.code == .invalidAddress, "\(endpoint)")
                #expect(error?.message.contains("NUL byte") == true)
            }
            let options = ClientOptions { $0.connecting.sourceAddress = "127.0.0.1\0x" }
            #expect(await refusal(of: server.endpoint, options)?.code == .invalidAddress)
            #expect(await server.totalConnections == 0)
        }
    }

    @Test func serverNamesWithAZeroByteAreInvalid() async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "127.0.0.1")
        for name in ["127.0.0.1\0.trusted.example", "a,DNS:b"] {
            #expect(throws: TransportError.self) { try authority.identity(for: name) }
        }
        try await withLoopbackServer(speaking: .standard, options: .init { $0.tls = .init(identity) }) { server in
            for name in ["127.0.0.1\0.trusted.example", "db\0", "\0"] {
                let options = ClientOptions {
                    $0.tls.roots = .only(authority.root)
                    $0.tls.serverName = name
                    // Longer than any pause of a busy machine.
                    $0.connecting.timeout = .seconds(60)
                }
                #expect(await refusal(of: server.endpoint, options, overTLS: false)?.code == .tls(.configuration))
            }
            #expect(await server.journal.handshakeCount == 0)
        }
    }

    @Test func filePathsWithAZeroByteAreInvalid() throws {
        let path = NSTemporaryDirectory() + "zero-byte-\(UInt64.random(in: 0 ... .max))"
        try createFile(at: path, with: Array("text".utf8))
        defer { unsafe unlink(path) }
        #expect(try PEM.file(path).load() == "text")
        let error = #expect(throws: TransportError.self) { try PEM.file(path + "\0.trusted").load() }
        #expect(error?.code == .tls(.configuration) && error?.message.contains("NUL byte") == true)
        #expect(FileVersion(ofFile: path + "\0.trusted") == nil)
        #expect(throws: TransportError.self) { try createFile(at: path + "2\0x", with: []) }
        #expect(throws: TransportError.self) { try TemporaryFile(in: NSTemporaryDirectory() + "\0x", isNamed: true) }
    }

    /// Regression: opening a FIFO waits until a process writes to it. This occupied a thread of the pool for as long.
    @Test func onlyRegularFilesAreReadAsPEM() throws {
        let path = NSTemporaryDirectory() + "fifo-\(UInt64.random(in: 0 ... .max))"
        try #require(unsafe mkfifo(path, 0o600) == 0)
        defer { unsafe unlink(path) }
        for path in [path, "/dev/zero", NSTemporaryDirectory()] {
            let error = #expect(throws: TransportError.self) { try PEM.file(path).load() }
            #expect(error?.code == .tls(.configuration) && error?.message.contains("not a regular file") == true)
        }
    }

    /// The error that prevents a link to `endpoint`, with TLS as configured for all tests or as in `options`.
    private func refusal(
        of endpoint: Endpoint,
        _ options: ClientOptions = quickOptions(),
        overTLS: Bool = Wire.isSecured
    ) async -> TransportError? {
        let options = ClientOptions {
            $0 = options
            $0.reconnecting.maximumAttempts = 1
        }
        let client = Client(to: endpoint, speaking: .standard, options: Wire.client(options, overTLS: overTLS))
        let error = await failure { () throws(ClientError) in try await client.connect() }
        await client.close()
        return error?.cause as? TransportError
    }
}

extension Endpoint {
    fileprivate var hostAndPort: (String, UInt16)? {
        if case .host(let host, let port) = target { (host, port) } else { nil }
    }
}
