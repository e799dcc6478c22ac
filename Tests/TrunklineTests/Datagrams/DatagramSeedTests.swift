import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// Calls over networks that lose, delay, duplicate and refuse datagrams, each decided by its seed.
@Suite(.simulated, .timeLimit(.seeded)) struct DatagramSeedTests {}

extension DatagramSeedTests {
    @Test func everyCallEndsOnceWithItsOwnAnswer() throws {
        for seed in seeds(30) {
            var random = SeededGenerator(seed: seed)
            // With few serials, a datagram that the network has duplicated may find another request under its number. What
            // the client has sent twice must not.
            let serials: UInt64 = [20, 65_535, 1 << 32 - 1].randomElement(using: &random)!
            let duplication = serials == 20 ? 0 : Double.random(in: 0...0.5, using: &random)
            let conditions = lossy(.random(in: 0...0.5, using: &random), duplication: duplication)
            let codec = standardLayout(serials: 1...serials)
            let tries = Int.random(in: 1...8, using: &random)
            let options = repeating(tries: tries) { $0.requests.quarantine = .seconds(60) }
            try simulateDatagrams(seed: seed, conditions: conditions, speaking: codec, options: options) {
                network,
                server,
                client in
                await withTaskGroup { group in
                    for caller in 0..<6 {
                        group.addTask(executorPreference: network.executor) {
                            await Self.call(client, caller, tries: tries, in: network, seed: seed)
                        }
                    }
                    group.addTask(executorPreference: network.executor) { await Self.disturb(network, seed: seed) }
                }
                network.setConditions(NetworkConditions())
                try await expectEcho("at the end", by: client, timeout: .seconds(120))
                // Whoever got an answer was heard; who was not sent was not.
                let received = await server.received.map(\.body)
                #expect(!received.contains("never"), "seed \(seed)")
            }
        }
    }

    private static func call(_ client: Client, _ caller: Int, tries: Int, in network: SimulatedNetwork, seed: UInt64)
        async
    {
        var random = SeededGenerator(seed: seed &* 31 &+ UInt64(caller))
        for call in 0..<10 {
            let text = Bytes("\(caller)-\(call)")
            let retry = Bool.random(using: &random) ? RetryPolicy.idempotent(tries: tries) : .ifUnsent
            let timeout = Timeout.after(.milliseconds(.random(in: 500...20_000, using: &random)))
            do throws(ClientError) {
                let reply = try await client.send(ask(text), timeout: timeout, options: CallOptions(retry: retry))
                #expect(reply.body == text, "seed \(seed)")
            } catch {
                #expect([.timedOut, .connectionLost, .unavailable].contains(error.code), "seed \(seed): \(error)")
                if retry == .ifUnsent { #expect(!"\(error)".contains("(try "), "seed \(seed): \(error)") }
            }
            try? await network.clock.sleep(for: .milliseconds(.random(in: 0...500, using: &random)))
        }
    }

    private static func disturb(_ network: SimulatedNetwork, seed: UInt64) async {
        var random = SeededGenerator(seed: seed ^ 0xd15)
        for _ in 0..<6 {
            switch Int.random(in: 0..<4, using: &random) {
            case 0: network.partition("db")
            case 1: network.refuseConnections(to: "db")
            case 2: network.setConditions(lossy(.random(in: 0...0.9, using: &random), duplication: 0))
            default: break
            }
            try? await network.clock.sleep(for: .milliseconds(.random(in: 100...5000, using: &random)))
            network.heal("db")
            network.acceptConnections(to: "db")
        }
    }
}
