import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// Codecs that keep state for each request, in networks that lose, delay and copy.
@Suite(.simulated, .timeLimit(.seeded)) struct EndedRequestSeedTests {}

extension EndedRequestSeedTests {
    /// What the codecs of all links have noted.
    private final class Notes: Sendable {
        struct Counts {
            var (sent, ended, unknown, open) = (0, 0, 0, 0)
        }
        private let counts = Lock(Counts())
        var all: Counts { counts.withLock { $0 } }
        func note(_ change: (inout Counts) -> Void) { counts.withLock { change(&$0) } }
    }

    /// Keeps the type of each request, by which its response is decoded, until it has ended.
    private struct StatefulCodec: FrameCodec, SentFrameCodec, EndedRequestCodec, CancellingCodec, ServerSideCodec {
        var layout: FrameLayout
        var notes: Notes?
        var types: [SerialNumber: UInt32] = [:]

        var matching: ResponseMatching { layout.matching }

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            guard let frame = try layout.decode(&input) else { return nil }
            // Every response that belongs to a request, late ones included, still has its state.
            if let notes, frame.kind == .response, types[frame.serial] == nil { notes.note { $0.unknown += 1 } }
            return frame
        }

        func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try layout.encode(frame, into: &output)
        }

        mutating func noteSent(_ frame: Frame) {
            guard let notes, frame.kind == .request else { return }
            // A copy in a further datagram is no further request.
            if types.updateValue(frame.type, forKey: frame.serial) == nil { notes.note { $0.sent += 1 } }
            let count = types.count
            notes.note { $0.open = count }
        }

        mutating func noteEnded(_ serial: SerialNumber) {
            let wasSent = types.removeValue(forKey: serial) != nil
            #expect(wasSent)
            let count = types.count
            notes?.note {
                $0.ended += 1
                $0.open = count
            }
        }

        func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
            layout.cancelFrame(for: serial, type: type)
        }

        func serverSide() -> any FrameCodec { StatefulCodec(layout: layout.serverSide() as? FrameLayout ?? layout) }
    }

    @Test(arguments: [true, false]) func everyRequestThatWasSentEndsOnce(_ usesDatagrams: Bool) throws {
        for seed in seeds(20) {
            var random = SeededGenerator(seed: seed)
            let notes = Notes()
            let serials = [UInt64(500), 65_535].randomElement(using: &random)!
            let codec = StatefulCodec(layout: standardLayout(serials: 1...serials), notes: notes)
            let options = repeating(tries: 5) {
                $0.requests.quarantine = .seconds(20)
                $0.liveness.maximumStalls = nil
                $0.failover.errorRate = nil
            }
            let delays = Lock(SeededGenerator(seed: seed))
            let handler: LoopbackServer.Handler = { _ in
                let (delay, answers) = delays.withLock { random in
                    (Int.random(in: 0...3000, using: &random), Int.random(in: 0..<10, using: &random) > 0)
                }
                return answers ? .after(.milliseconds(delay), .echo) : .noReply
            }
            let call = { @Sendable (network: SimulatedNetwork, client: Client) async throws in
                await withTaskGroup { group in
                    for caller in 0..<6 {
                        group.addTask(executorPreference: network.executor) {
                            await Self.call(client, caller, seed: seed)
                        }
                    }
                }
                // Until the last quarantine, and the time for a second answer, have ended.
                try await network.clock.sleep(for: .seconds(60))
                let all = notes.all
                #expect(all.sent > 0 && all.ended == all.sent && all.open == 0, "seed \(seed): \(all)")
                // A copy of an answer may come after all that.
                if !usesDatagrams { #expect(all.unknown == 0, "seed \(seed): \(all)") }
                #expect(await client.metrics.connection.links == 1, "seed \(seed)")
            }
            if usesDatagrams {
                let conditions = lossy(0.2, duplication: 0.1)
                try simulateDatagrams(
                    seed: seed,
                    conditions: conditions,
                    speaking: codec,
                    options: options,
                    handler: handler
                ) { network, _, client in
                    try await call(network, client)
                }
            } else {
                try simulate(seed: seed, speaking: codec, options: options, handler: handler) { service, client in
                    try await call(service.network, client)
                }
            }
        }
    }

    private static func call(_ client: Client, _ caller: Int, seed: UInt64) async {
        var random = SeededGenerator(seed: seed &* 31 &+ UInt64(caller))
        for call in 0..<20 {
            let timeout = Timeout.after(.milliseconds(.random(in: 100...6000, using: &random)))
            let handle = client.start(ask("\(caller)-\(call)"), timeout: timeout)
            if Int.random(in: 0..<4, using: &random) == 0 { handle.cancel() }
            _ = try? await handle.value
        }
    }
}
