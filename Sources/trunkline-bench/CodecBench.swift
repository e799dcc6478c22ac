import Trunkline
import TrunklineHTTP

/// Measures codecs and checksums without a socket.
struct CodecBench {
    struct Format: Sendable {
        let name: String
        let codec: any FrameCodec
        var message: @Sendable (Frame.Kind, Int, Bytes) throws -> Frame = { kind, number, body in
            Frame(kind, type: 0x410, serial: UInt64(50 + number), body: body)
        }
    }

    struct Speed {
        var frames = 0
        var bytes = 0
        /// In nanoseconds of processor time: the work never waits, and other processes must not influence the result.
        var time: UInt64 = 0
        /// Negative if allocations are not counted.
        var allocations = 0

        var framesPerSecond: Double { Double(frames) / Double(time) * 1e9 }
        var gigabytesPerSecond: Double { Double(bytes) / Double(time) }
        var allocationsPerFrame: Double { Double(allocations) / Double(frames) }
    }

    static let standard = "standard"
    static let byHand = "by hand"

    static let formats: [Format] =
        [
            Format(name: standard, codec: .standard),
            Format(name: byHand, codec: HandWrittenCodec()),
            Format(name: "checked", codec: .checked) { kind, number, body in
                let status: UInt32 = kind == .response ? 200 : 0
                return Frame(kind, type: 0x410, serial: UInt64(50 + number), status: status, body: body)
            },
        ]
        + ((try? FrameLayout.extended).map { [Format(name: "extended", codec: $0)] } ?? [])
        + [
            Format(name: "delimited", codec: DelimitedCodec(delimiter: "\r\n", maximumFrameSize: 1 << 20)),
            Format(name: "length-prefixed", codec: LengthPrefixedCodec(UInt32.self)),
            Format(name: "… with a serial", codec: LengthPrefixedCodec(.varint).serial(at: 0, UInt32.self)),
            Format(name: "HTTP/1.1", codec: HTTP1Codec(host: "bench")) { kind, _, body in
                try kind == .response ? HTTP1Response(body: body).frame() : HTTP1Request(.post, "/", body: body).frame()
            },
        ]

    static let bodySizes = [64, 4096, 65536]

    static let checksums: [Checksum] = [.adler32, .crc32, .crc32c, .fletcher16, .md5, .sha256]

    /// In bytes, similar to one read of the client.
    private static let batchSize = 128 * 1024

    private let rounds: Int
    /// Of each measurement, in nanoseconds.
    private let duration: UInt64

    init(isQuick: Bool) {
        rounds = isQuick ? 1 : 7
        duration = isQuick ? 10_000_000 : 20_000_000
    }

    func run() throws -> String {
        var table = CodecTable(rounds: rounds)
        for _ in 0..<rounds {
            for size in Self.bodySizes {
                for format in Self.formats {
                    let batch = try Batch(of: format, bodySize: size, batchSize: Self.batchSize)
                    table.decoding[size, default: [:]][format.name, default: []].append(try decode(batch))
                    table.encoding[size, default: [:]][format.name, default: []].append(try encode(batch))
                }
            }
            for checksum in Self.checksums {
                guard let speed = compute(checksum) else { continue }
                table.checksums[checksum.name, default: []].append(speed)
            }
        }
        return table.text
    }

    private func decode(_ batch: Batch) throws -> Speed {
        let received = ReceiveBuffer(batch.bytes)
        var codec = LinkCodec(batch.codec)
        var frames: [Frame] = []
        frames.reserveCapacity(batch.frames.count)
        return try measure {
            var input = received
            frames.removeAll(keepingCapacity: true)
            for frame in batch.frames { codec.noteSent(frame) }
            try codec.decodeAll(&input, into: &frames)
            guard input.isEmpty, frames.count >= batch.frames.count else {
                throw BenchError("\(frames.count) frames decoded instead of \(batch.frames.count)")
            }
            return (batch.frames.count, batch.bytes.count)
        }
    }

    private func encode(_ batch: Batch) throws -> Speed {
        var output = SendBuffer()
        var codec = batch.codec
        return try measure {
            for frame in batch.frames { try codec.encode(frame, into: &output) }
            output.reset()
            return (batch.frames.count, batch.bytes.count)
        }
    }

    private func compute(_ checksum: Checksum) -> Speed? {
        let bytes = Bytes((0..<65536).map { UInt8(truncatingIfNeeded: $0) })
        guard checksum.bytes(of: bytes) != nil else { return nil }
        return measure {
            _ = checksum.bytes(of: bytes)
            return (1, bytes.count)
        }
    }

    private func measure<Failure: Error>(
        _ work: () throws(Failure) -> (frames: Int, bytes: Int)
    ) throws(Failure) -> Speed {
        // Enough to make the cost of reading the clock negligible.
        var repetitions = 1
        while true {
            let start = processorNow()
            for _ in 0..<repetitions { _ = try work() }
            if processorNow() - start > duration / 20 { break }
            repetitions *= 2
        }
        let allocations = Usage.now.allocations
        let start = processorNow()
        var speed = Speed()
        repeat {
            for _ in 0..<repetitions {
                let (frames, bytes) = try work()
                speed.frames += frames
                speed.bytes += bytes
            }
            speed.time = processorNow() - start
        } while speed.time < duration
        speed.allocations = allocations < 0 ? -1 : Usage.now.allocations - allocations
        return speed
    }
}

private struct Batch {
    let codec: any FrameCodec
    let frames: [Frame]
    let bytes: [UInt8]

    init(of format: CodecBench.Format, bodySize: Int, batchSize: Int) throws {
        codec = format.codec
        // Letters, which contain no delimiter.
        let body = Bytes((0..<bodySize).map { UInt8(97 + $0 % 26) })
        let count = max(1, batchSize / (bodySize + 16))
        frames = try (0..<count).map { try format.message(.request, $0, body) }
        var output = SendBuffer()
        var server = ProtocolCodec(codec).serverSide()
        for number in 0..<count { try server.encode(format.message(.response, number, body), into: &output) }
        bytes = output.bytes
    }
}

struct CodecTable {
    /// By body size and format, one value a round.
    var decoding: [Int: [String: [CodecBench.Speed]]] = [:]
    var encoding: [Int: [String: [CodecBench.Speed]]] = [:]
    var checksums: [String: [CodecBench.Speed]] = [:]
    let rounds: Int

    init(rounds: Int) { self.rounds = rounds }

    private static let widths = [16, 8, 11, 7, 12, 11, 12, 7, 12, 11]

    var text: String {
        var lines = [
            machineDescription(),
            "codecs alone, one thread, no socket; medians of \(rounds) rounds; GB/s of all bytes on the wire", "",
            aligned(["", "", "decode", "", "", "", "encode", "", "", ""], Self.widths),
            aligned(
                ["format", "body"]
                    + Array(repeating: ["frames/s", "GB/s", "alloc/frame", "× by hand"], count: 2).joined(),
                Self.widths
            ),
        ]
        for size in CodecBench.bodySizes {
            for format in CodecBench.formats {
                let speeds = [decoding, encoding].flatMap { figures($0[size] ?? [:], format.name) }
                lines.append(aligned([format.name, Table.size(size)] + speeds, Self.widths))
            }
            lines.append("")
        }
        lines.append(aligned(["checksum", "64 KiB", "", "GB/s"], Self.widths))
        for checksum in CodecBench.checksums {
            let speeds = checksums[checksum.name] ?? []
            let speed = speeds.isEmpty ? "n/a" : decimal(median(speeds.map(\.gigabytesPerSecond)), places: 2)
            lines.append(aligned([checksum.name, "", "", speed], Self.widths))
        }
        let ratios = CodecBench.bodySizes.flatMap { size in
            [decoding, encoding].map { ratio($0[size] ?? [:], CodecBench.standard) }
        }
        let slowest = decimal(ratios.min() ?? 0, places: 2)
        lines += ["", "The declared standard layout has at least \(slowest) × the speed of the hand-written codec."]
        return lines.joined(separator: "\n")
    }

    private func figures(_ speeds: [String: [CodecBench.Speed]], _ format: String) -> [String] {
        let own = speeds[format] ?? []
        let allocations = own.filter { $0.allocations >= 0 }.map(\.allocationsPerFrame)
        return [
            decimal(median(own.map(\.framesPerSecond)), places: 0),
            decimal(median(own.map(\.gigabytesPerSecond)), places: 2),
            allocations.isEmpty ? "n/a" : decimal(median(allocations), places: 2),
            decimal(ratio(speeds, format), places: 2),
        ]
    }

    private func ratio(_ speeds: [String: [CodecBench.Speed]], _ format: String) -> Double {
        let pairs = zip(speeds[format] ?? [], speeds[CodecBench.byHand] ?? [])
        return median(pairs.map { $0.framesPerSecond / $1.framesPerSecond })
    }
}
