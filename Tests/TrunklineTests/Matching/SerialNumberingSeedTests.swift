import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// Serials that cannot be guessed: drawn at random, and with more than 64 bits, as those of STUN.
@Suite(.simulated, .timeLimit(.seeded)) struct SerialNumberingSeedTests {}

extension SerialNumberingSeedTests {
    /// The header of STUN (RFC 8489 §5): the type, the length, a constant, and 96 bits of the transaction.
    private static func stun(usesRandomSerials: Bool = true) -> FrameLayout {
        FrameLayout {
            Field.type(UInt16.self)
            Field.length(UInt16.self, counting: .body)
            Field.constant([0x21, 0x12, 0xA4, 0x42])
            Field.serial(width: 12)
            Field.body
        }
        .roles { $0.usesRandomSerials = usesRandomSerials }
    }

    private static func bytes(_ identifier: UInt128, _ body: Bytes) -> Bytes {
        let head: [UInt8] = [4, 0x10, 0, UInt8(body.count), 0x21, 0x12, 0xA4, 0x42]
        return Bytes(head + (0..<12).map { UInt8(truncatingIfNeeded: identifier >> UInt128(8 * (11 - $0))) }) + body
    }

    @Test(arguments: [true, false], [true, false])
    func everyRequestHasAnIdentifierOfItsOwn(_ isRandom: Bool, _ usesDatagrams: Bool) throws {
        var all: [[UInt128]] = []
        for seed in [1, 1, 2] as [UInt64] {
            let seen = Lock<[UInt128]>([])
            let body: @Sendable (LoopbackServer, Client) async throws -> Void = { server, client in
                let replies = await client.send(all: (0..<50).map { ask($0) })
                for (index, reply) in replies.enumerated() {
                    let body = try reply.get().body
                    #expect(body == Bytes("\(index)"))
                }
                let received = await server.received.map(\.wideSerial)
                seen.withLock { $0 = received }
            }
            let layout = Self.stun(usesRandomSerials: isRandom)
            if usesDatagrams {
                try simulateDatagrams(seed: seed, speaking: layout) { _, server, client in
                    try await body(server, client)
                }
            } else {
                try simulate(seed: seed, speaking: layout) { service, client in try await body(service.server, client) }
            }
            all.append(seen.withLock { $0 })
        }
        let serials = all[0]
        #expect(serials.count == 50 && Set(serials).count == 50)
        #expect(Set(serials.map { $0 >> 64 }).count > 45 && serials.allSatisfy { $0 >> 96 == 0 })
        // The seed decides all of it.
        #expect(all[1] == serials && all[2] != serials)
        let low = serials.map { UInt64(truncatingIfNeeded: $0) }
        #expect((low.sorted() == Array(1...50)) == !isRandom)
    }

    /// A response is matched by all bits. A wrong one, of which 64 are right, ends nothing.
    @Test(arguments: [true, false]) func aResponseWithSomeRightBitsIsDiscarded(_ usesDatagrams: Bool) throws {
        let handler: LoopbackServer.Handler = { request in
            let right = request.wideSerial
            let wrong = [right ^ 1 << 64, right ^ 1 << 95, right & UInt128(UInt64.max)]
            return .sequence(wrong.map { .garbage(Self.bytes($0, "forged")) } + [.after(.seconds(1), .echo)])
        }
        let body: @Sendable (Client) async throws -> Void = { client in
            let reply = try await client.send(ask("right"))
            #expect(reply.body == "right")
            let metrics = await client.metrics
            #expect(metrics.failed == 0 && metrics.connection.links == 1)
            #expect(metrics.connection.droppedDatagrams == (usesDatagrams ? 3 : 0))
            #expect(metrics.unknownResponses == (usesDatagrams ? 0 : 3))
        }
        if usesDatagrams {
            try simulateDatagrams(speaking: Self.stun(), handler: handler) { _, _, client in try await body(client) }
        } else {
            try simulate(speaking: Self.stun(), handler: handler) { _, client in try await body(client) }
        }
    }

    /// Regression: it was taken for the response to an abandoned request, whose serial was free for another one.
    @Test(arguments: [true, false]) func aLateResponseWithSomeRightBitsIsDiscarded(_ usesDatagrams: Bool) throws {
        let handler: LoopbackServer.Handler = { request in
            let wrong = Self.bytes(request.wideSerial ^ 1 << 64, "forged")
            return .sequence([.after(.seconds(1), .garbage(wrong)), .after(.seconds(2), .echo)])
        }
        let late = Lock<[Bytes]>([])
        let options = ClientOptions { options in
            options.requests.lateResponse = { response in late.withLock { $0.append(response.response.body) } }
        }
        let body: @Sendable (SimulatedNetwork, Client) async throws -> Void = { network, client in
            let error = await failure(of: client.start(ask("right"), timeout: .milliseconds(500)))
            #expect(error?.code == .timedOut)
            try await network.clock.sleep(for: .seconds(5))
            let metrics = await client.metrics
            #expect(metrics.lateResponses == 1 && metrics.heldSerials == 0)
            #expect(metrics.connection.droppedDatagrams == (usesDatagrams ? 1 : 0))
            #expect(metrics.unknownResponses == (usesDatagrams ? 0 : 1))
        }
        if usesDatagrams {
            try simulateDatagrams(speaking: Self.stun(), options: options, handler: handler) { network, _, client in
                try await body(network, client)
            }
        } else {
            try simulate(speaking: Self.stun(), options: options, handler: handler) { service, client in
                try await body(service.network, client)
            }
        }
        #expect(late.withLock { $0 } == ["right"])
    }

    /// With losses: a request keeps its identifier when it is sent again, and gets another one on the next link.
    @Test func aRepetitionHasTheSameIdentifier() throws {
        for seed in seeds(5) {
            // So few losses that all of a request's seven copies are lost in none of thousands of seeds.
            try simulateDatagrams(
                seed: seed,
                conditions: lossy(0.05, duplication: 0.1),
                speaking: Self.stun(),
                options: repeating()
            ) { network, server, client in
                try await withThrowingTaskGroup { group in
                    for number in 0..<50 {
                        group.addTask(executorPreference: network.executor) {
                            let reply = try await client.send(ask(number))
                            #expect(reply.body == Bytes("\(number)"))
                        }
                    }
                    try await group.waitForAll()
                }
                #expect(await client.metrics.repetitions > 0)
                let received = await server.received
                let identifiers = Dictionary(grouping: received) { $0.body }.mapValues { Set($0.map(\.wideSerial)) }
                #expect(identifiers.count == 50 && identifiers.values.allSatisfy { $0.count == 1 }, "seed \(seed)")
            }
        }
    }

    /// 16 random bits, as in DNS: with few of them, most serials are in use at times.
    @Test func aNarrowRangeIsDrawnFrom() throws {
        let layout = FrameLayout {
            Field.type(UInt16.self)
            Field.serial(UInt8.self)
            Field.length(UInt16.self, counting: .body)
            Field.body
        }
        .roles {
            $0.serials = 1...40
            $0.usesRandomSerials = true
        }
        let options = ClientOptions { $0.requests.datagramWindow = 40 }
        try simulateDatagrams(speaking: layout, options: options) { _, server, client in
            let replies = await client.send(all: (0..<400).map { ask($0) })
            for (index, reply) in replies.enumerated() {
                let body = try reply.get().body
                #expect(body == Bytes("\(index)"))
            }
            let serials = await server.received.map(\.serial)
            #expect(Set(serials) == Set(1...40) && serials.prefix(40) != Array(1...40)[...])
        }
    }
}
