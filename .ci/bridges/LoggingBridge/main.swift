// A link is established, lost and established again; the logger has a record of each, with its fields as metadata.
import InMemoryLogging
import Logging
import Trunkline
import TrunklineTesting

struct LoginError: Error, CustomStringConvertible { var description: String { "no login with secret" } }

var handler = InMemoryLogHandler()
handler.logLevel = .info
let log = handler
let logger = Logger(label: "client", factory: { _ in log })
let server = try await LoopbackServer.start(speaking: .standard)
let options = ClientOptions { $0.logging = ClientLogging(to: logger) }
precondition(options.logging?.level == .info)
let client = Client(to: server.endpoint, speaking: .standard, options: options)
_ = try await client.send(Request(type: 0x410, body: "secret"))
await server.disconnectAll(reset: true)
_ = try await client.send(Request(type: 0x410, body: "secret"), options: CallOptions(retry: .idempotent()))
await client.close()  // returns when the log is written

func records(_ event: String) -> [InMemoryLogHandler.Entry] {
    log.entries.filter { $0.metadata["event"] == .string(event) }
}
precondition(records("client.ready").map(\.level) == [.info], "\(log.entries)")
precondition(records("client.ready").allSatisfy { $0.metadata["endpoint"]?.description == "\(server.endpoint)" })
let lost = records("link.lost")
precondition(lost.map(\.level) == [.warning] && lost[0].metadata["cause"]?.description == "reset", "\(log.entries)")
precondition(records("client.closed").count == 1, "\(log.entries)")

// An error of the program's own code appears only with its type.
let failing = ClientOptions {
    $0.logging = ClientLogging(to: logger)
    $0.handshake.perform = { _ in throw LoginError() }
}
let other = Client(to: server.endpoint, speaking: .standard, options: failing)
_ = try? await other.send(Request(type: 0x410, body: "secret"), timeout: .seconds(2))
await other.close()
precondition("\(log.entries)".contains("LoginError") && !"\(log.entries)".contains("secret"), "\(log.entries)")
await server.stop()
print("logged")
