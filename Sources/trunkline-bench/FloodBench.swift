import Synchronization
import Trunkline
import TrunklineTesting

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Measures how much a flooding server slows down another client on the same event loop.
struct FloodBench {
    enum Flood: String, CaseIterable {
        case none
        case pushes = "pushes of 12 B"
        case smallPushes = "pushes of 64 B"
        case responses = "responses of 12 B"
        case pings
        case largeFrames = "pushes of 1 MiB"
        case garbage
        case tinyRecords = "1 B TLS records"

        var bytes: [UInt8] {
            switch self {
            case .none: []
            case .pushes, .tinyRecords: Self.frames(type: 0x10)
            case .smallPushes: Self.frames(type: 0x10, bodySize: 64)
            case .responses: Self.frames(type: 0x410)
            case .pings: Self.frames(type: 0x1)
            case .largeFrames: Self.frame(type: 0x10, bodySize: 1024 * 1024)
            case .garbage: [UInt8](repeating: 0xff, count: 64 * 1024)
            }
        }

        private static func frame(type: UInt32, bodySize: Int) -> [UInt8] {
            let header = [type, 60, UInt32(bodySize)].flatMap { number in
                (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
            }
            return header + [UInt8](repeating: 7, count: bodySize)
        }

        private static func frames(type: UInt32, bodySize: Int = 0) -> [UInt8] {
            [[UInt8]](repeating: frame(type: type, bodySize: bodySize), count: 5000).flatMap(\.self)
        }
    }

    /// In milliseconds, for each kind of flood.
    private let measured: Int

    init(isQuick: Bool) { measured = isQuick ? 1000 : 5000 }

    func run() async throws -> String {
        try await ChildProcess.withServer("serve-floods") { try await table($0) }
    }

    private func table(_ servers: String) async throws -> String {
        let servers = try FloodServers.Addresses(line: servers)
        var lines = [
            machineDescription(),
            "one client, one request in flight, while its event loop is flooded; \(measured) ms each;",
            "the flooded client reads one push per ms; \"turn\" is the processor time of one turn in ms",
            "", aligned(Self.columns, Self.widths),
        ]
        for flood in Flood.allCases { lines.append(try await line(flood, servers)) }
        return lines.joined(separator: "\n")
    }

    private static let columns = [
        "flood", "requests/s", "p50 ms", "p99 ms", "p99.9 ms", "turn p50", "turn p99", "flood frames/s",
    ]
    private static let widths = [18, 12, 9, 9, 10, 10, 10, 16]

    private func line(_ flood: Flood, _ servers: FloodServers.Addresses) async throws -> String {
        let loops = EventLoops(count: 1)
        let client = Client(to: .host("127.0.0.1", port: servers.echo), speaking: .standard, on: loops)
        try await client.connect()
        var options = ClientOptions()
        options.tls.roots = .only(.text(servers.root))
        let endpoint = Endpoint.host("127.0.0.1", port: servers.port(of: flood))
        let flooded = Client(
            to: flood == .tinyRecords ? endpoint.secured() : endpoint,
            speaking: .standard,
            options: options,
            on: loops
        )
        // Slower than the flood: a reader that keeps up takes a processor, and the table would show the scheduler.
        let reader = Task {
            for await _ in flooded.pushes() { try await Task.sleep(for: .milliseconds(1)) }
        }
        try await flooded.connect()
        let histogram = Histogram()
        let (start, deadline) = (monotonicNow(), monotonicNow() + UInt64(measured) * 1_000_000)
        var count = 0
        while monotonicNow() < deadline {
            let sent = monotonicNow()
            _ = try await client.send(Request(type: Run.type, body: "hello"), timeout: .seconds(60))
            histogram.record(monotonicNow() - sent, caller: 0)
            count += 1
        }
        let seconds = Double(monotonicNow() - start) / 1e9
        let seen = await flooded.metrics
        let turns = TurnMeter(on: loops.next())
        try await Task.sleep(for: .milliseconds(measured / 4))
        turns.stop()
        reader.cancel()
        await flooded.closeNow()
        await client.close()
        let figures =
            [0.5, 0.99, 0.999].map { decimal(histogram.percentile($0) / 1e6, places: 2) }
            + [0.5, 0.99].map { decimal(turns.histogram.percentile($0) / 1e6, places: 2) }
        let frames = Double(seen.pushes + seen.unknownResponses)
        return aligned(
            [flood.rawValue, "\(Int(Double(count) / seconds))"] + figures + ["\(Int(frames / seconds))"],
            Self.widths
        )
    }
}

/// Measures the processor time of turns of an event loop, which does not depend on other load of the machine.
private final class TurnMeter: LoopWork, Sendable {
    let histogram = Histogram()
    private let loop: any EventLoop
    private let last = Atomic<UInt64>(0)
    private let isStopped = Atomic<Bool>(false)

    init(on loop: any EventLoop) {
        self.loop = loop
        loop.schedule(self)
    }

    func stop() { isStopped.store(true, ordering: .relaxed) }

    func runOnLoop() {
        guard !isStopped.load(ordering: .relaxed) else { return }
        let now = processorNow()
        let before = last.exchange(now, ordering: .relaxed)
        if before > 0 { histogram.record(now - before, caller: 0) }
        loop.scheduleInNextTurn(self)
    }
}

enum FloodServers {
    struct Addresses {
        let echo: UInt16
        let root: String
        private let ports: [UInt16]

        init(line: String) throws {
            let words = line.split(separator: " ")
            let kinds = FloodBench.Flood.allCases.count
            guard words.count == 2 + kinds, let echo = UInt16(words[0]) else {
                throw BenchError("the test servers did not start")
            }
            self.echo = echo
            root = words[1].split(separator: "|").map { $0.replacing("~", with: " ") }.joined(separator: "\n") + "\n"
            ports = words.dropFirst(2).compactMap { UInt16($0) }
            guard ports.count == kinds else { throw BenchError("the test servers printed an invalid line: \(line)") }
        }

        func port(of flood: FloodBench.Flood) -> UInt16 {
            ports[FloodBench.Flood.allCases.firstIndex(of: flood) ?? 0]
        }
    }

    static func run() async throws {
        let authority = try TestAuthority()
        var settings = TLSSettings(.server(verifiesClients: false))
        settings.identity = try await authority.identity(for: "127.0.0.1").load()
        let context = try OpenSSLContext(settings)
        let echo = try await LoopbackServer.start(speaking: .standard)
        let root = try String(authority.root.load()).replacing("\n", with: "|").replacing(" ", with: "~")
        var words = [String(echo.endpoint.description.split(separator: ":").last ?? ""), root]
        for flood in FloodBench.Flood.allCases {
            let (listener, port) = try listeningSocket()
            let bytes = flood.bytes
            words.append("\(port)")
            try start {
                while case let descriptor = accept(listener, nil, nil), descriptor >= 0 {
                    sendSmallSegmentsAtOnce(descriptor)
                    try? start {
                        defer { close(descriptor) }
                        if flood == .tinyRecords {
                            sendRecords(bytes, to: descriptor, context)
                        } else {
                            while !bytes.isEmpty, writeAll(bytes, to: descriptor) {}
                            if flood == .none { waitForEnd(of: descriptor) }
                        }
                    }
                }
            }
        }
        print(words.joined(separator: " "))
        fflush(nil)
        while readLine() != nil {}
        await echo.stop()
    }

    private static func start(_ body: @escaping @Sendable () -> Void) throws {
        let code = startThread(named: "flood", body)
        guard code == 0 else { throw BenchError("start of a thread", errno: code) }
    }

    private static func waitForEnd(of descriptor: Int32) {
        var memory = [UInt8](repeating: 0, count: 4096)
        while unsafe read(descriptor, &memory, memory.count) > 0 {}
    }

    /// Sends every byte as a separate record.
    private static func sendRecords(_ bytes: [UInt8], to descriptor: Int32, _ context: OpenSSLContext) {
        guard let engine = try? context.makeEngine(for: "") else { return }
        var memory = [UInt8](repeating: 0, count: 16 * 1024)
        while engine.session == nil {
            let count = unsafe read(descriptor, &memory, memory.count)
            guard count > 0 else { return }
            let isGood = unsafe memory.withUnsafeBytes { bytes in
                var input = unsafe UnsafeRawBufferPointer(rebasing: bytes[..<count])
                return (try? unsafe engine.handshake(&input)) != nil
            }
            guard isGood, writeAll(engine.outgoing.takeAll(), to: descriptor) else { return }
        }
        repeat {
            for start in stride(from: 0, to: bytes.count, by: 4096) {
                for byte in bytes[start..<min(bytes.count, start + 4096)] {
                    _ = unsafe withUnsafeBytes(of: byte) { try? unsafe engine.write($0) }
                }
                guard writeAll(engine.outgoing.takeAll(), to: descriptor) else { return }
            }
        } while true
    }
}
