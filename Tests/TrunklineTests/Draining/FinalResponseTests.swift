import Synchronization
import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Servers that stop answering on a link, responses that end with the connection, and what codecs learn
/// about sent frames.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct FinalResponseTests {}

extension FinalResponseTests {
    /// Runs `body` with servers at "a:1" and "b:1", and a client of both.
    private func simulate(
        seed: UInt64 = 1,
        options: ClientOptions = ClientOptions(),
        speaking codec: NotingCodec = NotingCodec(),
        serverOptions: LoopbackServer.Options = LoopbackServer.Options(),
        handler: @escaping LoopbackServer.Handler,
        _ body: @escaping @Sendable (SimulatedNetwork, [LoopbackServer], Client) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: seed)
        try network.runBlocking {
            var servers: [LoopbackServer] = []
            for address in ["a:1", "b:1"] as [Endpoint] {
                servers.append(
                    try await network.serve(
                        at: address,
                        speaking: codec,
                        options: serverOptions,
                        handler: handler
                    )
                )
            }
            let client = network.client(of: ["a:1", "b:1"], speaking: codec, options: options)
            try await body(network, servers, client)
            await client.close()
            for server in servers { await server.stop() }
        }
        #expect(network.openLinks == 0)
    }

    private func ask(_ text: String) -> Request { Request(body: Bytes(text)) }

    /// Sends `text` and expects it back.
    private func expect(_ text: String, by client: Client) async throws {
        let reply = try await client.send(ask(text))
        #expect(reply.body == Bytes(text))
    }

    /// A request that begins with "last" or "slow" gets the last response of its link, "slow" after a second. A request
    /// that begins with "never" gets none. Others are echoed.
    private static let handler: LoopbackServer.Handler = { request in
        let text = String(request.body)
        if text.hasPrefix("last") { return .reply(Bytes("!" + text)) }
        if text.hasPrefix("never") { return .noReply }
        return text.hasPrefix("slow") ? .after(.seconds(1), .reply(Bytes("!" + text))) : .echo
    }

    /// Regression: the link drained because of the goAway, and the request behind the last response waited there
    /// until its deadline.
    @Test func aLastResponseEndsItsLinkAlsoWithAGoAway() throws {
        let both = Reaction.sequence([.reply("!both"), .garbage("~\n")])
        let handler: LoopbackServer.Handler = { $0.body == "both" ? both : Self.handler($0) }
        try simulate(handler: handler) { _, _, client in
            let results = await client.send(all: [ask("both"), ask("never answered")])
            #expect(try results[0].get().body == "both")
            guard case .failure(let error) = results[1] else {
                Issue.record("expected an error")
                return
            }
            #expect(error.code == .connectionLost && error.fate == .unknown)
            try await expect("elsewhere", by: client)
        }
    }

    @Test func afterALastResponseTheNextLinkGoesToTheSameServerAtOnce() throws {
        try simulate(handler: Self.handler) { network, servers, client in
            var reports = client.disconnects.makeAsyncIterator()
            for round in 0..<100 {
                try await expect("last \(round)", by: client)
                let report = await reports.next()
                #expect(report?.cause == .goAway && report?.endedBy == .server && report?.requestsLost == 0)
            }
            try await expect("a", by: client)
            let metrics = await client.metrics
            #expect(metrics.connection.links == 101 && metrics.connection.failedAttempts == 0)
            #expect(await servers[0].received.count == 101)
            #expect(await servers[1].received.isEmpty)
            // A hundred links at the network's latency, without a back-off between them.
            #expect(network.clock.now < .init(offset: .seconds(2)))
        }
    }

    /// Regression: these requests waited until their deadlines as long as the server kept the link open.
    @Test func requestsBehindTheLastResponseAreLostAtOnce() throws {
        try simulate(handler: Self.handler) { network, servers, client in
            _ = try await client.send(ask("a"))
            let handles = ["b", "last", "never 1", "never 2"].map { client.start(ask($0)) }
            try await expectBody("b", of: handles[0])
            try await expectBody("last", of: handles[1])
            for handle in handles[2...] {
                let error = await failure(of: handle)
                #expect(
                    error?.code == .connectionLost && error?.fate == .unknown && error?.endpoint == servers[0].endpoint
                )
                #expect((error?.cause as? TransportError)?.code == .closedByPeer)
            }
            #expect(network.clock.now < .init(offset: .seconds(1)))
            try await expect("c", by: client)
            #expect(await client.metrics.pending == 0)
        }
    }

    @Test func requestsThatMayBeRetriedGoOutOnTheNextLink() throws {
        // Every tenth response is the last of its link, and sixteen requests are always in flight.
        let options = ClientOptions {
            $0.requests.maximumInFlight = 16
            $0.requests.retryBudget = nil
        }
        let count = Mutex(0)
        let handler: LoopbackServer.Handler = { request in
            let number = count.withLock { count in
                count += 1
                return count
            }
            // The link is closed, because responses behind the last one are accepted if they arrive in the same read.
            return number % 10 == 0 ? .sequence([.reply(Bytes("!" + String(request.body))), .close]) : .echo
        }
        try simulate(options: options, handler: handler) { network, servers, client in
            let results = await client.send(
                all: (0..<400).map { ask("\($0)") },
                timeout: .seconds(60),
                options: CallOptions(retry: .idempotent(tries: 100))
            )
            for (index, result) in results.enumerated() {
                #expect((try? result.get())?.body == Bytes("\(index)"))
            }
            #expect(await client.metrics.retries > 0)
        }
    }

    @Test func aDrainingLinkEndsWithItsLastResponse() throws {
        try simulate(handler: Self.handler) { network, servers, client in
            let handles = ["slow", "never"].map { client.start(ask($0), timeout: .seconds(60)) }
            _ = try await servers[0].waitForRequest { $0.body == "never" }
            try await client.switchEndpoint(to: servers[1].endpoint)
            try await expectBody("slow", of: handles[0])
            let error = await failure(of: handles[1])
            #expect(error?.code == .connectionLost && error?.fate == .unknown && error?.endpoint == servers[0].endpoint)
            #expect(network.clock.now < .init(offset: .seconds(2)))
            try await expect("a", by: client)
        }
    }

    /// The last response of the link is the answer to its handshake. Such a link is never ready, and the next attempts
    /// follow after a back-off.
    @Test func aHandshakeWithALastResponseFailsTheAttempt() throws {
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 4
            options.handshake.perform = { handshaker in
                let reply = try await handshaker.send(Request(body: "last"))
                #expect(reply.body == "last")
            }
        }
        try simulate(options: options, handler: Self.handler) { network, servers, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(error?.code == .unavailable && error?.fate == .notSent)
            #expect(await client.metrics.connection.attempts == 4)
        }
    }

    /// Otherwise a server could make the client connect again and again without a wait.
    @Test func anUnsolicitedLastResponseIsFollowedByABackoff() throws {
        let serverOptions = LoopbackServer.Options { $0.onConnect = .garbage("!\n") }
        let codec = NotingCodec(isStrict: false)
        try simulate(speaking: codec, serverOptions: serverOptions, handler: Self.handler) { network, servers, client in
            try await client.connect()
            try await network.clock.sleep(for: .seconds(60))
            #expect(await client.metrics.connection.attempts < 60)
        }
    }

    // MARK: The end of the connection

    @Test func theEndOfTheConnectionCompletesAReply() throws {
        let handler: LoopbackServer.Handler = { .sequence([.garbage($0.body), .close]) }
        try simulate(handler: handler) { network, servers, client in
            for index in 0..<10 { try await expect("\(index)", by: client) }
        }
    }

    @Test func theEndOfADrainingLinkCompletesAReply() throws {
        let handler: LoopbackServer.Handler = { .after(.seconds(1), .sequence([.garbage($0.body), .close])) }
        try simulate(handler: handler) { network, servers, client in
            let handle = client.start(ask("a"))
            _ = try await servers[0].waitForRequest { $0.body == "a" }
            try await client.switchEndpoint(to: servers[1].endpoint)
            try await expectBody("a", of: handle)
        }
    }

    @Test func aConnectionWithoutAClientReceivesTheReplyThatTheEndCompletes() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "a:1", speaking: NotingCodec()) { _ in
                .sequence([.reply("!one"), .garbage("two"), .close])
            }
            let connection = network.connection(to: ["a:1"], speaking: NotingCodec())
            try await connection.write(Frame(.request, body: "one"))
            try await connection.write(Frame(.request, body: "two"))
            try await connection.withFrames { stream in
                var frames = stream.makeAsyncIterator()
                let one = await frames.next()
                #expect(one?.body == "one" && one?.isFarewell == true)
                #expect(await frames.next()?.body == "two")
            }
            await connection.close()
            await server.stop()
        }
    }

    // MARK: Sent frames

    /// The codec compares every response with the sent frames that it was notified of. A notification too many, too
    /// few, too late or out of order would be a protocol violation.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func codecsAreNotifiedOfEverySentFrameOnceAndInOrder(_ seed: UInt64) throws {
        let options = ClientOptions { options in
            options.handshake.perform = { handshaker in
                let reply = try await handshaker.send(Request(body: "hello"))
                #expect(reply.body == "hello")
            }
            options.failover.errorRate = nil
        }
        try simulate(seed: seed, options: options, handler: { _ in .echo }) { network, servers, client in
            var handles: [PendingRequest<Response>] = []
            for index in 0..<300 {
                let padding = String(repeating: "x", count: index % 50 == 7 ? 200_000 : index % 7)
                handles.append(
                    client.start(ask("\(index)\(padding)"), options: CallOptions(retry: .idempotent(tries: 50)))
                )
                if index % 5 == Int(seed % 5) { handles[index / 2].cancel() }
                if index % 40 == 39 { try await network.clock.sleep(for: .microseconds(50 * Int64(seed))) }
                if index % 90 == 60 { network.reset("a") }
                if index % 90 == 80 { try await client.switchEndpoint(to: servers[index % 180 < 90 ? 1 : 0].endpoint) }
            }
            for handle in handles { _ = try? await handle.value }
            let metrics = await client.metrics
            #expect(metrics.connection.disconnects[.protocolViolation] == nil)
            #expect(metrics.pending == 0 && metrics.responses > 100)
        }
    }
}
