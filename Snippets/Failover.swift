// Two servers, one of which is killed under load: the client continues with the other, and every request is answered.

import Trunkline
import TrunklineTesting

// Every request takes 10 ms, so that some are always in flight.
let handler: LoopbackServer.Handler = { $0.body == "login" ? .echo : .after(.milliseconds(10), .echo) }
let first = try await LoopbackServer.start(speaking: .standard, handler: handler)
let second = try await LoopbackServer.start(speaking: .standard, handler: handler)
func name(_ endpoint: Endpoint) -> String { endpoint == first.endpoint ? "first" : "second" }

let options = ClientOptions { options in
    // Runs on every new link, before any other request.
    options.handshake.perform = { link in
        guard try await link.send(Request(type: 0x410, body: "login")).body == "login" else {
            throw HandshakeRefusal("wrong password")
        }
    }
    // The server may execute these requests twice, so the client sends them again when their fate is unknown.
    options.requests.retry = .idempotent()
}
let client = Client(to: [first.endpoint, second.endpoint], speaking: .standard, options: options)
let reports = client.disconnects

try await client.connect()
print("logged in: \(await first.journal.requests.map { String($0.body) })")
// Fifty callers send forty requests each. The first server is killed when it has received a quarter of them.
let answered = try await withThrowingTaskGroup(of: Int.self) { callers in
    for caller in 0..<50 {
        callers.addTask {
            for number in 0..<40 {
                let body = Bytes("\(caller)/\(number)")
                let reply = try await client.send(Request(type: 0x402, body: body))
                guard reply.body == body else { fatalError("received the response of another request") }
            }
            return 40
        }
    }
    try await first.wait { $0.requestCount >= 500 }
    await first.kill()
    var sum = 0
    for try await count in callers { sum += count }
    return sum
}

for await report in reports.prefix(1) {
    print("lost the \(name(report.endpoint)) server while \(report.phase)")
    print("requests of unknown fate: \(report.requestsLost > 0 ? "some" : "none")")
}
for await state in client.states.prefix(1) {
    if case .ready(let endpoint, _) = state { print("connected to the \(name(endpoint)) server") }
}
print("sent again: \(await client.metrics.retries > 0 ? "some" : "none"); answered: \(answered) of 2000")
print("logged in to the second server: \(await second.journal.requests.first.map { String($0.body) } ?? "no login")")

await client.close()
await first.stop()
await second.stop()
print("Failover: done")
