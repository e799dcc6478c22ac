// Five servers of one service, of which one is slow and one is killed under load: a cluster sends requests to all of
// them, leaves out the one that fails, and every request is answered.

import Trunkline
import TrunklineTesting

/// Starts a server that answers each request with its name, after `delay`.
func startServer(_ name: Bytes, after delay: Duration) async throws -> LoopbackServer {
    try await LoopbackServer.start(speaking: .standard) { _ in .after(delay, .reply(name)) }
}

var servers: [LoopbackServer] = []
for number in 1...5 {
    servers.append(try await startServer(Bytes("server \(number)"), after: .milliseconds(number == 5 ? 250 : 20)))
}

// The servers may execute requests twice, so a request of unknown fate is sent again, to another server.
let options = ClientOptions { $0.requests.retry = .idempotent() }
let cluster = Cluster(
    discovering: .static(servers.map { ClusterEndpoint($0.endpoint) }),
    speaking: .standard,
    options: options
)
let changes = cluster.changes

// Returns when the first server is ready. The others follow.
try await cluster.connect()
while await cluster.metrics.servers.contains(where: { $0.state != .serving }) {
    try await Task.sleep(for: .milliseconds(5))
}

/// Sends 2,000 requests, 80 at a time, and returns how many of them each server answered.
func shares() async throws -> [String: Int] {
    try await withThrowingTaskGroup { callers in
        for _ in 0..<80 {
            callers.addTask {
                var counts: [String: Int] = [:]
                for _ in 0..<25 {
                    let response = try await cluster.send(Request(type: 0x402))
                    counts[String(response.body), default: 0] += 1
                }
                return counts
            }
        }
        return try await callers.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }
    }
}

/// Prints the shares of all servers, in percent.
func show(_ counts: [String: Int], _ title: String) {
    let sum = counts.values.reduce(0, +)
    let shares = (1...5).map { "\($0): \(counts["server \($0)", default: 0] * 100 / sum) %" }
    print("\(title): \(sum) of 2000 answered; \(shares.joined(separator: ", "))")
}

// The slow server receives fewer requests than the others.
show(try await shares(), "five servers, of which server 5 is slow")

// Server 1 is killed when it has received some of the next requests, or after a while if it is left out by now.
async let killed = shares()
let count = await servers[0].journal.requestCount
_ = try? await servers[0].wait(within: .seconds(2)) { $0.requestCount >= count + 20 }
await servers[0].kill()
show(try await killed, "server 1 is killed")

// A server that is slow, or whose requests fail in a row, is left out for 30 s. Server 1 is not ready, and needs no rule.
// On a busy machine every server is slow for a while.
while await !cluster.metrics.servers.contains(where: { $0.state == .ejected }) { _ = try await shares() }
for await change in changes {
    guard case .ejected(let endpoint, _, let reason) = change else { continue }
    let number = servers.firstIndex { $0.endpoint == endpoint }.map { $0 + 1 } ?? 0
    print("ejected: server \(number), because of \(reason)")
    break
}
show(try await shares(), "without server 1")
for server in await cluster.metrics.servers where server.state != .serving {
    print("\(server.endpoint == servers[0].endpoint ? "server 1" : "another server"): \(server.state)")
}

await cluster.close()
for server in servers { await server.stop() }
print("ManyServers: done")
