// A link is established, lost and established again; the log has a record of each, with its fields as metadata.
import InMemoryLogging
import Logging
import Trunkline
import TrunklineTesting

var handler = InMemoryLogHandler()
handler.logLevel = .debug
let log = handler
let logger = Logger(label: "client", factory: { _ in log })
let server = try await LoopbackServer.start(speaking: .standard)
let options = ClientOptions { $0.observers = [LoggingObserver(logger: logger)] }
let client = Client(to: server.endpoint, speaking: .standard, options: options)
_ = try await client.send(Request(type: 0x410, body: "secret"))
await server.disconnectAll()
_ = try await client.send(Request(type: 0x410, body: "secret"), options: CallOptions(retry: .idempotent()))
await client.close()
// A task of the client logs.
while !log.entries.contains(where: { $0.message == "connection.closed" }) { await Task.yield() }

let ready = log.entries.filter { $0.message == "connection.ready" }
precondition(ready.map(\.level) == [.info, .info], "\(log.entries)")
precondition(ready.map { $0.metadata["session"] } == ["1", "2"], "\(ready)")
precondition(ready.allSatisfy { $0.metadata["endpoint"] == "\(server.endpoint)" }, "\(ready)")
let ended = log.entries.filter { $0.message == "link.ended" }
precondition(ended.map(\.level) == [.warning, .info], "\(ended)")
precondition(ended.map { $0.metadata["cause"] } == ["closedByServer", "closedLocally"], "\(ended)")
precondition(!"\(log.entries)".contains("secret"))
await server.stop()
print("logged")
