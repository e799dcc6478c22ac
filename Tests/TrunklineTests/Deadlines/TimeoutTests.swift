import Testing
import Trunkline
import TrunklineTesting

/// Which timeout applies to a call.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct TimeoutTests {}

extension TimeoutTests {
    /// Runs `call` against a server that never answers, for at most 100 s, and checks that it times out
    /// after `expected`.
    private func expectTimeout(
        after expected: Duration,
        _ options: ClientOptions = ClientOptions { $0.requests.timeout = .seconds(3) },
        sourceLocation: SourceLocation = #_sourceLocation,
        _ call: @escaping @Sendable (Client) async throws -> Void
    ) throws {
        var options = options
        options.liveness.maximumStalls = nil
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            try await client.connect()
            let began = service.now
            await #expect(throws: ClientError.self, sourceLocation: sourceLocation) {
                try await withTimeout(.seconds(100), clock: service.network.clock) { try await call(client) }
            }
            #expect(service.now - began == expected, sourceLocation: sourceLocation)
        }
    }

    @Test func theTimeoutOfACallOverridesThatOfItsOptionsAndOfTheClient() throws {
        let two = CallOptions(timeout: .seconds(2))
        try expectTimeout(after: .seconds(1)) { _ = try await $0.send(ask("a"), timeout: .seconds(1), options: two) }
        try expectTimeout(after: .seconds(2)) { _ = try await $0.send(ask("a"), options: two) }
        try expectTimeout(after: .seconds(3)) { _ = try await $0.send(ask("a")) }
        try expectTimeout(after: .seconds(3)) { _ = try await $0.send(ask("a"), timeout: .default) }
    }

    @Test func aTimeoutOfNeverOverridesTheDefault() throws {
        let never = CallOptions(timeout: .never)
        try expectTimeout(after: .seconds(100)) { _ = try await $0.send(ask("a"), timeout: .never) }
        try expectTimeout(after: .seconds(100)) { _ = try await $0.send(ask("a"), options: never) }
        try expectTimeout(after: .milliseconds(1500)) {
            _ = try await $0.send(ask("a"), timeout: .milliseconds(1500), options: never)
        }
        try expectTimeout(after: .seconds(100), ClientOptions { $0.requests.timeout = nil }) {
            _ = try await $0.send(ask("a"))
        }
    }

    @Test func everyFormOfCallHasATimeout() throws {
        let two = CallOptions(timeout: .seconds(2))
        try expectTimeout(after: .seconds(2)) {
            _ = try await $0.send(all: [ask("a"), ask("b")], options: two)[1].get()
        }
        try expectTimeout(after: .seconds(2)) { _ = try await $0.start(ask("a"), options: two).value }
        try expectTimeout(after: .seconds(2)) {
            _ = try await CachingSender($0).send(ask("a"), cache: .reloadIgnoringCache, options: two)
        }
        try expectTimeout(after: .seconds(1)) { _ = try await $0.subscribe(ask("a"), timeout: .seconds(1)) }
    }

    /// A stream has its own default for the whole reply. Each of its parts has the default of other calls.
    @Test func aStreamHasItsOwnDefault() throws {
        @Sendable func read(_ stream: ReplyStream<Response>) async throws { for try await _ in stream {} }
        try expectTimeout(after: .seconds(3)) { try await read($0.stream(ask("a"))) }
        try expectTimeout(after: .seconds(100)) { try await read($0.stream(ask("a"), partTimeout: .never)) }
        try expectTimeout(after: .seconds(2)) {
            try await read($0.stream(ask("a"), options: CallOptions(timeout: .seconds(2))))
        }
        let options = ClientOptions { $0.requests.streamTimeout = .seconds(5) }
        try expectTimeout(after: .seconds(5), options) { try await read($0.stream(ask("a"), partTimeout: .never)) }
        try expectTimeout(after: .seconds(7), options) {
            try await read($0.stream(ask("a"), timeout: .seconds(7), partTimeout: .never))
        }
    }
}
