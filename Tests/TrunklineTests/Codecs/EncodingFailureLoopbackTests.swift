import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Pings, pongs and cancel frames that a codec makes and cannot encode. Regression: they were omitted silently.
@Suite(.tags(.realThreads))
struct EncodingFailureLoopbackTests {}

extension EncodingFailureLoopbackTests {
    /// The standard layout, except that it cannot encode frames of the kind `refused`.
    struct FaultyCodec: FrameCodec, HeartbeatCodec, CancellingCodec, ServerSideCodec {
        let refused: Frame.Kind
        var layout = FrameLayout.standard

        var matching: ResponseMatching { layout.matching }

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try layout.decode(&input) }

        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            guard frame.kind != refused else { throw FrameError(.malformed, "no \(refused) today") }
            try layout.encode(frame, into: &output)
        }

        func ping(number: UInt64) -> Frame? { Frame(.ping) }
        func pong(answering ping: Frame) -> Frame? { Frame(.pong) }
        var pongsLookLikePings: Bool { layout.pongsLookLikePings }
        func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { Frame(.cancel, serial: serial) }
        func serverSide() -> any FrameCodec { layout.serverSide() }
    }

    /// The link is not closed for a silence that it could not break.
    @Test func aPingThatCannotBeEncodedIsCountedAndTheLinkStays() async throws {
        let options = quickOptions {
            $0.liveness.interval = .milliseconds(5)
            $0.liveness.deadline = .milliseconds(5)
        }
        try await withServerAndClient(speaking: FaultyCodec(refused: .ping), clientOptions: options) { _, client in
            try await client.connect()
            var metrics = await client.metrics.connection
            while metrics.unencodableFrames < 5 {
                await moment()
                metrics = await client.metrics.connection
            }
            #expect(metrics.lastEncodingFailure == FrameError(.malformed, "no ping today"))
            #expect(metrics.links == 1 && metrics.disconnects == [:])
        }
    }

    @Test func aCancelFrameThatCannotBeEncodedIsCountedAndTheLinkStays() async throws {
        let handler: LoopbackServer.Handler = { $0.body == "slow" ? .noReply : .echo }
        try await withServerAndClient(speaking: FaultyCodec(refused: .cancel), handler: handler) { server, client in
            let slow = client.start(ask("slow"))
            try await server.wait(within: patience) { $0.requestCount == 1 }
            slow.cancel()
            _ = await failure(of: slow)
            let reply = try await client.send(ask("quick"))
            #expect(reply.body == "quick")
            let metrics = await client.metrics.connection
            #expect(metrics.unencodableFrames == 1 && metrics.links == 1)
            #expect(await server.journal.cancelCount == 0)
        }
    }

    @Test func anErrorNamesTheFrameThatCannotBeEncoded() async throws {
        try await withServerAndClient(speaking: FaultyCodec(refused: .request)) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(error?.code == .invalidRequest && error?.fate == .notSent)
            #expect(error?.message.hasPrefix("the request of type 0x410 with serial ") == true)
            #expect(error?.message.hasSuffix(" cannot be encoded") == true)
            #expect(error?.cause as? FrameError == FrameError(.malformed, "no request today"))
        }
        try await withServerAndClient(speaking: FaultyCodec(refused: .part), handler: { _ in .noReply }) { _, client in
            let stream = client.stream(Request(type: 0x403, body: "whole"))
            do throws(ClientError) {
                try await stream.post(Request(type: 0x404, body: "part"), isPart: true)
                Issue.record("the part was sent")
            } catch {
                #expect(error.message.hasPrefix("the part of type 0x404 with serial "))
            }
            stream.cancel()
        }
    }

    @Test func aPongThatCannotBeEncodedIsCounted() async throws {
        // Otherwise the client may send a ping early, when a response is late on a slow machine. It would
        // count as the pong.
        let options = ClientOptions { $0.liveness.probeAfter = nil }
        try await withServerAndClient(speaking: FaultyCodec(refused: .pong), clientOptions: options) { server, client in
            try await client.connect()
            try await server.waitForConnections(1, within: patience)
            try await server.ping()
            _ = try await client.send(ask("behind the ping"))
            // The pong is encoded at the end of the turn that received the ping, so before the next request.
            _ = try await client.send(ask("behind the pong"))
            #expect(await client.metrics.connection.unencodableFrames == 1)
            #expect(await server.journal.pongCount == 0)
        }
    }
}
