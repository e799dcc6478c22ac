import Testing
import TrunklineCache
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// Notes every call and its result, and applies `change`.
private final class Witness: ClientInterceptor {
    @TaskLocal static var label = "none"

    let seen = Lock<[String]>([])
    let change: @Sendable (inout ClientCall) throws(ClientError) -> Void
    /// What is appended to the bodies of responses.
    let suffix: String

    init(
        appending suffix: String = "",
        change: @escaping @Sendable (inout ClientCall) throws(ClientError) -> Void = { _ throws(ClientError) in }
    ) {
        (self.change, self.suffix) = (change, suffix)
    }

    func intercept(_ call: inout ClientCall) throws(ClientError) -> Completion? {
        let label = "\(call.form.rawValue) \(call.request.body.string) \(Self.label)"
        seen.withLock { $0.append(label) }
        try change(&call)
        return { [self] result, timeline in
            if !suffix.isEmpty { result = result.map { Response(body: Bytes($0.body.string + suffix)) } }
            let outcome = result.error.map { "\($0.code)" } ?? "ok"
            seen.withLock { $0.append("\(label): \(outcome)\(timeline == nil ? "" : " with timeline")") }
        }
    }

    var all: [String] { seen.withLock { $0 } }
}

private struct Typed: TypedRequest {
    static let type: UInt32 = 0x410
    var body: String

    func encode() -> Bytes { Bytes(body.utf8) }
    static func decode(_ response: Response) -> String { response.body.string }
}

/// Interceptors: every call form passes them, in the caller's task.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct InterceptorTests {}

extension InterceptorTests {
    @Test func everyCallFormPassesOnce() throws {
        let witness = Witness { $0.recordsTimeline = true }
        let options = ClientOptions { $0.interceptors = [witness] }
        try simulate(options: options) { service, client in
            try await Witness.$label.withValue("task") {
                _ = try await client.send(ask("send"))
                _ = try await client.send(Typed(body: "typed"))
                let cached = CachingSender(client)
                // The second one is answered from the cache.
                _ = try await cached.send(ask("cached"), cache: .for(.seconds(60)))
                _ = try await cached.send(ask("cached"), cache: .for(.seconds(60)))
                _ = await client.send(all: [ask("all1"), ask("all2")])
                try await client.post(ask("post"))
                _ = await client.post(all: [ask("posts")])
                try await client.enqueue(ask("enqueue"))
                try client.tryEnqueue(ask("tryEnqueue"))
                _ = try await client.start(ask("start")).value
                for try await _ in client.stream(ask("stream")) {}
                _ = try await client.subscribe(ask("subscribe"))
                _ = try await client.subscribe(posting: ask("posting"))
            }
            let forms = [
                "send send", "send typed", "send cached", "send all1", "send all2", "post post",
                "post posts",
                "enqueue enqueue", "enqueue tryEnqueue", "start start", "stream stream", "subscribe subscribe",
                "subscribe posting",
            ]
            let calls = witness.all.filter { !$0.contains(":") }
            #expect(calls == forms.map { "\($0) task" })
            let ends = witness.all.filter { $0.contains(":") }
            #expect(ends.count == forms.count && ends.allSatisfy { $0.contains("task: ok") })
            // `enqueue` returns before the message is written.
            let without = ends.filter { !$0.hasSuffix("with timeline") }.map { $0.split(separator: " ")[1] }
            #expect(without == ["enqueue", "tryEnqueue"])
        }
    }

    @Test func changesApplyInOrderAndCompletionsInReverse() throws {
        let first = Witness(appending: "!") { $0.request.body = Bytes($0.request.body.string + "1") }
        let second = Witness(appending: "?") { $0.request.body = Bytes($0.request.body.string + "2") }
        let options = ClientOptions { $0.interceptors = [first, second] }
        try simulate(options: options) { _, client in
            try await client.connect()
            #expect(try await client.send(ask("x")).body == "x12?!")
            #expect(try await client.start(ask("y")).value.body == "y12?!")
            #expect(await client.send(all: [ask("z")]).first?.success?.body == "z12?!")
            #expect(second.all.first == "send x1 none")
        }
    }

    @Test func aCallCanBeRefusedOrAnswered() throws {
        let refusal = ClientError(.invalidArgument, .notSent, "no token")
        let outer = Witness()
        let gate = Witness { call throws(ClientError) in
            if call.request.body == "refuse" { throw refusal }
            if call.request.body == "answer" { call.answer = Response(body: "here") }
        }
        let inner = Witness()
        let options = ClientOptions { $0.interceptors = [outer, gate, inner] }
        try simulate(options: options) { service, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("refuse")) }
            #expect(error?.code == .invalidArgument && error?.message == "no token")
            #expect(await failure(of: client.start(ask("refuse")))?.code == .invalidArgument)
            #expect(throws: ClientError.self) { try client.tryEnqueue(ask("refuse")) }
            #expect(try await client.send(ask("answer")).body == "here")
            #expect(try await client.start(ask("answer")).value.body == "here")
            var elements: [Bytes] = []
            for try await element in client.stream(ask("answer")) { elements.append(element.body) }
            #expect(elements == ["here"])
            let results = await client.send(all: [ask("refuse"), ask("x"), ask("answer")])
            #expect(results.map { $0.error?.code } == [.invalidArgument, nil, nil])
            #expect(results[1].success?.body == "x" && results[2].success?.body == "here")
            #expect(inner.all == ["send x none", "send x none: ok"])
            #expect(outer.all.filter { $0.contains("refuse none: invalidArgument") }.count == 4)
            #expect(await client.metrics.requests == 1)
        }
    }

    @Test func theTimeThatIsLeftIsKnown() throws {
        let left = Lock<[Duration?]>([])
        let witness = Witness { call in left.withLock { $0.append(call.timeLeft) } }
        let options = ClientOptions {
            $0.interceptors = [witness]
            $0.requests.timeout = .seconds(5)
        }
        try simulate(options: options) { _, client in
            _ = try await client.send(ask("a"), timeout: .seconds(2))
            _ = try await client.send(ask("b"))
            _ = try await client.send(ask("c"), timeout: .never)
            for try await _ in client.stream(ask("d")) {}
            #expect(left.withLock { $0 } == [.seconds(2), .seconds(5), nil, nil])
        }
    }

    /// A later link must receive what the server accepted, with its token.
    @Test func subscriptionsAreRestoredAsTheyWereSent() throws {
        let witness = Witness { $0.request.body = Bytes($0.request.body.string + "+token") }
        let options = ClientOptions { $0.interceptors = [witness] }
        let bodies = Lock<[String]>([])
        let handler: LoopbackServer.Handler = { request in
            bodies.withLock { $0.append(request.body.string) }
            return .echo
        }
        try simulate(options: options, handler: handler) { service, client in
            let subscription = try await client.subscribe(ask("topic"))
            service.network.reset("db")
            try await service.server.waitForRequests(2)
            #expect(bodies.withLock { $0 } == ["topic+token", "topic+token"])
            #expect(witness.all == ["subscribe topic none", "subscribe topic none: ok"])
            await subscription.end()
        }
    }

    @Test func anInterceptorCannotMakeAMessageThatMayNotBePosted() throws {
        let options = ClientOptions { $0.interceptors = [Witness { $0.request = Request(type: 0x410, body: "x") }] }
        try simulate(options: options) { _, client in
            // The standard layout allows every message: the new request goes out with the kind of the original.
            try await client.post(ask("a"))
            #expect(try await client.send(ask("b")).body == "x")
        }
    }

    @Test func aCallThatIsCancelledByAnInterceptorSendsNothing() throws {
        let witness = Witness { call throws(ClientError) in
            call.recordsTimeline = true
            unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
        }
        let options = ClientOptions { $0.interceptors = [witness] }
        try simulate(options: options) { service, client in
            let recorder = TimelineRecorder()
            let callOptions = CallOptions(recorder: recorder)
            async let send = failure { () throws(ClientError) in
                try await client.send(ask("a"), options: callOptions)
            }
            async let post = failure { () throws(ClientError) in try await client.post(ask("b")) }
            for error in [await send, await post] { #expect(error?.code == .cancelled && error?.fate == .notSent) }
            #expect(await service.server.received.isEmpty && recorder.timelines.isEmpty)
            #expect(
                witness.all.sorted() == [
                    "post b none", "post b none: cancelled", "send a none", "send a none: cancelled",
                ]
            )
        }
    }

    @Test func cancelledCallsEndOnceWithTheirCompletion() throws {
        let witness = Witness()
        let options = ClientOptions { $0.interceptors = [witness] }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            await withTaskGroup { group in
                group.addTask { _ = await failure { () throws(ClientError) in try await client.send(ask("a")) } }
                try? await service.server.waitForRequests(1)
                group.cancelAll()
            }
            let handle = client.start(ask("b"))
            try await service.server.waitForRequests(2)
            handle.cancel()
            _ = await failure(of: handle)
            #expect(witness.all.filter { $0.hasSuffix(": cancelled") }.count == 2 && witness.all.count == 4)
        }
    }
}

extension Bytes {
    fileprivate var string: String { String(decoding: self, as: UTF8.self) }
}

extension Result {
    fileprivate var success: Success? { try? get() }
}
