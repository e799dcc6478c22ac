import Trunkline
import TrunklineTesting

/// Texts of recordings, which may come from anywhere.
enum FuzzRecordings {
    static func run(_ input: inout FuzzInput) {
        let replays = input.below(2) == 1
        guard let recording = try? Recording(jsonLines: String(decoding: input.bytes, as: UTF8.self)) else { return }
        guard let again = try? Recording(jsonLines: recording.jsonLines), again.jsonLines == recording.jsonLines else {
            fatalError("a written recording cannot be read back unchanged")
        }
        _ = (recording.outcomes, recording.exchanges)
        _ = recording.pcapng(speaking: .standard)
        // A simulation ends after a day.
        let times = recording.entries.map(\.time)
        guard replays, times.count <= 20, let first = times.min(), let last = times.max(),
            last - first <= .seconds(3600)
        else { return }
        let network = SimulatedNetwork(seed: 1)
        do {
            try network.runBlocking {
                let replay = try await network.replay(recording, speaking: .standard)
                _ = replay.differences
            }
        } catch {
            // Two of the endpoints may have the same address.
            guard error is TransportError else { fatalError("\(error)") }
        }
    }
}
