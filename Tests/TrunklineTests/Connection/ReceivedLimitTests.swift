import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// Servers that send more than a limit of the client allows. They do not violate the protocol.
///
/// Regression: an idempotent request was sent three times, and each time fetched a response of 300 MB that was larger
/// than `inbound.maximumUndecoded`.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ReceivedLimitTests {}

extension ReceivedLimitTests {
    private static let large = Bytes([UInt8](repeating: 0x61, count: 1_000_000))
    private static let handler: LoopbackServer.Handler = { $0.body == "large" ? .reply(large) : .echo }

    /// Expects that the reply to "large" fails because of a limit that the error names, and that it was requested once.
    private func expectOverload(
        naming limit: String,
        speaking codec: some FrameCodec,
        server serverCodec: some FrameCodec,
        type: UInt32 = 0,
        options: ClientOptions = ClientOptions()
    ) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: serverCodec, handler: Self.handler)
            let client = network.client(of: ["db:7000"], speaking: codec, options: options)
            let idempotent = CallOptions(retry: .idempotent())
            let error = await failure { () throws(ClientError) in
                try await client.send(Request(type: type, body: "large"), options: idempotent)
            }
            #expect(error?.code == .overloaded && error?.fate == .unknown, "\(error as Any)")
            #expect((error?.cause as? FrameError)?.message.contains(limit) == true, "\(error as Any)")
            #expect(await server.received.count == 1)
            #expect(await client.metrics.retries == 0)
            let causes = await client.metrics.connection.disconnects
            #expect(causes.map(\.key.rawValue) == ["limitExceeded"])
            let small = try await client.send(Request(type: type, body: "small"), options: idempotent)
            #expect(small.body == "small")
            await client.close()
            await server.stop()
        }
    }

    @Test func aFrameAboveMaximumUndecoded() throws {
        let options = ClientOptions { $0.inbound.maximumUndecoded = 10_000 }
        try expectOverload(
            naming: "10000 bytes (inbound.maximumUndecoded)",
            speaking: FrameLayout.standard,
            server: FrameLayout.standard,
            type: 0x410,
            options: options
        )
    }

    @Test func aFrameOfALayoutAboveMaximumFrameSize() throws {
        var small = FrameLayout.standard
        small.maximumFrameSize = 5_000
        try expectOverload(
            naming: "the length is 1000000, not within 0–4988; a frame has at most 5000 bytes (maximumFrameSize)",
            speaking: small,
            server: FrameLayout.standard,
            type: 0x410
        )
    }

    @Test func aFrameOfACodecAboveMaximumFrameSize() throws {
        try expectOverload(
            naming: "(maximumFrameSize 5000)",
            speaking: LengthPrefixedCodec(UInt32.self, maximumFrameSize: 5_000),
            server: LengthPrefixedCodec(UInt32.self)
        )
    }

    /// A length that no frame could have is what arbitrary bytes look like.
    @Test(arguments: [
        "\u{FF}\u{FF}\u{FF}\u{FF}HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
    ])
    func bytesOfAnotherProtocolAreAViolation(_ text: String) throws {
        try withNonsense(FrameLayout.standard, type: 0x410, text)
        try withNonsense(LengthPrefixedCodec(UInt32.self), type: 0, text)
    }

    private func withNonsense(_ codec: some FrameCodec, type: UInt32, _ text: String) throws {
        let handler: LoopbackServer.Handler = { $0.body == "a" ? .garbage(Bytes(text)) : .echo }
        try simulate(speaking: codec, handler: handler) { service, client in
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: type, body: "a"))
            }
            #expect(error?.code == .protocolViolation && error?.fate == .unknown, "\(error as Any)")
            let causes = await client.metrics.connection.disconnects
            #expect(causes.map(\.key.rawValue) == ["protocolViolation"])
        }
    }

    /// The limits of the format itself: a body of this layout has at most eight bytes.
    @Test func aLengthThatTheLayoutDoesNotAllowIsAViolation() throws {
        let layout = FrameLayout {
            Field.type(UInt32.self)
            Field.serial(UInt32.self)
            Field.length(UInt32.self, counting: .body)
            Field.body(sizes: 0...8)
        }
        let handler: LoopbackServer.Handler = {
            $0.body == "a" ? .garbage([0, 0, 4, 2, 0, 0, 0, 0, 0, 0, 0, 9]) : .echo
        }
        try simulate(speaking: layout, handler: handler) { service, client in
            let error = await failure { () throws(ClientError) in try await client.send(Request(body: "a")) }
            #expect(error?.code == .protocolViolation && error?.fate == .unknown, "\(error as Any)")
        }
    }

    /// Without serials, the response that is too large belongs to the oldest request. The others may be sent again.
    @Test(arguments: [false, true])
    func matchedInOrderOnlyTheOldestRequestIsBlamed(isAbandoned: Bool) throws {
        let options = ClientOptions {
            $0.inbound.maximumUndecoded = 10_000
            $0.requests.retry = .idempotent()
        }
        let handler: LoopbackServer.Handler = { request in
            .after(.seconds(1), request.body == "large" ? .reply(Self.large) : .echo)
        }
        try simulate(speaking: LengthPrefixedCodec(UInt32.self), options: options, handler: handler) {
            service,
            client in
            let first = client.start(Request(body: "large"))
            let others = (0..<3).map { client.start(Request(body: Bytes("\($0)"))) }
            _ = try await service.server.waitForRequest { $0.body == "2" }
            if isAbandoned { first.cancel() }
            let error = await failure(of: first)
            #expect(error?.code == (isAbandoned ? .cancelled : .overloaded) && error?.fate == .unknown)
            for (index, other) in others.enumerated() { try await expectBody(Bytes("\(index)"), of: other) }
            #expect(await service.server.received.filter { $0.body == "large" }.count == 1)
            #expect(await client.metrics.retries == 3)
        }
    }
}
