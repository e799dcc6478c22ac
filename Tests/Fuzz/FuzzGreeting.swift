import Trunkline
import TrunklineTesting

/// A client in a simulated network, whose server says what the input says: when somebody connects, and to each request.
enum FuzzGreeting {
    static func run(_ input: inout FuzzInput) {
        let flags = input.next()
        let speech = input.pieces().map { Bytes($0) }
        let network = SimulatedNetwork(seed: UInt64(flags))
        do {
            try network.runBlocking { try await converse(on: network, flags, speech) }
        } catch {
            fatalError("the simulation did not end well: \(error)")
        }
        guard network.openLinks == 0 else { fatalError("\(network.openLinks) links are left") }
    }

    private static func converse(on network: SimulatedNetwork, _ flags: UInt8, _ speech: [Bytes]) async throws {
        let options = LoopbackServer.Options { options in
            options.onConnect = .garbage(speech[0])
        }
        let server = try await network.startServer(at: "db:7000", speaking: .standard, options: options) { request in
            if flags & 1 != 0 { return .sequence([.garbage(speech[1]), .echo]) }
            return request.type == 0x410 ? .garbage(speech[1]) : .garbage(speech[2])
        }
        let client = Client(
            to: "db:7000",
            speaking: .standard,
            options: ClientOptions { options in
                options.greeting.timeout = .seconds(1)
                options.reconnecting.maximumAttempts = 2
                options.greeting.perform = { greeter in
                    if flags & 2 != 0 { _ = try await greeter.nextFrame() }
                    _ = try await greeter.send(Request(type: 0x410, body: "login"))
                    if flags & 4 != 0 { _ = try await greeter.nextFrame() }
                }
            },
            on: network.loops
        )
        let pushes = client.pushes()
        _ = try? await client.send(Request(type: 0x411, body: "first"), timeout: .seconds(2))
        _ = await client.send(all: [Request(type: 0x411), Request(type: 0x412)], timeout: .seconds(2))
        if flags & 8 != 0 { await client.close() } else { await client.closeNow() }
        for await _ in pushes {}
        await server.stop()
    }
}
