import Trunkline
import TrunklineTesting

/// A client in a simulated network. Its server sends parts of the input after it accepts a link, and for each request.
enum FuzzHandshake {
    static func run(_ input: inout FuzzInput) {
        let flags = input.next()
        let speech = input.pieces().map { Bytes($0) }
        let network = SimulatedNetwork(seed: UInt64(flags))
        do {
            try network.runBlocking {
                switch flags >> 4 & 3 {
                case 0: try await converse(on: network, in: .standard, flags, speech)
                case 1: try await converse(on: network, in: bySerial, flags, speech)
                case 2: try await converse(on: network, in: inOrder, flags, speech)
                default: try await converse(on: network, in: withSession, flags, speech)
                }
            }
        } catch {
            fatalError("the simulation did not end well: \(error)")
        }
        guard network.openLinks == 0 else { fatalError("\(network.openLinks) links are left") }
    }

    // MARK: Protocols

    private static let bySerial = LengthPrefixedCodec(UInt8.self, maximumFrameSize: 200)
        .serial(at: 0, UInt16.self, numbers: 50...)
        .reading { frame in
            if frame.body.count > 9 { frame.kind = .part }
        }

    private static let inOrder = DelimitedCodec(delimiter: "\n", maximumFrameSize: 200)
        .heartbeat(ping: "PING", pong: "PONG")
        .reading { frame in
            switch frame.body.first {
            case UInt8(ascii: "+"): frame.kind = .part
            case UInt8(ascii: "!"): frame.kind = .push
            case UInt8(ascii: "-"): frame.isErrorResponse = true
            case UInt8(ascii: "."): frame.kind = .goAway
            default: break
            }
        }

    private static let withSession = FrameLayout {
        Field.type(UInt8.self)
        Field.serial(UInt8.self)
        Field.integer("session", UInt16.self)
        Field.bytes("token", 2)
        Field.length(UInt8.self, counting: .body)
        Field.body
    }
    .roles {
        $0.ping = 1
        $0.push = 2
        $0.cancel = 3
        $0.part = .bit(15, of: "session")
        $0.goAway = 4
        $0.retryAfter = .seconds(in: "session")
        $0.requests = 0x10...
        $0.serials = 50...
    }
    .requiringBody(inResponsesTo: 0x12...0x12)

    // MARK: Conversation

    private static func converse(
        on network: SimulatedNetwork,
        in codec: some FrameCodec,
        _ flags: UInt8,
        _ speech: [Bytes]
    ) async throws {
        // Types of 16 bits if the protocol has types; two bytes for the serial if it is in the body.
        let types: UInt32 = codec is FrameLayout ? flags & 0x30 == 0 ? 0x410 : 0x10 : 0
        func request(_ number: UInt32, _ text: String) -> Request {
            Request(type: types == 0 ? 0 : types + number, body: Bytes("12\(text)".utf8))
        }
        let options = LoopbackServer.Options { options in
            options.onConnect = .garbage(speech[0])
        }
        let server = try await network.startServer(at: "db:7000", speaking: codec, options: options) { request in
            if flags & 1 != 0 { return .sequence([.garbage(speech[1]), .echo]) }
            return request.body.dropFirst(2).elementsEqual("login".utf8) ? .garbage(speech[1]) : .garbage(speech[2])
        }
        let (login, first, second) = (request(0, "login"), request(1, "first"), request(2, "second"))
        let client = Client(
            to: "db:7000",
            speaking: codec,
            options: ClientOptions { options in
                options.handshake.timeout = .seconds(1)
                options.reconnecting.maximumAttempts = 2
                options.handshake.perform = { handshaker in
                    if flags & 2 != 0 { _ = try await handshaker.nextMessage() }
                    let answer = try await handshaker.send(login)
                    if flags & 0x30 == 0x30 {
                        try await handshaker.setDefault("session", to: answer["session"] ?? 0)
                        try await handshaker.setDefault("token", to: answer[bytes: "token"] ?? [])
                    }
                    if flags & 4 != 0 { _ = try await handshaker.nextMessage() }
                }
            },
            on: network.loops
        )
        let pushes = client.pushes()
        if flags & 0x40 != 0 {
            let reply = client.stream(first, timeout: .seconds(2))
            do { for try await _ in reply {} } catch {}
        } else {
            _ = try? await client.send(first, timeout: .seconds(2))
        }
        _ = await client.send(all: [first, second], timeout: .seconds(2))
        if flags & 8 != 0 { await client.close() } else { await client.closeNow() }
        for await _ in pushes {}
        await server.stop()
    }
}
