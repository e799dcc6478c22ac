import Synchronization
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// Sequences of requests that depend on each other and on their link: open a handle, use it.
@Suite(.simulated, .timeLimit(.seeded))
struct LinkSenderTests {}

extension LinkSenderTests {
    /// A server that opens handles. A handle is known only on the link on which it was opened.
    private final class Handles: Sendable {
        private struct State {
            var (latest, link) = (0, 0)
            /// The handles that are open on the present link, and those that were used on another.
            var open: Set<Int> = []
            var strays = 0
        }

        private let state = Mutex(State())
        var strays: Int { state.withLock { $0.strays } }

        func answer(_ frame: Frame) -> Reaction {
            state.withLock { state in
                let words = String(frame.body).split(separator: " ").map(String.init)
                switch words.first {
                case "login":
                    state.open = []
                    return .echo
                case "open":
                    state.latest += 1
                    state.open.insert(state.latest)
                    return .after(.milliseconds(10), .reply(Bytes("\(state.latest)")))
                case "use":
                    if !state.open.contains(Int(words[1]) ?? 0) { state.strays += 1 }
                    return .after(.milliseconds(10), .echo)
                case "wait": return .noReply
                default: return .echo
                }
            }
        }
    }

    private func simulate(
        seed: UInt64 = 1,
        _ change: (inout ClientOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (SimulatedService, Client, Handles) async throws -> Void
    ) throws {
        let handles = Handles()
        let options = ClientOptions { options in
            options.handshake.perform = { link in
                _ = try await link.send(ask("login"))
                await link.setServerInfo("server of \(link.session)")
            }
            change(&options)
        }
        try TrunklineTests.simulate(seed: seed, options: options, handler: { handles.answer($0) }) { service, client in
            try await body(service, client, handles)
        }
    }

    @Test func aSequenceGoesOutOnOneLink() throws {
        try simulate { service, client, handles in
            let body = try await client.withLink { link in
                #expect(link.session == 1 && link.endpoint == service.endpoint("db:7000"))
                #expect(await link.serverInfo(as: String.self) == "server of 1")
                let handle = try await link.send(ask("open"))
                try await link.post(ask("message"))
                try await link.enqueue(ask("message"))
                let others = await link.send(all: [ask("a"), ask("b")])
                #expect(others.allSatisfy { (try? $0.get()) != nil })
                #expect(try await link.start(ask("c")).value.body == "c")
                return try await link.send(ask(Bytes("use \(String(handle.body))"))).body
            }
            #expect(body == "use 1" && handles.strays == 0)
        }
    }

    /// Requests are sent in the order of the calls, whatever the calls are.
    @Test func aStreamIsSentByItsCall() throws {
        try TrunklineTests.simulate(handler: { $0.kind == .part ? .perform(join) : .echo }) { service, client in
            try await client.withLink { link in
                for round in 0..<10 {
                    let stream = link.stream(ask("stream \(round)"))
                    let handle = link.start(ask("start \(round)"))
                    let upload = link.open(piece("piece \(round)"))
                    _ = try await link.send(ask("send \(round)"))
                    try await upload.finish(whole("end"))
                    for try await _ in stream {}
                    for try await _ in upload.responses {}
                    _ = try await handle.value
                }
                service.network.reset("db")
                let lost = await failure { () throws(ClientError) in
                    for try await _ in link.stream(ask("late")) {}
                }
                #expect(lost?.code == .connectionLost && lost?.fate == .notSent)
            }
            let names = await service.server.received.map { String($0.body) }
            let expected = (0..<10).flatMap { round in ["stream", "start", "piece", "send"].map { "\($0) \(round)" } }
            #expect(names.filter { $0 != "end" } == expected)
        }
    }

    /// A request with a response that nothing can decode.
    private struct Unreadable: TypedRequest {
        static let type: UInt32 = 0x410
        func encode() -> Bytes { "a" }
        static func decode(_ response: Response) throws -> Int { throw FrameError(.malformed, "unreadable") }
    }

    /// The sender of a link knows the protocol of its client, and what it cannot decode counts there. It used to count
    /// nowhere.
    @Test func aResponseThatTheSenderOfALinkCannotDecodeIsCounted() throws {
        try simulate { _, client, _ in
            try await client.withLink { link in
                #expect(link.knownCodec != nil)
                let error = await failure { () throws(ClientError) in _ = try await link.send(Unreadable()) }
                #expect(error?.code == .protocolViolation)
                _ = await failure { () throws(ClientError) in _ = try await link.start(Unreadable()).value }
                _ = await failure { () throws(ClientError) in
                    for try await _ in try link.stream(Unreadable()) {}
                }
            }
            #expect(await client.metrics.undecodableResponses == 3)
        }
    }

    @Test func aSequenceFailsWhenItsLinkEnds() throws {
        try simulate({ $0.requests.retry = .idempotent(tries: 5) }) { service, client, handles in
            try await client.withLink { link in
                let handle = try await link.send(ask("open"))
                let inFlight = link.start(ask("wait"))
                try await service.pass(.milliseconds(50))
                service.network.reset("db")
                let lost = await failure(of: inFlight)
                #expect(lost?.code == .connectionLost && lost?.fate == .unknown)
                try await expectEcho("a", by: client)  // on the next link
                let use = ask(Bytes("use \(String(handle.body))"))
                for _ in 0..<2 {
                    let error = await failure { () throws(ClientError) in try await link.send(use) }
                    #expect(error?.code == .connectionLost && error?.fate == .notSent)
                }
                #expect(await failure { () throws(ClientError) in try await link.post(use) }?.fate == .notSent)
                try await link.enqueue(use)  // accepted, and dropped
                #expect(await failure(of: link.start(use))?.fate == .notSent)
                #expect(await link.serverInfo(as: String.self) == nil)
                let results = await link.send(all: [use, use])
                #expect(
                    results.allSatisfy { if case .failure(let error) = $0 { error.fate == .notSent } else { false } }
                )
            }
            #expect(handles.strays == 0)
        }
    }

    /// In flight it finishes on the link that drains. Nothing goes to the next one.
    @Test func aSequenceFailsWhenItsLinkIsReplaced() throws {
        try simulate { service, client, handles in
            try await client.withLink { link in
                let handle = link.start(ask("open"))
                try await service.pass(.milliseconds(5))
                await client.renewLink()
                let number = String(try await handle.value.body)
                try await service.pass(.milliseconds(50))
                let error = await failure { () throws(ClientError) in try await link.send(ask(Bytes("use \(number)"))) }
                #expect(error?.code == .connectionLost && error?.fate == .notSent)
            }
            #expect(handles.strays == 0)
            #expect(try await client.withLink { $0.session } == 2)
        }
    }

    /// A request that waits for its turn on the link is not moved to the next one.
    @Test func aWaitingRequestFailsWithItsLink() throws {
        try simulate({ $0.requests.maximumInFlight = 1 }) { service, client, handles in
            try await client.withLink { link in
                let first = link.start(ask("wait"))
                let second = link.start(ask("use 7"))
                let free = client.start(ask("a"))
                try await service.pass(.milliseconds(50))
                service.network.reset("db")
                #expect(await failure(of: first)?.fate == .unknown)
                let error = await failure(of: second)
                #expect(error?.code == .connectionLost && error?.fate == .notSent)
                try await expectBody("a", of: free)
            }
            #expect(handles.strays == 0)
        }
    }

    @Test func withLinkConnectsAndThrows() throws {
        struct Mine: Error {}
        try simulate { service, client, _ in
            await #expect(throws: Mine.self) { try await client.withLink { _ in throw Mine() } }
            #expect(await client.metrics.connection.links == 1)
            await client.close()
            let error = await #expect(throws: ClientError.self) { try await client.withLink { _ in } }
            #expect(error?.code == .closed && error?.fate == .notSent)
        }
    }

    @Test func noHandleIsUsedOnAnotherLink() async throws {
        let total = Mutex((used: 0, lost: 0))
        for seed in seeds(100) {
            await Task.yield()
            try simulate(seed: seed, { $0.requests.retry = .idempotent(tries: 5) }) { service, client, handles in
                let (used, lost) = await withTaskGroup { group in
                    for task in 0..<4 {
                        group.addTask {
                            var (used, lost) = (0, 0)
                            for _ in 0..<20 {
                                do {
                                    try await client.withLink { link in
                                        let handle = String(try await link.send(ask("open")).body)
                                        for _ in 0..<3 { _ = try await link.send(ask(Bytes("use \(handle)"))) }
                                    }
                                    used += 1
                                } catch {
                                    let code = (error as? ClientError)?.code
                                    #expect(code == .connectionLost, "seed \(seed), task \(task): \(error)")
                                    lost += 1
                                }
                            }
                            return (used, lost)
                        }
                    }
                    var random = SeededGenerator(seed: seed)
                    for _ in 0..<20 {
                        try? await service.pass(.milliseconds(Int.random(in: 0..<80, using: &random)))
                        service.network.reset("db")
                    }
                    return await group.reduce(into: (0, 0)) { sum, counts in
                        sum = (sum.0 + counts.0, sum.1 + counts.1)
                    }
                }
                total.withLock { $0 = ($0.used + used, $0.lost + lost) }
                #expect(handles.strays == 0, "seed \(seed)")
            }
        }
        let (used, lost) = total.withLock { $0 }
        #expect(used > 1000 && lost > 100)
    }
}
