import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Protocols that match responses in the order of the requests of a channel.
@Suite(.simulated, .timeLimit(.seeded))
struct ChannelTests {}

extension ChannelTests {
    private func simulate(
        _ codec: LaneCodec = LaneCodec(),
        _ options: ClientOptions = ClientOptions(),
        _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, Client) async throws -> Void
    ) throws {
        try TrunklineTests.simulate(speaking: codec, options: options, handler: { LaneCodec.answer(to: $0) }) {
            try await body($0.network, $0.server, $1)
        }
    }

    private func ask(_ text: String, on channel: UInt64) -> Request { LaneCodec.ask(text, on: channel) }

    @Test func aSlowChannelDoesNotHoldUpTheOthers() throws {
        try simulate { network, _, client in
            let slow = client.start(ask("slow", on: 1))
            let behind = client.start(ask("behind", on: 1))
            let begin = network.clock.now
            for channel in [2, 3, 2] as [UInt64] {
                let body = try await client.send(ask("other \(channel)", on: channel)).body
                #expect(body == Bytes("other \(channel)"))
            }
            #expect(begin.duration(to: network.clock.now) < .milliseconds(500))
            let bodies = try await [slow.value.body, behind.value.body]
            #expect(bodies == ["slow", "behind"])
        }
    }

    @Test func eachChannelHasItsOwnLimit() throws {
        try simulate(LaneCodec(limit: 2)) { network, server, client in
            let handles = (0..<6).map { client.start(ask("\($0) slow", on: 1)) }
            try await network.clock.sleep(for: .milliseconds(500))
            #expect(await server.journal.requestCount == 2)
            #expect(await client.metrics.waiting.forTurn == 4)
            _ = try await client.send(ask("passes", on: 2))
            #expect(await server.journal.requestCount == 3)
            handles[3].cancel()
            for (index, handle) in handles.enumerated() where index != 3 {
                let body = try await handle.value.body
                #expect(body == Bytes("\(index) slow"))
            }
            #expect(await server.journal.requestCount == 6)
        }
    }

    @Test func nothingFollowsARequestOnItsChannel() throws {
        try simulate { network, server, client in
            let holder = client.start(ask("hold slow", on: 1))
            let after = client.start(ask("after", on: 1))
            try await client.enqueue(ask("message", on: 1))
            _ = try await client.send(ask("passes", on: 2))
            #expect(await server.journal.requests.map(\.body) == ["hold slow", "passes"])
            _ = try await (holder.value, after.value)
            try await server.waitForRequests(4)
        }
    }

    /// The server never answers on channel 1, which is full.
    @Test func aChannelThatStaysFullCostsTheLink() throws {
        let options = ClientOptions { options in
            options.requests.quarantine = .seconds(5)
            options.liveness.maximumStalls = nil
        }
        try simulate(LaneCodec(limit: 2), options) { network, server, client in
            for handle in (0..<2).map({ _ in client.start(ask("none", on: 1), timeout: .seconds(1)) }) {
                #expect(await failure(of: handle)?.code == .timedOut)
            }
            let late = await failure(of: client.start(ask("late", on: 1), timeout: .seconds(1)))
            #expect(late?.code == .timedOut && late?.fate == .notSent)
            #expect(late?.message == "deadline exceeded; earlier requests of its channel are unanswered")
            _ = try await client.send(ask("other", on: 2))
            #expect(await client.metrics.connection.links == 1)
            let body = try await client.send(ask("on the next link", on: 1), timeout: .seconds(20)).body
            #expect(body == "on the next link")
            let metrics = await client.metrics
            #expect(metrics.connection.links == 2)
            #expect(network.clock.now < .init(offset: .seconds(8)))
        }
    }

    /// The other channel is answered all the time.
    @Test func aResponseThatIsLeftOutCostsTheLink() throws {
        let options = ClientOptions { $0.liveness.maximumStalls = 3 }
        try simulate(LaneCodec(), options) { _, _, client in
            for _ in 0..<3 {
                #expect(await client.metrics.connection.links <= 1)
                let error = await failure(of: client.start(ask("none", on: 1), timeout: .seconds(1)))
                #expect(error?.code == .timedOut && error?.fate == .unknown)
                _ = try await client.send(ask("other", on: 2))
            }
            let body = try await client.send(ask("echo", on: 1)).body
            #expect(body == "echo")
            #expect(await client.metrics.connection.links == 2)
        }
    }

    /// A channel error: everything on the channel has failed, and the others go on.
    @Test func aChannelEndsWithEverythingThatIsInFlightOnIt() throws {
        try simulate { network, server, client in
            let lost = (0..<5).map { client.start(ask("none \($0)", on: 7)) }
            let other = client.start(ask("slow", on: 8))
            let error = client.start(ask("fail", on: 7))
            for handle in lost + [error] {
                let failure = await failure(of: handle)
                #expect(failure?.code == .interrupted && failure?.fate == .unknown)
            }
            _ = try await other.value
            _ = try await client.send(ask("echo", on: 7))
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// Parked requests go to the next link, in order.
    @Test func waitingRequestsSurviveTheirLink() throws {
        try simulate(LaneCodec(limit: 1)) { network, server, client in
            let first = client.start(ask("none", on: 1))
            let waiting = (0..<20).map { client.start(ask("\($0)", on: $0 % 2 == 0 ? 1 : 2), timeout: .seconds(20)) }
            try await network.clock.sleep(for: .milliseconds(50))
            await server.disconnectAll()
            #expect(await failure(of: first)?.code == .connectionLost)
            for (index, handle) in waiting.enumerated() {
                let body = try await handle.value.body
                #expect(body == Bytes("\(index)"))
            }
            let onOne = await server.journal.requests.filter { $0["channel"] == 1 }.map { String($0.body) }
            #expect(onOne == ["none"] + (0..<10).map { "\($0 * 2)" })
        }
    }

    /// Answers of handlers that run at once have no order, on a channel either.
    @Test func requestsOfTheServerCannotBeServed() throws {
        try simulate { _, _, client in
            do throws(ClientError) {
                try await client.serve { _ in nil }
                Issue.record("it serves")
            } catch {
                #expect(error.code == .invalidRequest && error.fate == .notSent)
            }
        }
    }

    /// The exclusive request waits for those before it, also for one that waits for its channel.
    @Test func anExclusiveRequestKeepsItsPlaceAmongTheChannels() throws {
        try simulate(LaneCodec(limit: 1)) { network, server, client in
            let first = [1, 1, 2].map { client.start(ask("\($0) slow", on: $0), timeout: .seconds(20)) }
            try await network.clock.sleep(for: .milliseconds(100))
            let alone = client.start(
                ask("alone slow", on: 3),
                timeout: .seconds(20),
                options: CallOptions(isExclusive: true)
            )
            let last = client.start(ask("last", on: 4), timeout: .seconds(20))
            for handle in first + [alone, last] { _ = try await handle.value }
            let order = await server.journal.requests.map { String($0.body) }
            #expect(Set(order.prefix(3)) == ["1 slow", "2 slow"] && Array(order.suffix(2)) == ["alone slow", "last"])
        }
    }

    /// The server never answers on channel 1. An abandoned request there is no reason to wait for ever.
    @Test func anExclusiveRequestDoesNotWaitForEverForAnAbandonedOne() throws {
        let options = ClientOptions { $0.requests.quarantine = .seconds(5) }
        try simulate(LaneCodec(), options) { network, _, client in
            let none = client.start(ask("none", on: 1))
            try await network.clock.sleep(for: .milliseconds(100))
            none.cancel()
            let exclusive = CallOptions(isExclusive: true)
            let body = try await client.send(ask("alone", on: 2), timeout: .seconds(20), options: exclusive).body
            #expect(body == "alone")
            #expect(await client.metrics.connection.links == 2)
        }
    }

    /// The channel is held for a minute, and requests behind it time out.
    @Test func requestsThatTimeOutInTheLineOfAChannelAreForgotten() throws {
        try simulate(LaneCodec(limit: 1)) { network, _, client in
            let holder = client.start(ask("none", on: 1), timeout: .seconds(100))
            let first = client.start(ask("first", on: 1), timeout: .seconds(100))
            for _ in 0..<50 {
                let results = await client.send(all: (0..<20).map { ask("\($0)", on: 1) }, timeout: .seconds(1))
                for result in results {
                    guard case .failure(let error) = result else {
                        Issue.record("it passed the first")
                        continue
                    }
                    #expect(error.code == .timedOut && error.fate == .notSent)
                }
                _ = try await client.send(ask("echo", on: 2))
            }
            #expect(await client.metrics.waiting.forTurn == 1)
            holder.cancel()
            first.cancel()
            for handle in [holder, first] { #expect(await failure(of: handle)?.code == .cancelled) }
        }
    }

    /// Calls on a few channels, some of which are slow, held or full, while calls are cancelled and links break.
    @Test func everyCallReceivesItsOwnResponse() throws {
        for seed in seeds(30) {
            var random = SeededGenerator(seed: seed)
            let codec = LaneCodec(limit: [1, 3, Int.max].randomElement(using: &random)!)
            let options = ClientOptions { options in
                options.requests.maximumInFlight = Bool.random(using: &random) ? 8 : 100
                options.requests.retry = .never
            }
            let breaks = Bool.random(using: &random)
            let network = SimulatedNetwork(seed: seed)
            try network.runBlocking {
                let server = try await network.serve(at: "a:1", speaking: codec) { LaneCodec.answer(to: $0) }
                let client = network.client(of: ["a:1"], speaking: codec, options: options)
                await withTaskGroup { group in
                    for caller in 0..<12 {
                        group.addTask(executorPreference: network.executor) {
                            var random = SeededGenerator(seed: seed * 100 + UInt64(caller))
                            for call in 0..<12 {
                                let end = ["echo", "slow", "soon"].randomElement(using: &random)!
                                let begin = Int.random(in: 0..<6, using: &random) == 0 ? "hold " : ""
                                let text = "\(begin)\(caller)-\(call) \(end)"
                                let request = ask(text, on: .random(in: 1...4, using: &random))
                                let handle = client.start(request, timeout: .seconds(300))
                                if Int.random(in: 0..<4, using: &random) == 0 {
                                    let delay = Int.random(in: 0...300, using: &random)
                                    try? await network.clock.sleep(for: .milliseconds(delay))
                                    handle.cancel()
                                }
                                do throws(ClientError) {
                                    let body = try await handle.value.body
                                    #expect(body == Bytes(text), "seed \(seed)")
                                } catch {
                                    let isLost = breaks && error.code == .connectionLost
                                    #expect(error.code == .cancelled || isLost, "seed \(seed): \(error)")
                                }
                            }
                        }
                    }
                    if breaks {
                        group.addTask(executorPreference: network.executor) {
                            for _ in 0..<5 {
                                try? await network.clock.sleep(for: .seconds(2))
                                await server.disconnectAll()
                            }
                        }
                    }
                }
                let metrics = await client.metrics
                #expect(metrics.requests == 144 && metrics.pending == 0, "seed \(seed)")
                #expect(metrics.requests == metrics.responses + metrics.failed, "seed \(seed)")
                #expect(metrics.unknownResponses == 0, "seed \(seed)")
                if !breaks { #expect(metrics.connection.links == 1, "seed \(seed)") }
                #expect(await client.diagnostics.audit() == [], "seed \(seed)")
                await client.close()
                await server.stop()
            }
            #expect(network.openLinks == 0, "seed \(seed)")
        }
    }
}
