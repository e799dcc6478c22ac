import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

extension HeavyTests {
    @Suite(.timeLimit(.minutes(10)))
    struct TLSLeakTests {
        /// The number of cycles: `TRUNKLINE_STRESS_TLS_CYCLES`, or 300.
        private static let cycles = TestEnvironment.stressTLSCycles ?? 300

        /// Links are opened, closed, broken, and closed during the handshake.
        @Test func linksOverTLSLeaveNothingBehind() async throws {
            await aside { await #expect(processExitsWith: .success) { try await Self.expectNoLeak() } }
        }

        private static func expectNoLeak() async throws {
            let authority = try TestAuthority()
            let identity = try authority.identity(for: "127.0.0.1")
            let options = LoopbackServer.Options {
                $0.recordedFrames = 0
                $0.tls = .init(identity)
            }
            try await withLoopbackServer(speaking: .standard, options: options) { server in
                try await cycle(200, server, authority.root)
                try await server.waitForConnections(0, within: patience)
                let before = Usage()
                try await cycle(cycles, server, authority.root)
                try await server.waitForConnections(0, within: patience)
                // An OpenSSL connection takes about 30 KB.
                await before.expectNoLeak(ofKilobytes: 4_000 + 5 * cycles)
            }
        }

        private static func cycle(_ count: Int, _ server: LoopbackServer, _ root: PEM) async throws {
            let options = quickOptions {
                $0.tls.roots = .only(root)
                $0.tls.serverName = nil
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        for number in 0..<count / 4 {
                            let client = Client(to: server.endpoint, speaking: .standard, options: options)
                            switch number % 4 {
                            case 0, 1:
                                try await expectEcho(filled(number % 3 * 20_000), by: client)
                                await client.close()
                            case 2:
                                try await client.connect()
                                await client.closeNow()
                            default:
                                _ = client.start(ask("a"))  // closed while it connects
                                await client.closeNow()
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }
}
