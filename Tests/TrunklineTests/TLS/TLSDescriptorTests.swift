import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// TLS while the process has no free file descriptor, each in a separate process: it fails with that cause, which is
/// not permanent, and works when there are descriptors again.
@Suite(
    .tags(.realThreads),
    .timeLimit(.minutes(5)),
    .enabled(if: CryptoLibrary.system != nil, "OpenSSL is not installed")
)
struct TLSDescriptorTests {}

extension TLSDescriptorTests {
    /// Regression: the failure was kept, so that TLS and digests were missing for the life of the process.
    @Test func theLibraryIsLoadedLater() async {
        await aside {
            await #expect(processExitsWith: .success) {
                // Another library of this process may have loaded it.
                let isLoaded = CryptoLibrary.names.contains { unsafe dlopen($0, RTLD_NOW | RTLD_NOLOAD) != nil }
                let shortage = try Descriptors.exhaust()
                var (digestFailure, failure): (DigestError?, TransportError?) = (nil, nil)
                do throws(DigestError) { _ = try MessageDigest.sha256.hash(of: [1]) } catch { digestFailure = error }
                let hasChecksum = Checksum.sha256.bytes(of: [1]) != nil
                do throws(TransportError) { _ = try OpenSSL.system() } catch { failure = error }
                shortage.end()
                #expect(failure?.errno == EMFILE && failure?.isPermanent == false, "\(String(describing: failure))")
                #expect(
                    failure?.message.hasPrefix("loading lib") == true || failure?.message.hasPrefix("reading") == true
                )
                #expect(digestFailure?.code == (isLoaded ? nil : .unavailable), "\(String(describing: digestFailure))")
                #expect(hasChecksum == isLoaded)
                _ = try OpenSSL.system()
                #expect(try MessageDigest.sha256.hash(of: [1]).count == 32)
                #expect(Checksum.sha256.bytes(of: [1])?.count == 32 && Checksum.md5.bytes(of: [1])?.count == 16)
            }
        }
    }

    /// A shortage of descriptors is not kept, any other failure is.
    @Test func onlyAShortageIsTriedAgain() throws {
        final class Library: Sendable {}
        let calls = Lock(0)
        let results = [EMFILE, ENFILE, 0, EMFILE]
        let library = LoadedOnce<Library> { () throws(TransportError) in
            let code = calls.withLock { count in
                count += 1
                return results[count - 1]
            }
            throw code == 0
                ? TransportError(.tls(.libraryMissing), "missing") : TransportError(.system, errno: code, "loading")
        }
        var failures: [Int32] = []
        for _ in 0..<5 {
            do throws(TransportError) { _ = try library.get() } catch { failures.append(error.errno) }
        }
        #expect(failures == [EMFILE, ENFILE, 0, 0, 0] && calls.withLock { $0 } == 3 && library.loaded == nil)

        calls.withLock { $0 = 0 }
        let later = LoadedOnce<Library> { () throws(TransportError) in
            let count = calls.withLock { count in
                count += 1
                return count
            }
            if count == 1 { throw TransportError(.system, errno: EMFILE, "loading") }
            return Library()
        }
        #expect(throws: TransportError.self) { try later.get() }
        let (first, second) = (try later.get(), try later.get())
        #expect(first === second && later.loaded === first && calls.withLock { $0 } == 2)
    }

    /// Regression: `Checksum.sha256` and the others kept the failure, and said that OpenSSL was missing.
    @Test func aChecksumSaysThatDescriptorsAreMissing() throws {
        func reason(_ error: TransportError) -> String? {
            let checksum = Checksum.digest("sum", .md5, isHexadecimal: true) { () throws(TransportError) in throw error
            }
            #expect(checksum.width == 32 && checksum.bytes(of: [1]) == nil)
            if case .unavailable(let reason) = checksum.algorithm { return reason } else { return nil }
        }
        let shortage = TransportError(.system, errno: EMFILE, "loading libcrypto")
        #expect(reason(shortage) == "it is not available now: loading libcrypto")
        #expect(reason(TransportError(.tls(.libraryMissing), "missing"))?.hasPrefix("it needs OpenSSL's") == true)
        #expect(Checksum.md5Hexadecimal.bytes(of: [1])?.count == 32)
    }

    /// Regression: the client took the file for one that cannot be used, and tried no more.
    @Test func filesAreReadLater() async {
        await aside {
            await #expect(processExitsWith: .success) {
                let authority = try TestAuthority()
                let path = "/tmp/trunkline-roots-\(UInt64.random(in: 0 ... .max))"
                try createFile(at: path, with: Array(authority.root.load()))
                defer { unsafe unlink(path) }
                let identity = try authority.identity(for: "127.0.0.1")
                let server = try await LoopbackServer.start(
                    speaking: .standard,
                    options: LoopbackServer.Options { $0.tls = .init(identity) }
                )
                let options = ClientOptions {
                    $0.tls.roots = .only(.file(path))
                    $0.reconnecting.policy = nil
                }
                let client = Client(to: server.endpoint, speaking: .standard, options: options)
                let shortage = try Descriptors.exhaust()
                var failure: ClientError?
                do throws(ClientError) { try await client.connect() } catch { failure = error }
                shortage.end()
                let cause = try #require(failure?.cause as? TransportError)
                #expect(cause.code == .system && cause.errno == EMFILE && !cause.isPermanent, "\(cause)")
                #expect(cause.message.contains(path))
                #expect(try await client.send(Request(type: 0x410, body: "hello")).body == "hello")
                await client.close()
                await server.stop()
            }
        }
    }

    /// Regression: OpenSSL went without the roots that it could not open, and called every server untrusted: for the
    /// life of the process if they are in one file, and otherwise for this handshake. That is a permanent failure.
    @Test func aRootThatCannotBeOpenedIsNotMissing() async {
        await aside {
            await #expect(processExitsWith: .success) {
                let settings = TLSSettings(.client(verifies: true))
                let context = try OpenSSLContext(settings)
                let first = try await Handshake(context)
                let second = try await Handshake(context)
                let shortage = try Descriptors.exhaust()
                var other = settings
                other.minimumVersion = .tls13
                var creation: TransportError?
                do throws(TransportError) { _ = try OpenSSLContext(other) } catch { creation = error }
                let failure = first.failure
                shortage.end()
                #expect(creation?.errno == EMFILE && creation?.isPermanent == false, "\(String(describing: creation))")
                #expect(failure?.errno == EMFILE && failure?.isPermanent == false, "\(String(describing: failure))")
                #expect(failure?.message.contains("reading the system's roots: ") == true)
                // The authority of the test is not among the roots of the system.
                #expect(second.failure?.code == .tls(.untrusted))
                _ = try OpenSSLContext(other)
            }
        }
    }

    /// The engines of a client, and of a server that its roots do not contain.
    private struct Handshake {
        private let client, server: OpenSSLEngine

        init(_ context: OpenSSLContext) async throws {
            client = try OpenSSLEngine(context, name: "server", isServer: false)
            var settings = TLSSettings(.server(verifiesClients: false))
            settings.trustsSystem = false
            settings.identity = try await TestAuthority().identity(for: "server").load()
            server = try OpenSSLEngine(OpenSSLContext(settings), name: "", isServer: true)
        }

        /// Why the client does not complete the handshake.
        var failure: TransportError? {
            do throws(TransportError) {
                for _ in 0..<8 {
                    if try Self.step(client, server.outgoing.takeAll()) { return nil }
                    _ = try Self.step(server, client.outgoing.takeAll())
                }
                return nil
            } catch {
                return error
            }
        }

        private static func step(_ engine: OpenSSLEngine, _ input: [UInt8]) throws(TransportError) -> Bool {
            try unsafe input.span.bytes.withUnsafeBytes { memory throws(TransportError) in
                var input = unsafe memory
                return try unsafe engine.handshake(&input)
            }
        }
    }
}
