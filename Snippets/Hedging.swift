// Hedged requests: one of three servers now and then takes long, and a second copy of such a request goes to another
// server.

import Synchronization
import Trunkline
import TrunklineTesting

/// Answers every tenth request after 300 ms, the others after 1 ms.
final class Pauses: Sendable {
    private let count = Atomic<Int>(0)

    func reaction() -> Reaction {
        let number = count.wrappingAdd(1, ordering: .relaxed).newValue
        return .after(number.isMultiple(of: 10) ? .milliseconds(300) : .milliseconds(1), .echo)
    }
}

let pauses = Pauses()
let servers = [
    try await LoopbackServer.start(speaking: .standard) { _ in pauses.reaction() },
    try await LoopbackServer.start(speaking: .standard) { _ in .after(.milliseconds(1), .echo) },
    try await LoopbackServer.start(speaking: .standard) { _ in .after(.milliseconds(1), .echo) },
]

let cluster = Cluster(discovering: .static(servers.map { ClusterEndpoint($0.endpoint) }), speaking: .standard) {
    // The default policy would avoid the first server after its first pause. Here it receives every third request.
    $0.balancing = .roundRobin
}
try await cluster.connect()
while await cluster.metrics.servers.contains(where: { $0.state != .serving }) {
    try await Task.sleep(for: .milliseconds(5))
}

/// Calls `send` 1,000 times, 20 at a time, and returns the longest duration of 99 % of the calls.
func percentile99(_ send: @escaping @Sendable () async throws -> Void) async throws -> Duration {
    let durations = try await withThrowingTaskGroup { callers in
        for _ in 0..<20 {
            callers.addTask {
                var durations: [Duration] = []
                for _ in 0..<50 { durations.append(try await ContinuousClock().measure { try await send() }) }
                return durations
            }
        }
        return try await callers.reduce(into: []) { $0 += $1 }
    }
    return durations.sorted()[durations.count * 99 / 100 - 1]
}

let plain = try await percentile99 { _ = try await cluster.send(Request(type: 0x402)) }
print("p99 without a hedge: \(plain >= .milliseconds(300) ? "300 ms or more" : "less than 300 ms")")

// If the first copy has no response after 20 ms, a second one goes to another server. The first response wins.
let request = Request(type: 0x402, body: "read")
let hedged = try await percentile99 { _ = try await cluster.send(request, hedge: .after(.milliseconds(20))) }
print("p99 with a hedge after 20 ms: \(hedged < .milliseconds(150) ? "less than 150 ms" : "\(hedged)")")

// The share of hedged requests that had a second copy.
let copies = await cluster.metrics.hedges
print("second copies: \(copies > 0 && copies <= 60 ? "some, at most 6 %" : "\(copies)")")

await cluster.close()
for server in servers { await server.stop() }
print("Hedging: done")
