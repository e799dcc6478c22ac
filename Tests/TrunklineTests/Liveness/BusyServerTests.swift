import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Pings to a server that works on one request at a time, and so answers a ping after the requests before it.
///
/// Such a server lost its link `probeAfter` and `deadline` after each request that took longer: 15.5 s by default. A child
/// process was killed in the middle of its work, and the error blamed "a firewall, NAT or load balancer" on a pipe.
@Suite(.simulated, .timeLimit(.seeded))
struct BusyServerTests {}

extension BusyServerTests {
    enum Place: CaseIterable, Sendable {
        case child, unix, inOrder

        var endpoint: Endpoint {
            switch self {
            case .child: .command("tool")
            case .unix: "unix:/run/tool.sock"
            case .inOrder: "db:7000"
            }
        }

        var codec: WordsCodec {
            var codec = WordsCodec()
            codec.isInOrder = self == .inOrder
            return codec
        }

        /// Why nothing comes, if the server hangs; `nil` if the kernel is asked, as the simulation has none.
        var opinion: String {
            switch self {
            case .child: "the process is alive, and does not answer"
            case .unix: "the server has the socket open, and does not answer"
            case .inOrder:
                "the server hangs, or the network drops the packets (a firewall, NAT or load balancer that has forgotten"
                    + " the connection)"
            }
        }
    }

    /// Reads nothing while it works on a request.
    private static func react(to frame: Frame) -> Reaction {
        switch String(frame.body) {
        case "40 s": .sequence([.stopReading, .after(.seconds(40), .echo)])
        case "hang": .stopReading
        case "echo, then hang": .sequence([.echo, .stopReading])
        default: .echo
        }
    }

    private func run(
        _ place: Place,
        _ change: (inout ClientOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, Client) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: 1)
        let options = ClientOptions {
            $0.failover.errorRate = nil
            change(&$0)
        }
        try network.runBlocking {
            let server = try await network.serve(
                at: place.endpoint,
                speaking: place.codec,
                overTLS: false,
                handler: { Self.react(to: $0) }
            )
            let client = network.client(of: [place.endpoint], speaking: place.codec, options: options, overTLS: false)
            try await client.connect()
            try await body(network, server, client)
            #expect(await client.diagnostics.audit() == [])
            await client.closeNow()
            await server.stop()
        }
        #expect(network.openLinks == 0)
    }

    @Test(arguments: Place.allCases)
    func aBusyServerKeepsItsLink(_ place: Place) throws {
        try run(place) { network, server, client in
            let slow = client.start(ask("40 s"), timeout: .seconds(60))
            try await network.clock.sleep(for: .seconds(1))
            let behind = client.start(ask("behind"), timeout: .seconds(60))
            try await expectBody("40 s", of: slow)
            await server.resumeReading()
            try await expectBody("behind", of: behind)
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.connection.pings > 0)
        }
    }

    /// The user asks for it: the server answers pings while it works.
    @Test(arguments: Place.allCases)
    func withTheOptionAPingDecides(_ place: Place) throws {
        try run(place) {
            $0.liveness.endsBusyLinks = true
        } _: { network, _, client in
            let begin = network.clock.now
            let error = await failure(of: client.start(ask("40 s"), timeout: .seconds(60)))
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            #expect(begin.duration(to: network.clock.now) < .seconds(16))
        }
    }

    /// A server that hangs while nothing is in flight loses its link as before, and the error blames no network where there
    /// is none.
    @Test(arguments: Place.allCases)
    func aServerThatHangsIsNoticed(_ place: Place) throws {
        try run(place) { network, _, client in
            var reports = client.disconnects.makeAsyncIterator()
            _ = try await client.send(ask("echo, then hang"))
            let begin = network.clock.now
            let report = await reports.next()
            #expect(report?.cause == .halfOpen)
            #expect(begin.duration(to: network.clock.now) < .seconds(41))
            let error = report?.error as? TransportError
            let text = "no complete frame from \(place.endpoint) within 10.0 seconds of a ping; \(place.opinion)"
            #expect(error?.message == text)
        }
    }

    /// When its caller gives up, the server has the whole deadline, and no more than two of them.
    @Test(arguments: Place.allCases)
    func aRequestThatWasGivenUpExcusesNoMore(_ place: Place) throws {
        try run(place) {
            $0.liveness.maximumStalls = nil
        } _: { network, _, client in
            var reports = client.disconnects.makeAsyncIterator()
            let error = await failure(of: client.start(ask("hang"), timeout: .seconds(33)))
            #expect(error?.code == .timedOut)
            let begin = network.clock.now
            #expect(await reports.next()?.cause == .halfOpen)
            let duration = begin.duration(to: network.clock.now)
            #expect(duration >= .seconds(10) && duration < .seconds(21))
        }
    }

    /// A server that hangs under load, so that a request is always in flight, is left after `maximumStalls` timeouts.
    @Test(arguments: Place.allCases)
    func aServerThatHangsUnderLoadIsLeft(_ place: Place) throws {
        try run(place) { network, _, client in
            var reports = client.disconnects.makeAsyncIterator()
            let hanging = client.start(ask("hang"), timeout: .seconds(4))
            let begin = network.clock.now
            let report = await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    while !Task.isCancelled {
                        _ = client.start(ask("x"), timeout: .seconds(4))
                        try? await network.clock.sleep(for: .milliseconds(500))
                    }
                }
                let report = await reports.next()
                group.cancelAll()
                return report
            }
            #expect(begin.duration(to: network.clock.now) < .seconds(45))
            #expect(report?.cause == .unanswered || report?.cause == .halfOpen)
            #expect(await failure(of: hanging)?.code == .timedOut)
        }
    }

    /// In an ordered protocol over TCP, a path that breaks is noticed in spite of the request in flight: within `probeAfter`
    /// and `deadline` if it broke before the first ping, and within two deadlines after a later one.
    @Test(arguments: [1, 22] as [Int])
    func aPathThatBreaksDuringARequestIsNoticed(after seconds: Int) throws {
        try run(.inOrder) { network, _, client in
            let slow = client.start(ask("40 s"), timeout: .seconds(120))
            try await network.clock.sleep(for: .seconds(seconds))
            network.halfOpen("db")
            let begin = network.clock.now
            let error = await failure(of: slow)
            #expect(error?.code == .connectionLost)
            #expect((error?.cause as? TransportError)?.code == .halfOpen)
            #expect(begin.duration(to: network.clock.now) < .seconds(seconds == 1 ? 15 : 21))
        }
    }

    /// With serials over a network, a ping need not wait for a request: it decides as before.
    @Test func withSerialsOverANetworkAPingDecides() throws {
        try simulate(speaking: WordsCodec(), overTLS: false, handler: { Self.react(to: $0) }) { service, client in
            try await client.connect()
            let error = await failure(of: client.start(ask("40 s"), timeout: .seconds(60)))
            #expect(error?.code == .connectionLost && service.now < .seconds(17))
        }
    }
}
