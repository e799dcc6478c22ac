import Testing
import Trunkline
import TrunklineDiagnostics
import TrunklineTesting

/// The flight recorder in real time.
@Suite(.tags(.realThreads)) struct RecorderLoopbackTests {
    /// The rest of a wait shrinks between two looks at the state. That must not look like another wait.
    @Test(.timeLimit(.minutes(1)), arguments: Mechanism.allCases)
    func aWaitIsOneState(by mechanism: Mechanism) async throws {
        let options = quickOptions { $0.recorder = .ring() }
        try await withServerAndClient(by: mechanism, clientOptions: options) { server, client in
            try await expectEcho("before", by: client)
            await server.kill()
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("during"), timeout: .milliseconds(300))
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
}
