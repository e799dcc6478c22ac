// A call whose first try is lost, and one that times out; their spans, and the context that the server received.
import InMemoryTracing
import Synchronization
import Tracing
import Trunkline
import TrunklineTesting

/// The tracer of the package, with identifiers and a header as in W3C Trace Context.
struct W3CTracer: Tracer {
    let spans: InMemoryTracer

    func startSpan<Instant: TracerInstant>(
        _ name: String, context: @autoclosure () -> ServiceContext, ofKind kind: SpanKind,
        at instant: @autoclosure () -> Instant, function: String, file: String, line: UInt
    ) -> InMemorySpan {
        spans.startSpan(
            name, context: context(), ofKind: kind, at: instant(), function: function, file: file, line: line)
    }

    func forceFlush() {}

    func inject<Carrier, Inject: Injector>(
        _ context: ServiceContext, into carrier: inout Carrier, using injector: Inject
    ) where Inject.Carrier == Carrier {
        guard let ids = context.inMemorySpanContext else { return }
        injector.inject("00-\(ids.traceID)-\(ids.spanID)-01", forKey: "traceparent", into: &carrier)
        injector.inject("vendor=1", forKey: "tracestate", into: &carrier)  // the layout has no such field
    }

    func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract
    ) where Extract.Carrier == Carrier {}
}

func digits(_ count: Int) -> @Sendable () -> String {
    { (0..<count).map { _ in String(Int.random(in: 1...15), radix: 16) }.joined() }
}
let ids = InMemoryTracer.IDGenerator(nextTraceID: digits(32), nextSpanID: digits(16))
let tracer = InMemoryTracer(idGenerator: ids)
InstrumentationSystem.bootstrap(W3CTracer(spans: tracer))

let layout = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.bytes("traceparent", 55)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
let received = Mutex<[String]>([])
let server = try await LoopbackServer.start(speaking: layout) { request in
    let context = request[bytes: "traceparent"].map { String($0) } ?? ""
    let count = received.withLock {
        $0.append(context)
        return $0.count
    }
    if count == 1 { return .close }
    return request.type == 3 ? .noReply : .echo
}
let options = ClientOptions {
    $0.interceptors = [TracingInterceptor()]
    $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(1))
}
let client = Client(to: server.endpoint, speaking: layout, options: options)

let retrying = CallOptions(retry: .idempotent())
_ = try await withSpan("caller") { _ in try await client.send(Request(type: 2), options: retrying) }
_ = try? await client.send(Request(type: 3), timeout: .seconds(1))
await client.close()

func attribute(_ span: FinishedInMemorySpan, _ name: String) -> String? {
    span.attributes.get(name).map { "\($0)" }
}
let spans = tracer.popFinishedSpans()
let (caller, calls) = (spans.filter { $0.operationName == "caller" }, spans.filter { $0.kind == .client && $0.operationName != "try" })
precondition(tracer.activeSpans.isEmpty)
precondition(calls.map(\.operationName) == ["trunkline/2", "trunkline/3"], "\(spans)")
precondition(calls[0].parentSpanID == caller[0].spanID && calls[1].parentSpanID == nil)
for call in calls {
    precondition(attribute(call, "rpc.system.name")?.contains("trunkline") == true)
    precondition(attribute(call, "rpc.method")?.contains(call.operationName.split(separator: "/")[1]) == true)
}
precondition(calls[0].status == nil && attribute(calls[0], "error.type") == nil)
precondition(calls[1].status?.code == .error && attribute(calls[1], "error.type")?.contains("timedOut") == true)

// The retried call has two tries, one after the other, within it. The first one failed.
let tries = spans.filter { $0.operationName == "try" && $0.parentSpanID == calls[0].spanID }
precondition(tries.count == 2 && tries.allSatisfy { $0.kind == .client && $0.traceID == calls[0].traceID })
let times = tries.map { ($0.startInstant.nanosecondsSinceEpoch, $0.endInstant.nanosecondsSinceEpoch) }
precondition(times[0].0 == calls[0].startInstant.nanosecondsSinceEpoch)
precondition(times[0].0 < times[0].1 && times[0].1 <= times[1].0 && times[1].0 < times[1].1, "\(times)")
precondition(times[1].1 <= calls[0].endInstant.nanosecondsSinceEpoch)
precondition(tries[0].status?.code == .error && tries[1].status == nil)
for name in ["server.address", "network.peer.address"] {
    precondition(tries.allSatisfy { attribute($0, name)?.contains("\"127.0.0.1\"") == true }, "\(tries)")
}
let port = "\(server.endpoint.port ?? 0)"
precondition(tries.allSatisfy { attribute($0, "server.port")?.contains(port) == true }, "\(tries)")
let lost = spans.filter { $0.operationName == "try" && $0.parentSpanID == calls[1].spanID }
precondition(lost.count == 1 && lost[0].status?.code == .error)

// Both tries of the first call sent its context.
let contexts = calls.map { "00-\($0.traceID)-\($0.spanID)-01" }
precondition(received.withLock { $0 } == [contexts[0], contexts[0], contexts[1]], "\(received.withLock { $0 })")
await server.stop()
print("traced")
