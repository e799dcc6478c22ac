import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

extension HeavyTests {
    /// Clients that are deallocated without being closed while their connection is busy.
    @Suite(.timeLimit(.minutes(5)))
    struct DeallocationLoopbackTests {
        /// What a client is doing when it is deallocated.
        enum Phase: CaseIterable, Codable {
            case racing, handshaking, waiting, probing, draining
        }

        /// The endpoints that the clients of each phase use.
        private struct Place: Sendable {
            /// Echoes every request, except "login", "silence" and "reset".
            let server: LoopbackServer
            let other: LoopbackServer
            /// No server listens there.
            let dead: Endpoint
            /// Does not accept connections.
            let deaf: Endpoint
        }

        @Test(arguments: Phase.allCases)
        func deallocatedClientsLeaveNothingBehind(_ phase: Phase) async throws {
            await aside { await #expect(processExitsWith: .success) { [phase] in try await Self.expectNoLeak(phase) } }
        }

        private static func expectNoLeak(_ phase: Phase) async throws {
            let cycles = max(80, stormRequests / 100)
            let handler: LoopbackServer.Handler = { request in
                switch request.body {
                case "login", "silence": .noReply
                case "reset": .reset
                default: .echo
                }
            }
            let deaf = try RawListener(backlog: 0)
            deaf.fill()
            try await withServer(speaking: .standard, handler: handler) { server in
                try await withServer(speaking: .standard, handler: handler) { other in
                    let gone = try await Wire.startServer(at: loopback(62), speaking: .standard)
                    await gone.stop()
                    let place = Place(
                        server: server,
                        other: other,
                        dead: gone.endpoint,
                        deaf: .host("127.0.0.1", port: deaf.port)
                    )
                    _ = try await cycle(max(16, cycles / 10), phase, place)
                    try await server.waitForConnections(0, within: patience)
                    try await other.waitForConnections(0, within: patience)
                    let before = Usage()
                    let left = try await cycle(cycles, phase, place)
                    #expect(left == 0)
                    try await server.waitForConnections(0, within: patience)
                    try await other.waitForConnections(0, within: patience)
                    await before.expectNoLeak(ofKilobytes: 32_000)
                }
            }
            withExtendedLifetime(deaf) {}
        }

        /// Deallocates `count` clients during `phase`. Returns how many of them, or of their connections, still exist.
        private static func cycle(_ count: Int, _ phase: Phase, _ place: Place) async throws -> Int {
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        var clients: [Weak<Client>] = []
                        var connections: [Weak<Connection>] = []
                        for number in 0..<count / 8 {
                            let loops = Mechanism.allCases[number % 2].loops
                            let (client, connection) = try await deallocateClient(phase, place, on: loops)
                            clients.append(client)
                            connections.append(connection)
                        }
                        // A client may still be held by a closure on an event loop, or by a task, that has not run yet.
                        let limit = ContinuousClock.now.advanced(by: patience)
                        func left() -> Int {
                            clients.count { $0.object != nil } + connections.count { $0.object != nil }
                        }
                        while left() > 0, ContinuousClock.now < limit { await moment() }
                        return left()
                    }
                }
                return try await group.reduce(0, +)
            }
        }

        /// Creates a client, waits until it is in `phase`, and releases it.
        private static func deallocateClient(
            _ phase: Phase,
            _ place: Place,
            on loops: EventLoops
        ) async throws -> (Weak<Client>, Weak<Connection>) {
            let endpoints: [Endpoint] =
                switch phase {
                case .racing: [place.deaf]
                case .waiting: [place.dead]
                case .handshaking, .probing, .draining: [place.server.endpoint, place.other.endpoint]
                }
            let client = Client(to: endpoints, speaking: .standard, options: options(phase), on: loops)
            let found = (Weak(client), Weak(client.connection))
            switch phase {
            case .racing, .handshaking, .waiting:
                _ = client.start(ask("never"))
                for await state in client.states where isState(state, phase) { break }
            case .probing:
                _ = client.start(ask("reset"))
                while await !client.isProbing { await moment() }
            case .draining:
                let handle = client.start(ask("silence"))
                try await expectEcho("before", by: client)
                try await client.switchEndpoint(to: place.other.endpoint)
                await client.becomesReady(at: place.other.endpoint)
                try await expectEcho("after", by: client)
                #expect(await client.hasDrainingLinks)
                _ = handle
            }
            return found
        }

        private static func isState(_ state: ConnectionState, _ phase: Phase) -> Bool {
            switch state {
            case .connecting: phase == .racing
            case .handshaking: phase == .handshaking
            case .waiting: phase == .waiting
            default: false
            }
        }

        /// Options with which each phase lasts an hour.
        private static func options(_ phase: Phase) -> ClientOptions {
            quickOptions { options in
                options.connecting.timeout = .seconds(3600)
                options.requests.timeout = .seconds(3600)
                options.requests.drainTimeout = .seconds(3600)
                options.reconnecting.policy = Backoff(minimum: .seconds(3600), cap: .seconds(3600))
                switch phase {
                case .handshaking:
                    options.handshake.timeout = .seconds(3600)
                    options.handshake.perform = { handshaker in
                        _ = try await handshaker.send(Request(type: 0x411, body: "login"))
                    }
                case .probing:
                    options.diagnosis.probeTimeout = .seconds(3600)
                    options.diagnosis.probe = { _ in (try? await Task.sleep(for: .seconds(3600))) != nil }
                default: break
                }
            }
        }
    }
}

extension Client {
    /// Whether there are draining links.
    fileprivate var hasDrainingLinks: Bool { !driver.links.draining.isEmpty }
    /// Whether the user's probe is running for a link that was lost.
    fileprivate var isProbing: Bool { driver.reports.probe != nil }
}
