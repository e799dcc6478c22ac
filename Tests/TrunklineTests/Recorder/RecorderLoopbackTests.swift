import Foundation
import Testing
import Trunkline
import TrunklineDiagnostics
import TrunklineTesting

/// The flight recorder in real time.
@Suite(.tags(.realThreads)) struct RecorderLoopbackTests {}

extension RecorderLoopbackTests {
    /// The rest of a wait shrinks between two looks at the state. That must not look like another wait.
    @Test(.timeLimit(.minutes(5)), arguments: Mechanism.allCases)
    func aWaitIsOneState(by mechanism: Mechanism) async throws {
        let options = quickOptions { $0.recorder = .ring() }
        try await withServerAndClient(by: mechanism, clientOptions: options) { server, client in
            try await expectEcho("before", by: client)
            await server.kill()
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("during"), timeout: .seconds(2))
            }
            #expect(error?.fate == .notSent)
            let recording = try #require(await client.diagnostics.recording)
            let states = recording.events.map(\.name).filter { $0.hasPrefix("connection.") }
            #expect(states.contains("connection.waiting"))
            let pairs = zip(states, states.dropFirst())
            #expect(!pairs.contains { $0 == "connection.waiting" && $1 == "connection.waiting" })
            #expect(recording.start != nil)
        }
    }

    /// Every line has the time of the wall clock.
    @Test(.timeLimit(.minutes(5))) func linesHaveTheWallClock() async throws {
        let before = Date()
        try await withServerAndClient(clientOptions: quickOptions { $0.recorder = .ring() }) { _, client in
            try await expectEcho("x", by: client)
            let recording = try #require(await client.diagnostics.recording)
            let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
            for line in recording.jsonLines.split(separator: "\n") {
                let name = line.contains("\"recording\"") ? "start" : "at"
                let text = try #require(line.components(separatedBy: "\"\(name)\":\"").last)
                // Whole milliseconds: the style reads no further decimals.
                let date = try style.parse("\(text.prefix(23))Z")
                #expect(date > before.addingTimeInterval(-1) && date < Date().addingTimeInterval(1), "\(line)")
            }
            #expect(try Recording(jsonLines: recording.jsonLines) == recording)
        }
    }
}
