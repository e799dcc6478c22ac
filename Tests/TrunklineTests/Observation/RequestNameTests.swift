import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging

/// Names of requests in errors, in the log and in timelines.
///
/// In protocols without type numbers, all of them said "request 66 of type 0x0 failed".
@Suite(.simulated, .timeLimit(.minutes(5)))
struct RequestNameTests {
    private let log = LogCollector()
    /// How often a name was asked for.
    private let asked = Lock(0)

    private var lines: DelimitedCodec {
        let asked = asked
        return DelimitedCodec(delimiter: "\n", maximumFrameSize: 1000)
            .reading { frame in frame.isErrorResponse = String(frame.body).hasPrefix("ERR") }
            .namingRequests { request in
                asked.withLock { $0 += 1 }
                return String(request.body).split(separator: " ").first.map(String.init)
            }
    }

    private static func react(to frame: Frame) -> Reaction {
        let text = String(frame.body)
        if text.hasPrefix("SLOW") { return .noReply }
        return text.hasPrefix("BAD") ? .frame(Frame(.response, body: "ERR")) : .echo
    }

    private func run(
        _ change: (inout ClientOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws {
        let options = ClientOptions {
            $0.requests.timeout = .seconds(1)
            $0.liveness.maximumStalls = nil
            change(&$0)
        }
        try simulate(speaking: lines, options: options, handler: { Self.react(to: $0) }) { service, client in
            try await body(service, client)
            await client.closeNow()
            #expect(await client.dispatcher.ledger.isWithoutNames)
        }
    }

    /// Nothing is asked for while nothing is written.
    @Test func anErrorNamesItsRequest() throws {
        try run { [asked] _, client in
            for number in 0..<100 { try await expectEcho("GET \(number)", by: client) }
            _ = await client.send(all: [Request(body: "GET a"), Request(body: "GET b")])
            #expect(asked.withLock { $0 } == 0)
            let error = await failure { () throws(ClientError) in try await client.send(Request(body: "SLOW secret")) }
            #expect(error?.requestName == "SLOW" && error?.timeline?.name == "SLOW")
            let text = error.map { "\($0)" } ?? ""
            #expect(text.hasPrefix("timedOut (fate unknown): SLOW: deadline exceeded after 1 s"))
            #expect(!text.contains("secret"))
            let results = await client.send(all: [Request(body: "SLOW x"), Request(body: "SLOWER x")])
            let names = results.map { result -> String? in
                if case .failure(let error) = result { error.requestName } else { nil }
            }
            #expect(names == ["SLOW", "SLOWER"])
        }
    }

    @Test func theLogNamesRequests() throws {
        try run {
            $0.logging = log.logging()
        } _: { service, client in
            let slow = client.start(Request(body: "SLOW secret"))
            let error = await failure(of: slow)
            #expect(error?.requestName == "SLOW")
            try await service.pass(.seconds(40))
        }
        #expect(
            log.record("requests.failed")?.message.contains(
                "request 1 (SLOW) failed: timedOut (fate unknown): deadline"
            ) == true
        )
        #expect(!log.text.contains("type 0x0") && !log.text.contains("secret"), "\(log.text)")
    }

    @Test func rejectionsAreListedByName() throws {
        try run {
            $0.logging = log.logging()
        } _: { service, client in
            _ = await failure(of: client.start(Request(body: "BAD secret")))
            try await service.pass(.seconds(40))
        }
        #expect(log.record("requests.rejected")?.message.contains("of BAD with status 0") == true, "\(log.text)")
    }

    @Test func aLayoutNamesRequestsByTheirTypes() throws {
        let layout = FrameLayout.standard.namingRequests([0x410: "GetUser", 0x411: "SetUser\n"])
        let options = ClientOptions { $0.requests.timeout = .seconds(1) }
        try simulate(speaking: layout, options: options, handler: { _ in .noReply }) { _, client in
            let named = await failure(of: client.start(Request(type: 0x410)))
            #expect(named?.requestName == "GetUser")
            let escaped = await failure(of: client.start(Request(type: 0x411)))
            #expect(escaped?.requestName == "SetUser\\n")
            let unnamed = await failure(of: client.start(Request(type: 0x412)))
            #expect(unnamed?.requestName == nil && unnamed.map { "\($0)".contains(": deadline exceeded") } == true)
        }
    }

    @Test func aNameIsBoundedAndEscaped() throws {
        try run { _, client in
            let verb = "SLOW\u{7}\(String(repeating: "x", count: 200))"
            let error = await failure { () throws(ClientError) in try await client.send(Request(body: Bytes(verb))) }
            #expect(error?.requestName?.hasPrefix("SLOW\\u{7}xx") == true)
            #expect((error?.requestName?.unicodeScalars.count ?? 0) <= 66)
        }
    }

    private struct Slow: TypedRequest {
        static let type: UInt32 = 0x410
        static let name: String? = "a slow request"
        func encode() -> Bytes { "SLOW" }
        static func decode(_ response: Response) -> Bytes { response.body }
    }

    // MARK: Metrics

    @Test func callsAreMeasuredByName() throws {
        try run {
            $0.requests.measuresByName = true
        } _: { _, client in
            for number in 0..<3 { try await expectEcho("GET \(number)", by: client) }
            _ = await client.send(all: [Request(body: "GET a"), Request(body: "PUT b"), Request(body: "BAD c")])
            _ = await failure { () throws(ClientError) in try await client.send(Request(body: "SLOW d")) }
            try await client.post(Request(body: "NOTE e"))
            let metrics = await client.metrics
            #expect(
                metrics.durationsByName.mapValues { $0.all.count } == [
                    "GET": 4, "PUT": 1, "BAD": 1, "SLOW": 1, "NOTE": 1,
                ]
            )
            #expect(metrics.durationsByName["GET"]?.failures.isEmpty == true)
            #expect(metrics.durationsByName["BAD"]?.failures.mapValues(\.count) == [.rejected: 1])
            #expect(metrics.durationsByName["SLOW"]?.failures.mapValues(\.count) == [.timedOut: 1])
            #expect(metrics.durationsByName["SLOW"]?.all.sum == .seconds(1))
            var total = LatencyHistogram()
            for durations in metrics.durationsByName.values { total.merge(durations.all) }
            #expect(total == metrics.callDurations)
        }
    }

    @Test func withoutTheOptionNothingIsMeasuredByName() throws {
        try run { [asked] _, client in
            try await expectEcho("GET 1", by: client)
            #expect(await client.metrics.durationsByName.isEmpty)
            #expect(asked.withLock { $0 } == 0)
        }
    }

    /// The names of requests may come from a user.
    @Test func namesThatAreMeasuredAreBounded() throws {
        try run {
            $0.requests.measuresByName = true
        } _: { _, client in
            for number in 0..<100 { try await expectEcho("VERB\(number) x", by: client) }
            let metrics = await client.metrics
            #expect(metrics.durationsByName.count == 65)
            #expect(metrics.durationsByName["others"]?.all.count == 36)
            #expect(metrics.durationsByName["VERB0"]?.all.count == 1 && metrics.durationsByName["VERB99"] == nil)
        }
    }

    @Test func requestsWithoutANameAreMeasuredByTheirType() throws {
        let layout = FrameLayout.standard.namingRequests([0x410: "GetUser"])
        let options = ClientOptions { $0.requests.measuresByName = true }
        try simulate(speaking: layout, options: options) { _, client in
            for type: UInt32 in [0x410, 0x410, 0x411] { _ = try await client.send(Request(type: type)) }
            #expect(await client.metrics.durationsByName.mapValues { $0.all.count } == ["GetUser": 2, "type 0x411": 1])
            for type in UInt32(0x500)..<0x600 { _ = try await client.send(Request(type: type)) }
            let metrics = await client.metrics
            #expect(metrics.durationsByName.count == 65 && metrics.durationsByName["GetUser"]?.all.count == 2)
            #expect(metrics.durationsByName["others"]?.all.count == 256 - 62)
        }
    }

    /// For spans, and for metrics of an interceptor's own.
    @Test func interceptorsSeeTheName() throws {
        struct Naming: ClientInterceptor {
            let names = Lock<[String?]>([])
            func intercept(_ call: inout ClientCall) throws(ClientError) -> Completion? {
                names.withLock { $0.append(call.requestName) }
                return nil
            }
        }
        let naming = Naming()
        try run {
            $0.interceptors = [naming]
        } _: { _, client in
            try await expectEcho("GET 1", by: client)
            try await client.post(Request(body: "NOTE\u{7} 2"))
            #expect(naming.names.withLock { $0 } == ["GET", "NOTE\\u{7}"])
        }
    }

    /// Observers read the names in the fields of events.
    @Test func eventsOfFailuresHaveTheName() throws {
        let collector = EventCollector([.failures])
        try run {
            $0.observers = [collector]
        } _: { _, client in
            _ = await failure { () throws(ClientError) in try await client.send(Request(body: "SLOW secret")) }
            let event = collector.events.first { $0.name == "request.failed" }
            #expect(event?.fields.first { $0.name == "name" }?.value == .text("SLOW"))
        }
    }

    /// Regression: the error was named for the caller only, after the event.
    @Test func eventsOfRefusalsHaveTheName() throws {
        let collector = EventCollector([.failures])
        try run {
            $0.observers = [collector]
        } _: { [asked] _, client in
            let options = CallOptions(waitsForReady: false)
            let error = await failure { () throws(ClientError) in
                try await client.send(Request(body: "GET secret"), options: options)
            }
            #expect(error?.code == .unavailable && error?.requestName == "GET")
            await client.closeNow()
            _ = await failure(of: client.start(Request(body: "PUT secret")))
            let refusals = collector.events.filter { $0.name == "request.refused" }
            let names = refusals.map { event in event.fields.first { $0.name == "name" }?.value }
            #expect(names == [.text("GET"), .text("PUT")])
            #expect(asked.withLock { $0 } <= 4)
        }
    }

    // MARK: Typed requests

    @Test func aTypedRequestHasANameOfItsOwn() throws {
        try run { _, client in
            let error = await failure { () throws(ClientError) in _ = try await client.send(Slow()) }
            #expect(error?.requestName == "SLOW")
        }
        let options = ClientOptions { $0.requests.timeout = .seconds(1) }
        try simulate(options: options, handler: { _ in .noReply }) { _, client in
            let error = await failure { () throws(ClientError) in _ = try await client.send(Slow()) }
            #expect(error?.requestName == "a slow request")
        }
    }

    /// Only `send` of one request used to name its error.
    @Test func everyCallWithATypedRequestNamesItsError() throws {
        let options = ClientOptions {
            $0.requests.timeout = .seconds(1)
            $0.liveness.maximumStalls = nil
        }
        try simulate(options: options, handler: { _ in .noReply }) { _, client in
            var errors = await client.send(all: [Slow(), Slow()]).map { $0.failure }
            errors.append(await failure { () throws(ClientError) in _ = try await client.start(Slow()).value })
            errors.append(
                await failure { () throws(ClientError) in
                    for try await _ in try client.stream(Slow(), timeout: .seconds(1)) {}
                }
            )
            errors.append(await failure { () throws(ClientError) in _ = try await client.subscribe(Slow()) })
            #expect(errors.map { $0?.code } == Array(repeating: .timedOut, count: 5))
            #expect(errors.map { $0?.requestName } == Array(repeating: "a slow request", count: 5))
        }
    }

    private struct Unwritable: TypedRequest {
        static let type: UInt32 = 0x411
        static let name: String? = "an unwritable request"
        func encode() throws -> Bytes { throw FrameError(.illegalLength, "too long") }
        static func decode(_ response: Response) -> Bytes { response.body }
    }

    @Test func theErrorOfARequestThatCannotBeEncodedIsNamed() throws {
        #expect(throws: ClientError.self) { try Request(Unwritable()) }
        do throws(ClientError) { _ = try Request(Unwritable()) } catch {
            #expect(error.requestName == "an unwritable request")
        }
    }
}

extension Result {
    fileprivate var failure: Failure? {
        if case .failure(let error) = self { error } else { nil }
    }
}
