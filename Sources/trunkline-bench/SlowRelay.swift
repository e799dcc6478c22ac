import Trunkline

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Limits the rate at which clients' bytes reach a server, as a slow network does. Two threads for each connection.
enum SlowRelay {
    /// In bytes per second.
    static let rate = 20_000_000
    private static let step = 16 * 1024

    static func start(to target: UInt16) throws -> UInt16 {
        // The network holds little: what the client has written beyond that stays in its own kernel.
        let (listener, port) = try listeningSocket(receiveBuffer: 64 * 1024)
        try run {
            while case let client = accept(listener, nil, nil), client >= 0 {
                guard let server = try? connectedSocket(target) else { return }
                sendSmallSegmentsAtOnce(client)
                try? run { forward(from: client, to: server, rate: rate) }
                try? run {
                    forward(from: server, to: client, rate: nil)
                    close(client)
                    close(server)
                }
            }
        }
        return port
    }

    private static func run(_ body: @escaping @Sendable () -> Void) throws {
        let code = startThread(named: "relay", body)
        guard code == 0 else { throw BenchError("start of a thread", errno: code) }
    }

    private static func forward(from source: Int32, to target: Int32, rate: Int?) {
        var memory = [UInt8](repeating: 0, count: step)
        var next = monotonicNow()
        while case let count = unsafe read(source, &memory, memory.count), count > 0 {
            guard writeAll(memory[..<count], to: target) else { break }
            guard let rate else { continue }
            // Idle time does not count as saved up.
            next = max(next, monotonicNow() - 1_000_000) + UInt64(count) * 1_000_000_000 / UInt64(rate)
            let now = monotonicNow()
            if next > now { usleep(UInt32((next - now) / 1000)) }
        }
        shutdown(target, Int32(SHUT_WR))
    }
}
