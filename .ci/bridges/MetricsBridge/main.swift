// Calls that are answered, rejected, ended by a timeout and refused; what was recorded equals the client's own metrics.
import Metrics
import MetricsTestKit
import Trunkline
import TrunklineTesting

let recorded = TestMetrics()
MetricsSystem.bootstrap(recorded)
let layout = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.status(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles {
    $0.ping = 0x1
    $0.push = .types(0x2...0x400)
    $0.cancel = 0x401
    $0.serials = 50...
}
let server = try await LoopbackServer.start(speaking: layout) { request in
    switch request.type {
    case 0x411: .noReply
    case 0x412: .status(7)
    default: .after(.milliseconds(5), .echo)
    }
}
let options = ClientOptions { $0.observers = [MetricsObserver()] }
let client = Client(to: server.endpoint, speaking: layout, options: options)
_ = await client.send(all: (0..<50).map { _ in Request(type: 0x410) })
_ = try? await client.send(Request(type: 0x412))  // rejected
for _ in 0..<3 { try await client.post(Request(type: 0x410)) }
for _ in 0..<2 { _ = try? await client.send(Request(type: 0x411), timeout: .seconds(1)) }
let waiting = Task { try? await client.send(Request(type: 0x411), timeout: .seconds(60)) }
try await server.wait { $0.requestCount == 57 }
let during = await client.metrics
MetricsObserver.record(during)
let gauges = try ["requests.pending", "requests.waiting", "serials.held"].map {
    try recorded.expectGauge("trunkline.\($0)").lastValue
}
precondition(gauges == [1, 0, Double(during.heldSerials)] && during.pending == 1 && during.heldSerials > 0, "\(gauges)")
waiting.cancel()
_ = await waiting.value
await client.close()
_ = try? await client.send(Request(type: 0x410))  // refused
let metrics = await client.metrics

let name = "rpc.client.call.duration"
func timers() -> [TestTimer] { recorded.timers(label: name) }
// A task of the client records.
while recorded.counterTotal(label: "trunkline.requests.refused") < metrics.refusals.values.reduce(0, +) {
    await Task.yield()
}
precondition(metrics.responses == 51 && metrics.written == 3 && metrics.failed == 3, "\(metrics)")
let rejected = metrics.failures[.init(.rejected, .answered)] ?? 0
let successful = try recorded.expectTimer(name).values
precondition(rejected == 1 && successful.count == metrics.responses - rejected + metrics.written, "\(successful)")
for (failure, count) in metrics.failures {
    let dimensions = [("error.type", "\(failure.code)"), ("trunkline.fate", "\(failure.fate)")]
    let timed = try recorded.expectTimer(name, dimensions).values.count
    precondition(timed == count, "\(failure)")
}
let all = timers().flatMap(\.values)
precondition(all.count == metrics.callDurations.count)
// A timer receives nanoseconds: the server waits for 5 ms.
precondition(successful.sorted().dropFirst(metrics.written).allSatisfy { (5_000_000..<60_000_000_000).contains($0) })
let sum = Duration.nanoseconds(all.reduce(0, +))
precondition(sum == metrics.callDurations.sum, "\(sum) \(metrics.callDurations.sum)")
precondition(recorded.counterTotal(label: "trunkline.links.ended") == metrics.connection.disconnects.values.reduce(0, +))
await server.stop()
print("measured")
