import Synchronization
import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Sessions that outlive links, as in XEP-0198 (Stream Management, section 5): the client resumes a session by its
/// number (`<resume previd='…'/>`), and the server says `<resumed/>` or `<failed/>`. In the second case the client begins
/// a new one.
@Suite(.simulated, .timeLimit(.seeded))
struct SessionTests {}

extension SessionTests {
    /// A server that answers each request with the number of the session of its link.
    private final class Sessions: Sendable {
        private struct State {
            var latest = 0
            var (alive, current): (Set<Int>, Int) = ([], 0)
            var refusals = 0
        }

        private let state = Mutex(State())

        /// Forgets all sessions, as a server that is restarted.
        func forget() { state.withLock { $0.alive = [] } }

        /// Rejects the next `count` resumed or new sessions at the end of their handshakes.
        func refuse(_ count: Int) { state.withLock { $0.refusals = count } }

        func answer(_ frame: Frame) -> Reaction {
            state.withLock { state in
                let words = String(frame.body).split(separator: " ").map(String.init)
                switch words.first {
                case "enable":
                    state.latest += 1
                    (state.current, state.alive) = (state.latest, state.alive.union([state.latest]))
                    return .reply(Bytes("\(state.current)"))
                case "resume":
                    let number = Int(words[1]) ?? 0
                    guard state.alive.contains(number) else { return .reply("failed") }
                    state.current = number
                    return .reply("resumed")
                case "bind":
                    state.refusals -= 1
                    return state.refusals >= 0 ? .reset : .reply("bound")
                case "wait": return .noReply
                default: return .reply(Bytes("\(state.current)"))
                }
            }
        }
    }

    /// Options with a handshake that resumes the session or begins a new one.
    private static func options(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
        ClientOptions { options in
            options.handshake.perform = { link in
                if let number = await link.savedSession(as: Int.self) {
                    let reply = try await link.send(ask(Bytes("resume \(number)")))
                    if reply.body == "resumed" {
                        _ = try await link.send(ask("bind"))
                        return await link.keepSubscriptions()
                    }
                    await link.sessionWasLost()
                    #expect(await link.savedSession(as: Int.self) == nil)
                }
                let reply = try await link.send(ask("enable"))
                await link.saveSession(Int(String(reply.body)))
                _ = try await link.send(ask("bind"))
            }
            change(&options)
        }
    }

    private func simulate(
        seed: UInt64 = 1,
        _ options: ClientOptions = Self.options(),
        _ body: @escaping @Sendable (SimulatedService, Client, Sessions) async throws -> Void
    ) throws {
        let sessions = Sessions()
        try TrunklineTests.simulate(seed: seed, options: options, handler: { sessions.answer($0) }) { service, client in
            try await body(service, client, sessions)
        }
    }

    @Test func aSessionIsCarriedFromLinkToLink() throws {
        try simulate { service, client, sessions in
            #expect(await client.savedSession(as: Int.self) == nil)
            for _ in 0..<3 {
                let reply = try await client.send(ask("a"))
                #expect(reply.body == "1")
                #expect(await client.savedSession(as: Int.self) == 1)
                #expect(await client.savedSession(as: String.self) == nil)
                service.network.reset("db")
            }
            sessions.forget()
            service.network.reset("db")
            let reply = try await client.send(ask("a"))
            #expect(reply.body == "2")
            #expect(await client.savedSession(as: Int.self) == 2)
            #expect(await service.server.received.filter { $0.body == "enable" }.count == 2)
        }
    }

    @Test func aSessionIsCarriedToAnotherEndpoint() throws {
        let sessions = Sessions()
        try TrunklineTests.simulate(handler: { sessions.answer($0) }) { service, _ in
            let other = try await service.startServer(at: "other:7000", speaking: FrameLayout.standard) {
                sessions.answer($0)
            }
            let endpoints: [Endpoint] = ["db:7000", "other:7000"].map { service.endpoint($0) }
            let client = service.client(of: endpoints, options: Self.options())
            try await client.connect()
            for endpoint in endpoints.reversed() + endpoints.reversed() {
                try await client.switchEndpoint(to: endpoint)
                await client.becomesReady(at: endpoint)
                #expect(try await client.send(ask("a")).body == "1")
            }
            await client.closeNow()
            await other.stop()
        }
    }

    /// The server has changed the session, whatever becomes of the attempt.
    @Test func aSessionOfAFailedAttemptIsResumed() throws {
        try simulate { _, client, sessions in
            sessions.refuse(2)
            let reply = try await client.send(ask("a"))
            #expect(reply.body == "1")
            #expect(await client.metrics.connection.attempts == 3)
        }
    }

    /// A refusal may be about the credentials, or of a busy server. So it drops the session only if the handshake says that.
    @Test(arguments: [false, true])
    func aRefusalKeepsTheSessionUnlessItIsLost(isLost: Bool) throws {
        let offered = Offers()
        let options = Self.options { options in
            options.handshake.perform = { link in
                let number = await link.savedSession(as: Int.self)
                if offered.add(number) == 2 {
                    if isLost { await link.sessionWasLost() }
                    throw HandshakeRefusal("busy", isPermanent: false)
                }
                guard number == nil else { return await link.keepSubscriptions() }
                let reply = try await link.send(ask("enable"))
                await link.saveSession(Int(String(reply.body)))
            }
        }
        try simulate(options) { service, client, _ in
            try await client.connect()
            service.network.reset("db")
            _ = try await client.send(ask("a"))
            #expect(offered.all == [nil, 1, isLost ? nil : 1])
            #expect(await client.savedSession(as: Int.self) == (isLost ? 2 : 1))
        }
    }

    /// The sessions that the handshakes of a client have found.
    private final class Offers: Sendable {
        private let state = Mutex<[Int?]>([])
        var all: [Int?] { state.withLock { $0 } }

        /// Adds one, and returns their number.
        func add(_ session: Int?) -> Int {
            state.withLock { sessions in
                sessions.append(session)
                return sessions.count
            }
        }
    }

    @Test func theApplicationSavesASessionToo() throws {
        try simulate { service, client, _ in
            try await client.connect()
            await client.saveSession(7)
            service.network.reset("db")
            // The server does not know it, and begins another one.
            #expect(try await client.send(ask("a")).body == "2")
            await client.saveSession(nil)
            #expect(await client.savedSession(as: Int.self) == nil)
        }
    }

    // MARK: A session that is lost

    @Test func theLogAndTheEventSayThatASessionIsLost() throws {
        let log = LogCollector()
        let options = Self.options { $0.logging = log.logging() }
        try simulate(options) { service, client, sessions in
            try await client.connect()
            for forgets in [false, true] {
                if forgets { sessions.forget() }
                service.network.reset("db")
                _ = try await client.send(ask("a"))
                try await service.pass(.seconds(20))
            }
        }
        let ready = log.records.filter { $0.event == "link.ready" }
        #expect(ready.map { $0.message.contains("the server had lost the session") } == [false, true])
        #expect(ready.map { $0.fields.contains { $0 == ("session_lost", .flag(true)) } } == [false, true])
    }

    @Test func requestsThatWaitGoToANewSessionOrFail() throws {
        for fails in [false, true] {
            try simulate(Self.options { $0.requests.outlivesSession = !fails }) { service, client, sessions in
                try await client.connect()
                sessions.forget()
                // The attempt in which the session turns out to be lost, and the next one is begun, fails itself.
                sessions.refuse(1)
                let inFlight = client.start(ask("wait"))
                let repeated = client.start(ask("wait"), options: CallOptions(retry: .idempotent()))
                _ = try await service.server.waitForRequests(4)
                service.network.reset("db")
                let byDefault = client.start(ask("a"))
                let outliving = client.start(ask("a"), options: CallOptions(outlivesSession: true))
                let bound = client.start(ask("a"), options: CallOptions(outlivesSession: false))

                #expect(try await outliving.value.body == "2")
                for handle in fails ? [byDefault, bound] : [bound] {
                    let error = await failure(of: handle)
                    #expect(error?.code == .sessionLost && error?.fate == .notSent)
                    #expect(error?.endpoint == service.endpoint("db:7000"))
                }
                if !fails { #expect(try await byDefault.value.body == "2") }
                let lost = await failure(of: inFlight)
                #expect(lost?.code == .connectionLost && lost?.fate == .unknown)
                let error = fails ? await failure(of: repeated) : nil
                if fails { #expect(error?.code == .sessionLost && error?.fate == .unknown) }
                repeated.cancel()

                // The loss concerns those that waited then.
                service.network.reset("db")
                let later = try await client.send(ask("a"), options: CallOptions(outlivesSession: false))
                #expect(later.body == "2")
                let count = await client.metrics.failures[.init(.sessionLost, .notSent)]
                #expect(count == (fails ? 2 : 1))
            }
        }
    }

    /// A request that was accepted before a session was lost is never answered in another one.
    @Test func noRequestReachesAnotherSession() async throws {
        let counts = Mutex((lost: 0, answered: 0))
        for seed in seeds(100) {
            await Task.yield()
            try simulate(seed: seed, Self.options { $0.requests.outlivesSession = false }) {
                service,
                client,
                sessions in
                var random = SeededGenerator(seed: seed)
                var handles: [(latest: Int, handle: PendingRequest<Response>)] = []
                for _ in 0..<200 {
                    switch Int.random(in: 0..<20, using: &random) {
                    case 0: service.network.reset("db")
                    case 1:
                        sessions.forget()
                        service.network.reset("db")
                    case 2: sessions.refuse(1)
                    case 3: try await service.pass(.milliseconds(Int.random(in: 0..<500, using: &random)))
                    default:
                        let handle = client.start(ask("a"), timeout: .seconds(60))
                        // Read when the client has accepted the request.
                        let latest = await client.savedSession(as: Int.self) ?? .max
                        handles.append((latest, handle))
                    }
                }
                for (latest, handle) in handles {
                    do throws(ClientError) {
                        let session = Int(String(try await handle.value.body)) ?? 0
                        #expect((1...latest).contains(session), "seed \(seed)")
                        counts.withLock { $0.answered += 1 }
                    } catch {
                        #expect(error.code == .sessionLost || error.code == .connectionLost, "seed \(seed): \(error)")
                        #expect(error.fate == (error.code == .sessionLost ? .notSent : .unknown), "seed \(seed)")
                        if error.code == .sessionLost { counts.withLock { $0.lost += 1 } }
                    }
                }
            }
        }
        let (lost, answered) = counts.withLock { $0 }
        // On average, at least one request of each seed is lost, and ten are answered.
        let count = seeds(100).count
        #expect(lost > count && answered > 10 * count)
    }

    // MARK: Codecs

    /// Adds the number of the session to the body of each request.
    private struct SigningCodec: FrameCodec, ServerSideCodec, SessionCodec {
        var layout = SigningCodec.layout
        private var signature = ""

        static var layout: FrameLayout {
            var layout = FrameLayout.standard
            layout.maximumFrameSize = 1000
            return layout
        }

        var matching: ResponseMatching { layout.matching }
        func serverSide() -> any FrameCodec { layout.serverSide() }
        mutating func setSession(_ session: (any Sendable)?) { signature = (session as? Int).map { "@\($0)" } ?? "" }
        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try layout.decode(&input) }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            var signed = frame
            if frame.kind == .request { signed.body = Bytes(String(frame.body) + signature) }
            try layout.encode(signed, into: &output)
        }
    }

    @Test func aCodecLearnsTheSession() throws {
        let sessions = Sessions()
        let answer: LoopbackServer.Handler = { frame in
            var request = frame
            request.body = Bytes(String(String(frame.body).prefix { $0 != "@" }))
            return sessions.answer(request)
        }
        try TrunklineTests.simulate(speaking: SigningCodec(), options: Self.options(), handler: answer) {
            service,
            client in
            _ = try await client.send(ask("a"))
            service.network.reset("db")
            _ = try await client.send(ask("b"))
            sessions.forget()
            service.network.reset("db")
            _ = try await client.send(ask("c"))
            #expect(
                await service.server.received.map { String($0.body) } == [
                    "enable", "bind@1", "a@1",
                    "resume 1@1", "bind@1", "b@1",
                    "resume 1@1", "enable", "bind@2", "c@2",
                ]
            )
        }
    }

    /// The kit checks a codec as it is on a link that resumes a session.
    @Test func theKitChecksACodecWithItsSession() {
        let request = Frame(.request, type: 0x410, serial: 1, body: "a")
        for (session, body) in [(nil, "a"), (7, "a@7")] as [(Int?, String)] {
            var bytes = SendBuffer()
            let layout = SigningCodec.layout
            let signed = Frame(.request, type: 0x410, serial: 1, body: Bytes(body))
            #expect(throws: Never.self) { try layout.encode(signed, into: &bytes) }
            var kit = CodecConformance(
                of: SigningCodec(),
                samples: [.init(request, bytes: bytes.bytes)],
                maximumFrameSize: layout.maximumFrameSize
            )
            (kit.session, kit.bodiesAreOpaque) = (session, false)
            let vectors = kit.check().violations.filter { $0.rule == .vector }
            #expect(vectors.isEmpty, "\(vectors)")
        }
    }
}
