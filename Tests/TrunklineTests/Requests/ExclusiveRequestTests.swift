import Synchronization
import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineTesting

/// Requests that are alone on their link (`CallOptions.isExclusive`), as LDAP requires of a bind (RFC 4511, section
/// 4.2.1): the operations before it end first, and the client sends nothing more before the response.
@Suite(.simulated, .timeLimit(.seeded))
struct ExclusiveRequestTests {}

extension ExclusiveRequestTests {
    private static let alone = CallOptions(isExclusive: true)

    /// A server that notes which requests it works on at a time.
    private final class Directory: Sendable {
        private struct State {
            var working: Set<String> = []
            var order: [String] = []
            var violations: [String] = []
        }

        private let state = Mutex(State())
        private let clock: SimulatedClock
        private let duration: @Sendable (String) -> Duration

        init(_ clock: SimulatedClock, _ duration: @escaping @Sendable (String) -> Duration) {
            (self.clock, self.duration) = (clock, duration)
        }

        /// The requests in the order of their arrival.
        var order: [String] { state.withLock { $0.order } }
        /// The bind requests that had company.
        var violations: [String] { state.withLock { $0.violations } }

        func answer(_ frame: Frame) -> Reaction {
            let name = String(frame.body)
            state.withLock { state in
                let binds = state.working.filter { $0.hasPrefix("bind") }
                if name.hasPrefix("bind") ? !state.working.isEmpty : !binds.isEmpty {
                    state.violations.append("\(name) with \(state.working)")
                }
                state.working.insert(name)
                state.order.append(name)
            }
            return .perform { exchange in
                defer { self.end(name) }
                try await self.clock.sleep(for: self.duration(name))
                self.end(name)
                try await exchange.reply(Bytes(name))
            }
        }

        private func end(_ name: String) { _ = state.withLock { $0.working.remove(name) } }
    }

    private func simulate(
        seed: UInt64 = 1,
        _ options: ClientOptions = ClientOptions(),
        duration: @escaping @Sendable (String) -> Duration = { _ in .milliseconds(100) },
        _ body: @escaping @Sendable (SimulatedNetwork, Client, Directory) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: seed)
        try network.runBlocking {
            let directory = Directory(network.clock, duration)
            let server = try await network.serve(at: "db:389", speaking: FrameLayout.standard, overTLS: false) {
                directory.answer($0)
            }
            let client = network.client(
                of: ["db:389"],
                speaking: FrameLayout.standard,
                options: options,
                overTLS: false
            )
            try await body(network, client, directory)
            #expect(await client.diagnostics.audit() == [])
            #expect(await client.metrics.pending == 0)
            #expect(await client.dispatcher.requests.queue.exclusives.isEmpty)
            await client.closeNow()
            await server.stop()
        }
        #expect(network.openLinks == 0)
    }

    @Test func anExclusiveRequestIsAloneAndKeepsItsTurn() throws {
        try simulate { _, client, directory in
            let before = (0..<3).map { client.start(ask("a\($0)")) }
            let bind = client.start(ask("bind"), options: Self.alone)
            let after = (0..<3).map { client.start(ask("b\($0)")) }
            let again = client.start(ask("bind again"), options: Self.alone)
            let last = client.start(ask("last"))
            for handle in before + [bind] + after + [again, last] { _ = try await handle.value }
            #expect(directory.order == ["a0", "a1", "a2", "bind", "b0", "b1", "b2", "bind again", "last"])
            #expect(directory.violations.isEmpty)
        }
    }

    /// Requests that come all the time do not keep an exclusive one from its turn.
    @Test func othersDoNotPassAnExclusiveRequest() throws {
        try simulate { network, client, directory in
            try await withThrowingTaskGroup { group in
                for task in 0..<5 {
                    group.addTask {
                        for number in 0..<20 {
                            _ = try await client.send(ask("\(task) \(number)"))
                            try await network.clock.sleep(for: .milliseconds(10 * task))
                        }
                    }
                }
                try await network.clock.sleep(for: .milliseconds(450))
                let began = network.clock.now
                _ = try await client.send(ask("bind"), options: Self.alone)
                // The longest request before it, and its own.
                #expect(began.duration(to: network.clock.now) < .milliseconds(220))
                try await group.waitForAll()
            }
            #expect(directory.violations.isEmpty && directory.order.count == 101)
        }
    }

    @Test func aBatchAndMessagesObeyAsWell() throws {
        try simulate { _, client, directory in
            async let binds = client.send(all: (0..<3).map { ask("bind \($0)") }, options: Self.alone)
            async let others = client.send(all: (0..<3).map { ask("\($0)") })
            let (first, second) = (await binds, await others)
            #expect((first + second).allSatisfy { (try? $0.get()) != nil })
            #expect(directory.violations.isEmpty)
            // A message has no answer for which others could wait.
            try await client.post(ask("message"), options: Self.alone)
        }
    }

    @Test func anExclusiveRequestThatIsCancelledOrTimesOutHoldsNobody() throws {
        try simulate { network, client, directory in
            let slow = client.start(ask("a"))
            let bind = client.start(ask("bind"), options: Self.alone)
            let next = client.start(ask("b"))
            try await network.clock.sleep(for: .milliseconds(20))
            bind.cancel()
            #expect(await failure(of: bind)?.fate == .notSent)
            try await network.clock.sleep(for: .milliseconds(20))
            #expect(next.state == .written)  // together with the slow one
            _ = try await (slow.value, next.value)
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("bind"), timeout: .milliseconds(50), options: Self.alone)
            }
            #expect(error?.code == .timedOut && error?.fate == .unknown)
            // The server does not answer what was cancelled, so the link is replaced after `liveness.deadline` (10 s).
            #expect(try await client.send(ask("c"), timeout: .seconds(20)).body == "c")
            #expect(await client.metrics.connection.disconnects == [.unanswered: 1])
            #expect(directory.violations.isEmpty)
        }
    }

    /// Its link is lost: it goes out on the next one, alone again.
    @Test func anExclusiveRequestRemainsExclusiveOnTheNextLink() throws {
        try simulate { network, client, directory in
            let slow = client.start(ask("a"))
            let retried = CallOptions(retry: .idempotent(), isExclusive: true)
            let bind = client.start(ask("bind"), options: retried)
            try await network.clock.sleep(for: .milliseconds(50))
            network.reset("db")
            let next = (0..<3).map { client.start(ask("b\($0)")) }
            #expect(await failure(of: slow)?.code == .connectionLost)
            try await network.clock.sleep(for: .milliseconds(300))
            network.reset("db")
            for handle in next { _ = try? await handle.value }
            _ = try await bind.value
            #expect(directory.violations.isEmpty)
        }
    }

    @Test func noExclusiveRequestHasCompany() async throws {
        let binds = Mutex(0)
        for seed in seeds(100) {
            await Task.yield()
            let durations = Mutex(SeededGenerator(seed: seed))
            let options = ClientOptions {
                $0.requests.retry = .idempotent(tries: 10)
                $0.requests.maximumInFlight = seed % 3 == 0 ? 2 : 65_536
                $0.requests.timeout = .seconds(600)
            }
            try simulate(
                seed: seed,
                options,
                duration: { _ in durations.withLock { .milliseconds(Int.random(in: 0..<50, using: &$0)) } }
            ) { network, client, directory in
                var random = SeededGenerator(seed: seed)
                var handles: [PendingRequest<Response>] = []
                for number in 0..<150 {
                    switch Int.random(in: 0..<20, using: &random) {
                    case 0, 1:
                        try await network.clock.sleep(for: .milliseconds(Int.random(in: 0..<100, using: &random)))
                    case 2: if !handles.isEmpty { handles[Int.random(in: 0..<handles.count, using: &random)].cancel() }
                    case 3: network.reset("db")
                    case 4, 5, 6: handles.append(client.start(ask("bind \(number)"), options: Self.alone))
                    default: handles.append(client.start(ask("\(number)")))
                    }
                }
                for handle in handles {
                    do throws(ClientError) {
                        _ = try await handle.value
                    } catch {
                        #expect(error.code == .cancelled || error.code == .connectionLost, "seed \(seed): \(error)")
                    }
                }
                #expect(directory.violations.isEmpty, "seed \(seed): \(directory.violations)")
                binds.withLock { $0 += directory.order.count { $0.hasPrefix("bind") } }
            }
        }
        #expect(binds.withLock { $0 } > 500)
    }
}
