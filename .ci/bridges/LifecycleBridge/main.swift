// A client in a service group, which ends with SIGTERM under load.
import Foundation
import Logging
import ServiceLifecycle
import Trunkline
import TrunklineTesting
import UnixSignals

/// Reports that the group runs its services. The group traps the signal before that; an earlier one would kill the process.
struct Starting: Service {
    let running: AsyncStream<Void>.Continuation

    func run() async throws {
        running.finish()
        try await gracefulShutdown()
    }
}

// Slow enough that every caller has a request in flight when the signal arrives.
let server = try await LoopbackServer.start(speaking: .standard) { _ in .after(.milliseconds(200), .echo) }
let client = Client(to: server.endpoint, speaking: .standard)
let (running, started) = AsyncStream.makeStream(of: Void.self)
let group = ServiceGroup(
    services: [ClientService(client: client), Starting(running: started)],
    gracefulShutdownSignals: [.sigterm],
    logger: Logger(label: "service")
)

/// Sends requests until one fails. Returns the number of successful ones, and the error.
@Sendable func callWithoutEnd() async -> (answered: Int, failure: ClientError) {
    var answered = 0
    do throws(ClientError) {
        while true {
            _ = try await client.send(Request(type: 0x410, body: "hello"))
            answered += 1
        }
    } catch {
        return (answered, error)
    }
}
let load = Task {
    await withTaskGroup(of: (answered: Int, failure: ClientError).self) { callers in
        for _ in 0..<50 { callers.addTask { await callWithoutEnd() } }
        var results: [(answered: Int, failure: ClientError)] = []
        for await result in callers { results.append(result) }
        return results
    }
}
let signal = Task {
    for await _ in running {}
    try await server.wait { $0.requestCount >= 75 }
    kill(getpid(), SIGTERM)
}
try await group.run()
try await signal.value

// Requests in flight at the time of the signal were answered. Only later ones failed.
let results = await load.value
let requests = await server.journal.requestCount
precondition(results.allSatisfy { $0.failure.code == .closed && $0.failure.fate == .notSent }, "\(results)")
precondition(results.map(\.answered).reduce(0, +) == requests, "of \(requests) requests: \(results)")
await server.stop()
print("closed")
