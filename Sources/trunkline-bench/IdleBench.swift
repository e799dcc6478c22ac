import CTrunklineBench
import Trunkline

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Measures the processor time and the memory of idle connections that exchange only heartbeats.
struct IdleBench {
    private static let loops = 2
    /// In seconds.
    private static let interval = 30

    private let wanted: Int
    /// A multiple of `interval`, so that every connection has the same number of heartbeats.
    private let seconds: Int

    init(isQuick: Bool) {
        wanted = isQuick ? 1000 : 10_000
        seconds = isQuick ? Self.interval : 3 * Self.interval
    }

    func run() async throws -> String {
        // The server inherits the limit.
        let count = min(wanted, Self.raisedFileLimit() - 100)
        guard count >= 500 else { throw BenchError("this process may not open enough files") }
        return try await ChildProcess.withServer("serve-pieces") { line in
            guard let port = line.split(separator: " ").first.flatMap({ UInt16($0) }) else {
                throw BenchError("the server did not start")
            }
            return try await measure(count, port)
        }
    }

    private func measure(_ count: Int, _ port: UInt16) async throws -> String {
        let loops = EventLoops(count: Self.loops)
        // The first clients also start the event loops and fill caches of the runtime.
        var clients = try await Self.connected(50, port, loops)
        let (resident, inUse) = (Usage.residentMemory, trunkline_bench_bytes_in_use())
        clients += try await Self.connected(count - clients.count, port, loops)
        let added = Double(count - 50)
        let memory = (
            Double(Usage.residentMemory - resident) * 1024 / added,
            Double(trunkline_bench_bytes_in_use() - inUse) / added
        )
        let before = try await Self.heartbeats(of: clients)
        let start = Usage.now
        try await Task.sleep(for: .seconds(seconds))
        let end = Usage.now
        let heartbeats = try await Self.heartbeats(of: clients) - before
        for client in clients { await client.closeNow() }
        guard heartbeats > 0 else { throw BenchError("there were no heartbeats") }

        let used = Double(end.user + end.system - start.user - start.system)
        let share = 100 * used / (Double(end.time - start.time) / 1000)
        var lines = [
            machineDescription(),
            "\(count) idle connections on \(Self.loops) event loops, a heartbeat every \(Self.interval) s; in \(seconds) s",
            "", "CPU                     \(decimal(share, places: 2)) % of one processor",
            "CPU per heartbeat       \(decimal(used / Double(heartbeats), places: 1)) µs, of \(heartbeats)",
            "resident memory         \(decimal(memory.0, places: 0)) bytes per connection",
            "allocated memory        \(inUse < 0 ? "n/a" : decimal(memory.1, places: 0)) bytes per connection",
        ]
        if count < wanted {
            let scaled = decimal(share * Double(wanted) / Double(count), places: 2)
            lines.append("This process may not open more files; \(wanted) connections would take \(scaled) %.")
        }
        return lines.joined(separator: "\n")
    }

    private static func connected(_ count: Int, _ port: UInt16, _ loops: EventLoops) async throws -> [Client] {
        var clients: [Client] = []
        clients.reserveCapacity(count)
        let request = Request(type: Run.type, body: Bodies(size: 64)[0])
        var options = ClientOptions()
        options.liveness.interval = .seconds(interval)
        for _ in 0..<count {
            let client = Client(
                to: .host("127.0.0.1", port: port),
                speaking: PieceServer.codec,
                options: options,
                on: loops
            )
            _ = try await client.send(request)
            clients.append(client)
        }
        // What a request leaves behind is freed on the event loops.
        try await Task.sleep(for: .milliseconds(200))
        return clients
    }

    private static func heartbeats(of clients: [Client]) async throws -> Int {
        var count = 0
        for client in clients {
            let seen = await client.metrics.connection
            guard seen.links == 1, seen.disconnects.isEmpty else { throw BenchError("a connection was lost: \(seen)") }
            count += seen.pings
        }
        return count
    }

    private static func raisedFileLimit() -> Int {
        var limit = rlimit()
        #if os(Linux)
            let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
            let files = RLIMIT_NOFILE
        #endif
        unsafe getrlimit(files, &limit)
        limit.rlim_cur = min(limit.rlim_max, 1 << 20)
        unsafe setrlimit(files, &limit)
        unsafe getrlimit(files, &limit)
        return Int(limit.rlim_cur)
    }
}
