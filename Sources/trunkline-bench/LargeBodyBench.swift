import Trunkline
import TrunklineTesting

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Measures the latency of small requests while 64 MiB travel on the same connection, again and again.
struct LargeBodyBench {
    private enum Load: Hashable {
        case none
        case requests(atOnce: Int)
        case upload
        case download
    }

    private struct Row: Hashable {
        var name: String
        var load: Load
        /// In bytes.
        var piece: Int
        var isSlow = false
    }

    private struct Result {
        var p50: Double
        var p99: Double
        var longest: Double
        /// Milliseconds for 64 MiB.
        var transfer: Double
    }

    private static let volume = 64 * 1024 * 1024

    private static let rows: [Row] =
        [Row(name: "nothing", load: .none, piece: 0)]
        + [16, 64, 256, 1024].flatMap { kilobytes in
            [
                Row(name: "upload", load: .upload, piece: kilobytes * 1024),
                Row(name: "download", load: .download, piece: kilobytes * 1024),
                Row(name: "echoes", load: .requests(atOnce: 1), piece: kilobytes * 1024),
                Row(name: "8 echoes at once", load: .requests(atOnce: 8), piece: kilobytes * 1024),
            ]
        } + [
            Row(name: "all echoes at once", load: .requests(atOnce: 1024), piece: 64 * 1024),
            Row(name: "one frame, echoed", load: .requests(atOnce: 1), piece: volume),
            Row(name: "nothing, slow", load: .none, piece: 0, isSlow: true),
        ]
        + [4, 16, 64].map { Row(name: "upload, slow", load: .upload, piece: $0 * 1024, isSlow: true) }

    private static let widths = [20, 10, 15, 9, 9, 9, 11]

    private let rounds: Int
    /// In milliseconds.
    private let measured: Int

    init(isQuick: Bool) {
        rounds = isQuick ? 1 : 5
        measured = isQuick ? 300 : 600
    }

    func run() async throws -> String {
        try await ChildProcess.withServer("serve-pieces") { line in
            let ports = line.split(separator: " ").compactMap { UInt16($0) }
            guard ports.count == 2 else { throw BenchError("the server did not start") }
            return try await table(fast: ports[0], slow: ports[1])
        }
    }

    private func table(fast: UInt16, slow: UInt16) async throws -> String {
        var lines = [
            machineDescription(),
            "one small request (64 B) in flight while 64 MiB travel on the same connection, in pieces;",
            "medians of \(rounds) rounds of \(measured) ms for each row; \"slow\" is through a network of "
                + "\(SlowRelay.rate / 1_000_000) MB/s, for 3 s", "",
            aligned(["beside", "piece", "ms for 64 MiB", "p50 ms", "p99 ms", "max ms", "p99 ratio"], Self.widths),
        ]
        var results: [Row: [Result]] = [:]
        for _ in 0..<rounds {
            for row in Self.rows { results[row, default: []].append(try await measure(row, row.isSlow ? slow : fast)) }
        }
        for row in Self.rows {
            let all = results[row] ?? []
            let undisturbed = Self.rows.first { $0.load == .none && $0.isSlow == row.isSlow }.flatMap { results[$0] }
            let ratios = zip(all, undisturbed ?? []).map { $0.p99 / $1.p99 }
            lines.append(
                aligned(
                    [
                        row.name, row.load == .none ? "" : Table.size(row.piece),
                        row.load == .none ? "" : decimal(median(all.map(\.transfer)), places: 1),
                        decimal(median(all.map(\.p50)), places: 3), decimal(median(all.map(\.p99)), places: 3),
                        decimal(median(all.map(\.longest)), places: 1), decimal(median(ratios), places: 1),
                    ],
                    Self.widths
                )
            )
        }
        return lines.joined(separator: "\n")
    }

    private func measure(_ row: Row, _ port: UInt16) async throws -> Result {
        let client = Client(to: .host("127.0.0.1", port: port), speaking: PieceServer.codec)
        try await client.connect()
        let histogram = Histogram()
        let start = monotonicNow()
        let deadline = start + UInt64(row.isSlow ? 3000 : measured) * 1_000_000
        async let transferred = Self.transfer(row, client, until: deadline)
        let small = Request(type: Run.type, body: Bodies(size: 64)[0])
        // The first transfer may take longer than all of the time.
        var count = 0
        while monotonicNow() < deadline || count < 10 {
            let sent = monotonicNow()
            _ = try await client.send(small, timeout: .seconds(60))
            histogram.record(monotonicNow() - sent, caller: 0)
            count += 1
        }
        let transfer = try await transferred
        await client.close()
        return Result(
            p50: histogram.percentile(0.5) / 1e6,
            p99: histogram.percentile(0.99) / 1e6,
            longest: histogram.percentile(1) / 1e6,
            transfer: transfer
        )
    }

    @concurrent
    private static func transfer(_ row: Row, _ client: Client, until deadline: UInt64) async throws -> Double {
        guard row.load != .none else { return 0 }
        let piece = Bytes([UInt8](repeating: 7, count: row.piece))
        let count = volume / row.piece
        let start = monotonicNow()
        var transfers = 0
        repeat {
            try await transferOnce(row.load, piece, count, client)
            transfers += 1
        } while monotonicNow() < deadline
        return Double(monotonicNow() - start) / Double(transfers) / 1e6
    }

    private static func transferOnce(_ load: Load, _ piece: Bytes, _ count: Int, _ client: Client) async throws {
        var received = 0
        switch load {
        case .none: break
        case .requests(let atOnce):
            let batch = [Request](repeating: Request(type: Run.type, body: piece), count: min(count, atOnce))
            for _ in 0..<count / batch.count {
                for result in await client.send(all: batch, timeout: .seconds(60)) {
                    received += try result.get().body.count
                }
            }
        case .upload:
            let upload = client.open(Request(type: PieceServer.partType, body: piece))
            for _ in 1..<count { try await upload.send(Request(type: PieceServer.partType, body: piece)) }
            try await upload.finish(Request(type: PieceServer.endType))
            for try await _ in upload.responses {}
            received = volume
        case .download:
            let request = Request(type: PieceServer.downloadType, body: Bytes("\(piece.count) \(count)"))
            for try await part in client.stream(request) { received += part.body.count }
        }
        guard received == volume else { throw BenchError("\(received) bytes were received") }
    }
}

/// Echoes, takes requests in parts, and replies in parts; in a separate process.
enum PieceServer {
    static let codec: FrameLayout = {
        var codec = FrameLayout.standard
        codec.maximumFrameSize = 65 * 1024 * 1024
        return codec
    }()

    static let partType: UInt32 = 0x404
    /// The last part of a request. It is answered.
    static let endType: UInt32 = 0x403
    /// Asks for parts. The body holds their size and their number.
    static let downloadType: UInt32 = 0x411

    static func run() async throws {
        var options = LoopbackServer.Options()
        options.recordedFrames = 0
        options.maximumConnections = .max
        let server = try await LoopbackServer.start(speaking: codec, options: options) { request in
            switch request.type {
            case partType: .noReply
            case endType: .reply(Frame(.response, type: Run.type))
            case downloadType: .perform(sendParts)
            default: .echo
            }
        }
        guard let port = UInt16(server.endpoint.description.split(separator: ":").last ?? "") else {
            throw BenchError("the server has no port")
        }
        print(port, try SlowRelay.start(to: port))
        fflush(nil)
        while readLine() != nil {}
        await server.stop()
    }

    private static func sendParts(_ exchange: ServerExchange) async throws {
        let numbers = String(exchange.request.body).split(separator: " ").compactMap { Int($0) }
        guard numbers.count == 2 else { throw BenchError("an invalid request for parts") }
        let part = Bytes([UInt8](repeating: 7, count: numbers[0]))
        for _ in 0..<numbers[1] { try await exchange.part(part) }
        try await exchange.reply(Bytes())
    }
}
