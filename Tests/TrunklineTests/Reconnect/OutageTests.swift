import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging

/// After every outage the state is `ready` again, everywhere where it can be read, and the log says so: also after a
/// second outage within a minute, which the log only summarises.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct OutageTests {}

extension OutageTests {
    /// The standard layout, with its pings. A push "!" announces the shutdown.
    private struct Codec: FrameCodec, HeartbeatCodec, GoAwayCodec, ServerSideCodec {
        var polite = DrainingTests.PoliteCodec()
        var matching: ResponseMatching { polite.matching }
        var pongsLookLikePings: Bool { polite.layout.pongsLookLikePings }
        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try polite.decode(&input) }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try polite.encode(frame, into: &output)
        }
        func ping(number: UInt64) -> Frame? { polite.layout.ping(number: number) }
        func pong(answering ping: Frame) -> Frame? { polite.layout.pong(answering: ping) }
        func retryAfter(in goAway: Frame) -> Duration? { polite.retryAfter(in: goAway) }
        func serverSide() -> any FrameCodec { polite.serverSide() }
    }

    /// A way in which a client loses its link, and gets another one.
    enum Outage: CaseIterable {
        case reset, orderlyClose, halfOpen, refused, unreachable, swallowed, partition, interfaceDown, addressRemoved
        case goAway, goAwayAndClose, suspended, switched, shortLinks

        func happen(_ service: SimulatedService, _ client: Client) async throws {
            let network = service.network
            switch self {
            case .reset: network.reset("db")
            case .orderlyClose: await service.server.disconnectAll()
            case .halfOpen:
                network.halfOpen("db")
                try await service.pass(.seconds(45))
                network.heal("db")
            case .refused:
                network.refuseConnections(to: "db")
                network.reset("db")
                try await service.pass(.seconds(5))
                network.acceptConnections(to: "db")
            case .unreachable:
                network.makeUnreachable("db")
                network.reset("db")
                try await service.pass(.seconds(5))
                network.acceptConnections(to: "db")
            case .swallowed:
                network.swallowConnections(to: "db")
                network.reset("db")
                try await service.pass(.seconds(5))
                network.acceptConnections(to: "db")
            case .partition:
                network.partition("db")
                try await service.pass(.seconds(45))
                network.heal("db")
            case .interfaceDown:
                network.setInterface("eth0", isUp: false)
                try await service.pass(.seconds(5))
                network.setInterface("eth0", isUp: true)
            case .addressRemoved:
                network.removeAddress("10.255.0.1", from: "eth0")
                try await service.pass(.milliseconds(500))
                network.addAddress("10.255.0.1", to: "eth0")
            case .goAway: try await service.server.push(Frame(.push, type: 2, body: "!"))
            case .goAwayAndClose:
                try await service.server.push(Frame(.push, type: 2, body: "!"))
                try await service.pass(.milliseconds(1))
                await service.server.disconnectAll()
            case .suspended:
                await client.suspend()
                try await service.pass(.seconds(2))
                await client.resume()
            case .switched: await client.renewLink()
            case .shortLinks:
                for _ in 0..<4 {
                    network.reset("db")
                    try await service.pass(.milliseconds(500))
                }
            }
        }
    }

    /// Waits until the client has had a link for a moment. The longest wait is that of the back-off.
    private func recover(_ service: SimulatedService, _ client: Client) async throws {
        for _ in 0..<600 {
            try await service.pass(.milliseconds(100))
            if case .ready = await client.connection.entered({ $0.machine.state }) { break }
        }
        try await service.pass(.milliseconds(100))
    }

    private func expectReady(_ service: SimulatedService, _ client: Client, _ comment: Comment) async {
        guard case .ready(let session) = await client.connection.entered({ $0.machine.state }) else {
            Issue.record(comment)
            return
        }
        let expected = ConnectionState.ready(service.endpoint("db:7000"), session: session)
        #expect(await client.connection.state == expected, comment)
        #expect(await client.connection.entered { $0.readers.published } == expected, comment)
        #expect(await client.metrics.connection.state == expected, comment)
        for await state in client.states {
            #expect(state == expected, comment)
            break
        }
    }

    /// Whether a line says that there is a link.
    private func saysReady(_ record: LogRecord) -> Bool {
        switch record.event {
        case "link.ready", "link.replaced": true
        case "links.unstable": record.message.contains("is in use")
        default: false
        }
    }

    @Test(arguments: Outage.allCases)
    func everyOutageEndsReadyInStatesAndLog(_ first: Outage) throws {
        for second in Outage.allCases {
            for gap in [Duration.milliseconds(300), .seconds(20), .seconds(50), .seconds(90)] {
                try simulateOutages(first, second, gap)
            }
        }
    }

    private func simulateOutages(_ first: Outage, _ second: Outage, _ gap: Duration) throws {
        let log = LogCollector()
        let options = ClientOptions {
            $0.logging = log.logging()
            $0.handshake.perform = { _ = try await $0.send(ask("login")) }
        }
        let comment: Comment = "\(first), after \(gap) \(second)"
        try simulate(speaking: Codec(), options: options) { service, client in
            let pushes = client.pushes()
            let states = client.states
            try await expectEcho("a", by: client)
            try await service.pass(.seconds(20))
            try await first.happen(service, client)
            try await recover(service, client)
            await expectReady(service, client, comment)
            try await service.pass(gap)
            let before = service.now
            try await second.happen(service, client)
            try await recover(service, client)
            await expectReady(service, client, comment)
            // A summary may come a while later.
            try await service.pass(.seconds(120))
            await expectReady(service, client, comment)
            #expect(log.records.contains { $0.time > before && saysReady($0) }, "\(comment): \(log.text)")
            #expect(log.records.last.map(saysReady) == true, "\(comment): \(log.text)")
            await client.closeNow()
            // What a reader of the states has received: it never sees the same state twice, and the last is closed.
            var last: [ConnectionState] = []
            for await state in states {
                #expect(state != last.last, comment)
                last.append(state)
            }
            #expect(last.last == .closed && last.dropLast().last?.isReady == true, comment)
            withExtendedLifetime(pushes) {}
        }
    }
}
