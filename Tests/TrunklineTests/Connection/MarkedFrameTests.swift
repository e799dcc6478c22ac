import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Frames to be sent with marks that codecs give to received frames.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct MarkedFrameTests {}

extension MarkedFrameTests {
    /// A received frame is passed on unchanged to another server.
    @Test func aMarkedFrameIsNotWritten() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard) { _ in .echo }
            let connection = network.connection(to: ["db:7000"], speaking: .standard)
            var malformed = Frame(.request, type: 0x410)
            malformed.markMalformed(.illegalLength)
            var last = Frame(.request, type: 0x410)
            last.markLinkEnding()
            #expect(malformed.malformedReason == .illegalLength && malformed.linkEnding == nil)
            #expect(last.linkEnding == .now && last.malformedReason == nil)

            var (many, unknown, explained) = (Frame(.request), Frame(.request), Frame(.request))
            many.answers = .all
            unknown.isFateUnknown = true
            explained.reason = ServerReason("NO")
            let frames = [
                (malformed, "malformedReason (illegalLength)"), (last, "linkEnding"), (many, "answers"),
                (unknown, "isFateUnknown"), (explained, "reason"),
            ]
            for (frame, mark) in frames {
                let error = await #expect(throws: ClientError.self) { try await connection.write(frame) }
                #expect(error?.code == .invalidRequest && error?.fate == .notSent)
                #expect(error?.message == "the frame has \(mark) set, which is allowed only on received frames")
            }
            #expect(await server.totalConnections == 0)

            try await connection.write(Frame(.request, type: 0x410, serial: 50))
            try await network.clock.sleep(for: .seconds(1))
            #expect(await server.journal.requestCount == 1)
            await connection.closeNow()
            await server.stop()
        }
    }
}
