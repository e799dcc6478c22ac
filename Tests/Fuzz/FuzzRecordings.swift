import Trunkline
import TrunklineDiagnostics
import TrunklineTesting

/// Texts of recordings, which may come from anywhere.
///
/// The first byte says whether the recording is replayed (bit 0), and how often the text between `<` and `>` is repeated
/// (bits 1 to 4, a power of two up to 16,384). There, `#` is the number of the repetition, and `@` that number as a port
/// of a client. So an input of 400 bytes can have 16,384 links, or a line with as many fields.
enum FuzzRecordings {
    /// The number of bytes that frames may declare. It bounds the time of one input.
    private static let room = 1 << 20

    static func run(_ input: inout FuzzInput) {
        let first = input.next()
        let text = repeated(String(decoding: input.bytes, as: UTF8.self), 1 << min(14, Int(first >> 1 & 15)))
        guard let recording = try? Recording(jsonLines: text) else { return }
        guard let again = try? Recording(jsonLines: recording.jsonLines), again.jsonLines == recording.jsonLines else {
            fatalError("a written recording cannot be read back unchanged")
        }
        let ends = text.utf8.flatMap { $0 == UInt8(ascii: "\n") ? [UInt8(ascii: "\r"), $0] : [$0] }
        guard (try? Recording(jsonLines: String(decoding: ends, as: UTF8.self))) == recording else {
            fatalError("the ends of lines make a difference")
        }
        _ = (recording.outcomes, recording.exchanges)
        let capture = recording.pcapng(speaking: .standard, room: room)
        // Frames take as much as they declare, and everything else takes a few packets for an entry.
        guard capture.count < room + room / 4 + 4096 + 1024 * recording.entries.count + 32 * text.utf8.count else {
            fatalError("\(text.utf8.count) bytes of text make a capture of \(capture.count) bytes")
        }
        // A simulation ends after a day.
        let times = recording.entries.map(\.time)
        guard first & 1 == 1, times.count <= 20, let first = times.min(), let last = times.max(),
            last - first <= .seconds(3600)
        else { return }
        let network = SimulatedNetwork(seed: 1)
        do {
            try network.runBlocking {
                let replay = try await network.replay(recording, speaking: .standard, room: room)
                _ = replay.differences
            }
        } catch {
            // Two of the endpoints may have the same address.
            guard error is TransportError || error is RecordingError else { fatalError("\(error)") }
        }
    }

    private static func repeated(_ text: String, _ count: Int) -> String {
        guard let start = text.utf8.firstIndex(of: UInt8(ascii: "<")),
            let end = text.utf8[start...].firstIndex(of: UInt8(ascii: ">"))
        else { return text }
        let piece = text.utf8[text.utf8.index(after: start)..<end]
        var bytes = Array(text.utf8[..<start])
        for number in 0..<count {
            for byte in piece {
                switch byte {
                case UInt8(ascii: "#"): bytes += Array("\(number)".utf8)
                case UInt8(ascii: "@"): bytes += Array("\(49152 + number % 16384)".utf8)
                default: bytes.append(byte)
                }
            }
        }
        return String(decoding: bytes + Array(text.utf8[text.utf8.index(after: end)...]), as: UTF8.self)
    }
}
