import Trunkline
import TrunklineTesting

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The same requests in plaintext and over TLS, to a server in another process. OpenSSL alone is the upper limit.
struct TLSBench {
    private static let cells = [
        Matrix.Cell(concurrency: 1, payload: 64), Matrix.Cell(concurrency: 256, payload: 64),
        Matrix.Cell(concurrency: 256, payload: 4096), Matrix.Cell(concurrency: 16, payload: 65536),
    ]

    private let rounds: Int
    /// In milliseconds.
    private let measured: Int

    init(isQuick: Bool) {
        rounds = isQuick ? 3 : 9
        measured = isQuick ? 300 : 1000
    }

    func run() async throws -> String {
        try await ChildProcess.withServer("serve-secured") { try await table($0) }
    }

    private func table(_ line: String) async throws -> String {
        let servers = try SecuredServers(line)
        var lines = [
            machineDescription(), "plaintext and TLS; medians of \(rounds) alternating rounds of \(measured) ms", "",
            aligned(["in flight", "body", "plaintext/s", "TLS/s", "ratio", "CPU µs", "TLS", "GB/s TLS"], Self.widths),
        ]
        var plaintextCost = 0.0
        for cell in Self.cells {
            var results: [[Measurement]] = [[], []]
            for _ in 0..<rounds {
                for (index, port) in [servers.plain, servers.secured].enumerated() {
                    var run = Run(
                        row: .ordinary,
                        port: port,
                        concurrency: cell.concurrency,
                        payload: cell.payload,
                        warmUp: .milliseconds(measured / 4),
                        measured: .milliseconds(measured)
                    )
                    if index == 1 { run.root = servers.root }
                    results[index].append(try await run.measured())
                }
            }
            lines.append(Self.line(cell, results))
            plaintextCost = median(results[0].map(\.processorTimePerRequest))
        }
        let bulk = try await Self.bulk()
        // The client encrypts a request and decrypts a response. Bytes per GB/s are nanoseconds.
        let size = Double(Self.cells[Self.cells.count - 1].payload)
        let cost = (size / bulk.encrypted + size / bulk.decrypted) / 1000
        let limit = decimal(plaintextCost / (plaintextCost + cost), places: 2)
        return
            (lines + [
                "",
                "OpenSSL alone, \(bulk.suite), records of 16 KiB: encrypts \(decimal(bulk.encrypted, places: 2)) GB/s, decrypts"
                    + " \(decimal(bulk.decrypted, places: 2)) GB/s",
                "that is \(decimal(cost, places: 1)) µs per request of the last row, so its ratio is at most \(limit)"
                    + " if the processors are busy",
            ]).joined(separator: "\n")
    }

    private static let widths = [9, 8, 12, 12, 7, 8, 8, 10]

    private static func line(_ cell: Matrix.Cell, _ results: [[Measurement]]) -> String {
        let rates = results.map { median($0.map(\.requestsPerSecond)) }
        let costs = results.map { median($0.map(\.processorTimePerRequest)) }
        let volume = rates[1] * Double(2 * (cell.payload + 12)) / 1e9
        return aligned(
            [
                "\(cell.concurrency)", Table.size(cell.payload), "\(Int(rates[0]))", "\(Int(rates[1]))",
                decimal(rates[1] / rates[0], places: 2), decimal(costs[0], places: 2), decimal(costs[1], places: 2),
                decimal(volume, places: 2),
            ],
            widths
        )
    }

    /// One engine encrypts and one decrypts, with records of the largest size. In GB/s.
    private static func bulk() async throws -> (suite: String, encrypted: Double, decrypted: Double) {
        let authority = try TestAuthority()
        let pair = try await EnginePair(authority)
        let plaintext = [UInt8](repeating: 7, count: 16 * 1024)
        var (encrypting, decrypting, bytes) = (UInt64(0), UInt64(0), 0)
        while encrypting + decrypting < 600_000_000 {
            let start = processorNow()
            for _ in 0..<64 { try pair.encrypt(plaintext) }
            let middle = processorNow()
            guard pair.decrypt() == 64 * plaintext.count else { throw BenchError("bytes are lost") }
            encrypting += middle - start
            decrypting += processorNow() - middle
            bytes += 64 * plaintext.count
        }
        return (pair.cipherSuite, Double(bytes) / Double(encrypting), Double(bytes) / Double(decrypting))
    }
}

private final class EnginePair {
    private let client, server: any TLSEngine
    private var received: [UInt8] = []
    private var memory = [UInt8](repeating: 0, count: 64 * 1024)

    init(_ authority: TestAuthority) async throws {
        var settings = TLSSettings(.client(verifies: true))
        settings.trustsSystem = false
        settings.roots = [try authority.root.load()]
        client = try OpenSSLContext(settings).makeEngine(for: "bench")
        settings = TLSSettings(.server(verifiesClients: false))
        settings.identity = try await authority.identity(for: "bench").load()
        server = try OpenSSLContext(settings).makeEngine(for: "")
        var input: [UInt8] = []
        while client.session == nil || server.session == nil {
            _ = try Self.handshake(client, with: input)
            guard !client.outgoing.isEmpty else { throw BenchError("the TLS handshake did not finish") }
            _ = try Self.handshake(server, with: client.outgoing.takeAll())
            input = server.outgoing.takeAll()
        }
    }

    var cipherSuite: String { client.session?.cipherSuite ?? "" }

    private static func handshake(_ engine: any TLSEngine, with input: [UInt8]) throws(TransportError) -> Bool {
        try unsafe input.span.bytes.withUnsafeBytes { memory throws(TransportError) in
            var input = unsafe memory
            return try unsafe engine.handshake(&input)
        }
    }

    func encrypt(_ bytes: [UInt8]) throws(TransportError) {
        _ = try unsafe bytes.span.bytes.withUnsafeBytes { memory throws(TransportError) in
            try unsafe client.write(memory)
        }
    }

    func decrypt() -> Int {
        received = client.outgoing.takeAll()
        return unsafe received.withUnsafeBytes { bytes in
            var input = unsafe bytes
            var total = 0
            while case .bytes(let count) = unsafe memory.withUnsafeMutableBytes({ unsafe server.read(&input, into: $0) }
            ) {
                total += count
            }
            return total
        }
    }
}

struct SecuredServers {
    let plain, secured: UInt16
    let root: PEM

    init(_ line: String) throws {
        let words = line.split(separator: " ").map(String.init)
        guard words.count == 3, let plain = UInt16(words[0]), let secured = UInt16(words[1]) else {
            throw BenchError("the test server did not start")
        }
        (self.plain, self.secured) = (plain, secured)
        let lines = words[2].split(separator: "|").map { $0.replacing("~", with: " ") }
        root = .text(lines.joined(separator: "\n") + "\n")
    }
}

enum TestServers {
    static func run() async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "127.0.0.1")
        let plain = try await LoopbackServer.start(speaking: .standard)
        let secured = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options { $0.tls = .init(identity) }
        )
        let root = try String(authority.root.load()).replacing("\n", with: "|").replacing(" ", with: "~")
        let ports = [plain, secured].map { $0.endpoint.description.split(separator: ":").last ?? "" }
        print(ports[0], ports[1], root)
        fflush(nil)
        while readLine() != nil {}
        await plain.stop()
        await secured.stop()
    }
}
