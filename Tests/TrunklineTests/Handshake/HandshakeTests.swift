import Synchronization
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// The handshake: the exchange on a new link before any other traffic.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct HandshakeTests {}

extension HandshakeTests {
    /// Options with a handshake that logs in.
    private static func login(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
        ClientOptions { options in
            options.handshake.perform = { handshaker in
                let reply = try await handshaker.send(Request(type: 0x411, body: "login"))
                #expect(reply.body == "login")
            }
            change(&options)
        }
    }

    @Test func theHandshakePrecedesQueuedRequests() throws {
        try simulate(options: Self.login()) { service, client in
            let handles = (0..<3).map { client.start(ask($0)) }
            for (index, handle) in handles.enumerated() { try await expectBody(Bytes("\(index)"), of: handle) }
            #expect(await service.server.received.map(\.body) == ["login", "0", "1", "2"])
        }
    }

    /// The requests and serials of a handshake are not among those of the client.
    @Test func requestsOfTheHandshakeAreNotCounted() throws {
        try simulate(options: Self.login(), handler: { _ in .after(.seconds(1), .echo) }) { service, client in
            async let connected: Void = client.connect()
            try await service.server.waitForRequests(1)
            let metrics = await client.metrics
            #expect(metrics.requests == 0 && metrics.pending == 0 && metrics.heldSerials == 0)
            try await connected
        }
    }

    @Test func everyNewLinkHasAHandshakeBeforeQueuedRequests() throws {
        try simulate(options: Self.login()) { service, client in
            try await expectEcho("a", by: client)
            service.network.reset("db")
            try await expectEcho("b", by: client)
            #expect(await service.server.received.map(\.body) == ["login", "a", "login", "b"])
            #expect(await client.metrics.connection.links == 2)
        }
    }

    @Test func aPermanentRefusalFailsWaitingCalls() throws {
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 1
            options.handshake.perform = { handshaker in
                do {
                    _ = try await handshaker.send(Request(type: 0x411, body: "login"))
                } catch let error as ClientError where error.code == .rejected {
                    throw HandshakeRefusal("wrong password")
                }
            }
        }
        try simulate(speaking: strictLayout, options: options, handler: { _ in .status(403) }) { service, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(error?.code == .unavailable)
            #expect(error?.fate == .notSent)
            #expect((error?.cause as? HandshakeRefusal)?.reason == "wrong password")
            #expect(await service.server.received.map(\.body) == ["login"])
        }
    }

    /// Regression: handshake.timeout was named when connecting.timeout, the shorter one, had expired.
    @Test func theErrorNamesTheTimeoutThatExpired() throws {
        for (handshake, connecting, words) in [
            (10, 4, "no link within 4.0 seconds of the attempt (connecting.timeout)"),
            (2, 4, "the handshake did not complete within 2.0 seconds (handshake.timeout)"),
        ] {
            let options = Self.login {
                $0.handshake.timeout = .seconds(handshake)
                $0.connecting.timeout = .seconds(connecting)
                $0.reconnecting.maximumAttempts = 1
            }
            try simulate(options: options, handler: { _ in .noReply }) { service, client in
                let began = service.now
                let error = await failure { () throws(ClientError) in try await client.connect() }
                let cause = try #require(error?.cause as? TransportError)
                #expect(cause.code == .timedOut && cause.message.hasSuffix(words), "\(cause)")
                #expect(service.now - began < .seconds(min(handshake, connecting) + 1))
            }
        }
    }

    /// Regression: the refusal and the end of the link come in one read. The closure that receives the refusal has not
    /// run when the link is lost. The loss was taken as the reason, so a wrong password was tried again and again.
    @Test func aRefusalFollowedByACloseIsPermanent() throws {
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 3
            options.handshake.perform = { handshaker in
                do {
                    _ = try await handshaker.send(Request(type: 0x411, body: "login"))
                } catch let error as ClientError where error.code == .rejected {
                    throw HandshakeRefusal("wrong password")
                }
            }
        }
        let refusal = Reaction.sequence([.status(403), .close])
        try simulate(speaking: strictLayout, options: options, handler: { _ in refusal }) { service, client in
            let error = await failure { () throws(ClientError) in try await client.connect() }
            #expect((error?.cause as? HandshakeRefusal)?.reason == "wrong password")
            let metrics = await client.metrics.connection
            #expect(metrics.attempts == 1 && metrics.disconnects == [.handshakeRefused: 1])
        }
    }

    @Test func aLinkLostWhileTheHandshakeWaitsFailsTheAttempt() throws {
        let isFirst = Mutex(true)
        let options = ClientOptions { options in
            options.handshake.perform = { handshaker in
                _ = try await handshaker.send(Request(type: 0x411, body: "login"))
                if isFirst.withLock({ exchange(&$0, with: false) }) {
                    let error = await failure { () throws(ClientError) in
                        while true { _ = try await handshaker.nextMessage() }
                    }
                    #expect(error?.code == .connectionLost && error?.fate == .notSent)
                }
            }
        }
        let answer = Mutex([Reaction.sequence([.echo, .close])])
        try simulate(
            options: options,
            handler: { _ in answer.withLock { $0.popLast() } ?? .echo }
        ) { service, client in
            try await expectEcho("a", by: client)
            let metrics = await client.metrics.connection
            #expect(metrics.attempts == 2 && metrics.disconnects == [.closedByServer: 1])
        }
    }

    @Test func aHandshakeThatTakesTooLongEndsTheAttempt() throws {
        let options = Self.login { $0.handshake.timeout = .seconds(1) }
        try simulate(options: options, handler: { $0.body == "login" ? .noReply : .echo }) { service, client in
            let began = service.now
            var reports = client.disconnects.makeAsyncIterator()
            let handle = client.start(ask("a"), timeout: .seconds(3))
            let report = await reports.next()
            #expect(report?.phase == .handshaking)
            #expect(report?.cause == .timedOut)
            #expect(service.now - began < .milliseconds(1100))
            let error = await failure(of: handle)
            #expect(error?.code == .timedOut && error?.fate == .notSent)
            #expect(await service.server.received.allSatisfy { $0.body == "login" })
        }
    }

    @Test func aLinkLostDuringItsHandshakeIsAFailedAttempt() throws {
        let isFirst = Mutex(true)
        try simulate(
            options: Self.login(),
            handler: { _ in isFirst.withLock { exchange(&$0, with: false) } ? .reset : .echo }
        ) { service, client in
            try await expectEcho("a", by: client)
            #expect(await service.server.received.map(\.body) == ["login", "login", "a"])
            #expect(await client.metrics.connection.failedAttempts == 1)
            #expect(await client.metrics.connection.disconnects == [.reset: 1])
        }
    }

    @Test func aHandshakeReceivesWhatTheServerSendsFirst() throws {
        var server = LoopbackServer.Options()
        server.onConnect = .push(Frame(.push, type: 2, body: "salt"), Frame(.push, type: 2, body: "news"))
        let options = ClientOptions { options in
            options.handshake.perform = { handshaker in
                let challenge = try await handshaker.nextMessage()
                #expect(challenge.session == handshaker.session)
                _ = try await handshaker.send(Request(type: 0x411, body: challenge.body))
            }
        }
        try simulate(server: server, options: options) { service, client in
            let pushes = client.pushes()
            try await client.connect()
            #expect(await service.server.received.map(\.body) == ["salt"])
            // A frame that the handshake did not request is a push like any other.
            for await push in pushes {
                if case .message(let frame) = push { #expect(frame.body == "news") }
                break
            }
        }
    }

    @Test func closingDuringTheHandshakeEndsIt() throws {
        try simulate(options: Self.login(), handler: { _ in .noReply }) { service, client in
            let handle = client.start(ask("a"))
            _ = try await service.server.waitForRequest { $0.body == "login" }
            await client.closeNow()
            let error = await failure(of: handle)
            #expect(error?.code == .closed && error?.fate == .notSent)
        }
    }

    /// The rest of a malformed greeting is not returned as the greeting.
    @Test func aMalformedGreetingIsAnError() throws {
        let errors = Mutex<[ClientError?]>([])
        let serverOptions = LoopbackServer.Options { $0.onConnect = .push(Frame(.push, body: "greeting")) }
        let options = ClientOptions { options in
            options.handshake.perform = { handshaker in
                let error = await failure { () throws(ClientError) in try await handshaker.nextMessage() }
                errors.withLock { $0.append(error) }
            }
        }
        let codec = DelimitedCodec(delimiter: "\n").reading { frame in
            guard frame.body == "greeting" else { return }
            frame.kind = .push
            frame.markMalformed(.illegalLength)
        }
        try simulate(speaking: codec, server: serverOptions, options: options) { _, client in
            try await client.connect()
        }
        let error = errors.withLock { $0.first ?? nil }
        #expect(error?.code == .overloaded && (error?.cause as? FrameError)?.exceedsLimit == true)
    }

    @Test func aHandshakerFailsAfterTheHandshake() throws {
        let kept = Mutex<Handshaker?>(nil)
        let options = ClientOptions { $0.handshake.perform = { handshaker in kept.withLock { $0 = handshaker } } }
        try simulate(options: options) { service, client in
            try await client.connect()
            let handshaker = try #require(kept.withLock { $0 })
            let error = await failure { () throws(ClientError) in try await handshaker.send(ask("late")) }
            #expect(error?.code == .closed && error?.fate == .notSent)
            let other = await failure { () throws(ClientError) in try await handshaker.nextMessage() }
            #expect(other?.code == .closed)
        }
    }

    /// Regression: the deadline of an answered request ended the handshake when it passed.
    @Test func theDeadlineOfAnAnsweredRequestDoesNotEndTheHandshake() throws {
        let options = ClientOptions { options in
            options.handshake.perform = { handshaker in
                _ = try await handshaker.send(ask("quick"), timeout: .milliseconds(100))
                _ = try await handshaker.send(ask("slow"))
            }
        }
        try simulate(options: options, handler: { $0.body == "slow" ? .after(.milliseconds(300), .echo) : .echo }) {
            service,
            client in
            try await expectEcho("a", by: client)
            #expect(await service.server.totalConnections == 1)
        }
    }

    // MARK: Subscriptions

    @Test func subscriptionsAreRestoredBeforeTheLinkIsReady() throws {
        try simulate(options: Self.login()) { service, client in
            let subscription = try await client.subscribe(ask("topic"))
            #expect(subscription.response?.body == "topic")
            service.network.reset("db")
            try await expectEcho("b", by: client)
            await subscription.end()
            service.network.reset("db")
            try await expectEcho("c", by: client)
            let received = await service.server.received.map(\.body)
            #expect(received == ["login", "topic", "login", "topic", "b", "login", "c"])
        }
    }

    @Test func subscriptionsThatTheServerKeepsAreNotRestored() throws {
        let isKept = Mutex(true)
        let options = ClientOptions { options in
            options.handshake.perform = { handshaker in
                if isKept.withLock({ $0 }) { await handshaker.keepSubscriptions() }
            }
        }
        try simulate(options: options) { service, client in
            _ = try await client.subscribe(ask("topic"))
            service.network.reset("db")
            try await expectEcho("b", by: client)
            isKept.withLock { $0 = false }
            service.network.reset("db")
            try await expectEcho("c", by: client)
            #expect(await service.server.received.map(\.body) == ["topic", "b", "topic", "c"])
        }
    }

    /// A link with a round trip of 20 ms.
    private static var distant: NetworkConditions {
        var conditions = NetworkConditions()
        conditions.latency = .milliseconds(10)...(.milliseconds(10))
        return conditions
    }

    /// Regression: subscriptions were sent one at a time and within 2 s. With 200 of them no link became ready again.
    @Test(arguments: [200, 10_000]) func manySubscriptionsAreRestored(count: Int) throws {
        let told = Mutex<[Bytes: Int]>([:])
        let handler: LoopbackServer.Handler = { request in
            told.withLock { $0[request.body, default: 0] += 1 }
            return .echo
        }
        try simulate(conditions: Self.distant, handler: handler) { service, client in
            try await withThrowingTaskGroup { group in
                for number in 0..<count { group.addTask { _ = try await client.subscribe(ask(number)) } }
                try await group.waitForAll()
            }
            service.network.reset("db")
            let began = service.now
            try await client.connect()
            try await expectEcho("a", by: client, timeout: .seconds(60))
            #expect(service.now - began < .seconds(1) + .milliseconds(20) * (count / 64 + 1))
            #expect(await client.metrics.connection.disconnects == [.reset: 1])
            #expect(told.withLock { told in (0..<count).allSatisfy { told[Bytes("\($0)")] == 2 } })
        }
    }

    @Test func subscriptionsAreRestoredInTheirOrder() throws {
        try simulate(conditions: Self.distant) { service, client in
            for number in 0..<100 { _ = try await client.subscribe(ask(number)) }
            service.network.reset("db")
            try await client.connect()
            #expect(await service.server.received.suffix(100).map(\.body) == (0..<100).map { Bytes("\($0)") })
        }
    }

    /// Restoring has no time limit as long as it makes progress. Without progress it has one.
    @Test func aServerThatStopsAnsweringHalfwayFailsTheAttempt() throws {
        let answers = Mutex(Int.max)
        let handler: LoopbackServer.Handler = { request in
            answers.withLock { left in
                left -= 1
                return left >= 0 ? .echo : .noReply
            }
        }
        try simulate(conditions: Self.distant, handler: handler) { service, client in
            for number in 0..<200 { _ = try await client.subscribe(ask(number)) }
            answers.withLock { $0 = 100 }
            var reports = client.disconnects.makeAsyncIterator()
            try await service.pass(.milliseconds(1))
            service.network.reset("db")
            #expect(await reports.next()?.cause == .reset)
            let began = service.now
            let report = await reports.next()
            #expect(report?.phase == .handshaking && report?.cause == .timedOut)
            let message = (report?.error as? TransportError)?.message
            let progress = "restoring 200 subscriptions: 100 answered, then none within 2.0 seconds"
            #expect(message == "\(progress) (handshake.timeout)")
            // One back-off, two round trips of answers, and the time without an answer.
            #expect(service.now - began < .milliseconds(2500))
            answers.withLock { $0 = .max }
            try await expectEcho("a", by: client)
        }
    }

    /// A server that takes half a second for each subscription is slow, but all of them are restored.
    @Test func slowRestorationCountsAsProgress() throws {
        let isSlow = Mutex(false)
        let handler: LoopbackServer.Handler = { request in
            guard isSlow.withLock({ $0 }), let number = Int(String(request.body)) else { return .echo }
            return .after(.milliseconds(number * 500), .echo)
        }
        try simulate(conditions: Self.distant, handler: handler) { service, client in
            for number in 0..<20 { _ = try await client.subscribe(ask(number)) }
            isSlow.withLock { $0 = true }
            service.network.reset("db")
            try await expectEcho("a", by: client, timeout: .seconds(30))
            #expect(await client.metrics.connection.disconnects == [.reset: 1])
        }
    }

    /// A protocol with four serials has at most four requests in flight.
    @Test func restorationWorksWithFewSerials() throws {
        try simulate(conditions: Self.distant, speaking: standardLayout(serials: 50...53)) { service, client in
            for number in 0..<30 { _ = try await client.subscribe(ask(number)) }
            service.network.reset("db")
            try await client.connect()
            #expect(await service.server.received.suffix(30).map(\.body) == (0..<30).map { Bytes("\($0)") })
            #expect(await client.metrics.connection.disconnects == [.reset: 1])
        }
    }

    /// A codec matched in order that forbids pipelining. Its server does not accept a request before the response to
    /// the previous one.
    @Test func restorationDoesNotPipelineIfTheCodecForbidsIt() throws {
        try simulate(conditions: Self.distant, speaking: OneAtATime()) { service, client in
            for number in 0..<10 { _ = try await client.subscribe(ask(number)) }
            service.network.reset("db")
            let began = service.now
            try await client.connect()
            #expect(service.now - began >= .milliseconds(200))
            #expect(await service.server.received.suffix(10).map(\.body) == (0..<10).map { Bytes("\($0)") })
        }
    }

    /// Those that have not been sent are not sent on a link that is about to be closed.
    @Test(arguments: [0, 150])
    func aRejectedSubscriptionFailsTheAttempt(_ rejected: Int) throws {
        let isRejected = Mutex(false)
        let handler: LoopbackServer.Handler = { request in
            request.body == Bytes("\(rejected)") && isRejected.withLock { $0 }
                ? .status(404) : .status(200, request.body)
        }
        let options = ClientOptions { $0.reconnecting.maximumAttempts = 1 }
        try simulate(conditions: Self.distant, speaking: strictLayout, options: options, handler: handler) {
            service,
            client in
            for number in 0..<200 { _ = try await client.subscribe(ask(number)) }
            isRejected.withLock { $0 = true }
            service.network.reset("db")
            let error = await failure { () throws(ClientError) in try await client.connect() }
            #expect(error?.code == .unavailable)
            #expect((error?.cause as? ClientError)?.code == .rejected)
            try await service.pass(.seconds(1))
            let restored = await service.server.journal.requestCount - 200
            #expect(restored > rejected && restored <= min(200, rejected + options.handshake.maximumInFlight))
        }
    }

    @Test func aCustomRestorationMayTolerateErrorResponses() throws {
        let isRejected = Mutex(false)
        let handler: LoopbackServer.Handler = { request in
            request.body == "5" && isRejected.withLock { $0 } ? .status(404) : .status(200, request.body)
        }
        let options = ClientOptions { options in
            options.handshake.restore = { handshaker, subscriptions in
                let results = await handshaker.send(all: subscriptions)
                #expect(results.count == 10)
                for case .failure(let error) in results where error.code != .rejected { throw error }
            }
        }
        try simulate(speaking: strictLayout, options: options, handler: handler) { service, client in
            for number in 0..<10 { _ = try await client.subscribe(ask(number)) }
            isRejected.withLock { $0 = true }
            service.network.reset("db")
            try await client.connect()
            #expect(await service.server.received.count == 20)
        }
    }

    /// Regression: each subscription causes a push, together more than a handshake holds. Reading stopped, no response
    /// could arrive, and every further attempt ended likewise. A reader that suspends reading meanwhile does not fail
    /// the attempt either.
    @Test(arguments: [PushBuffering.Overflow.dropOldest, .suspendReading])
    func restorationMayCauseMorePushesThanAHandshakeHolds(overflow: PushBuffering.Overflow) throws {
        let count = 300
        let body = Bytes(repeating: 1, count: 65_536)
        let handler: LoopbackServer.Handler = { request in
            // Requests of a handshake have serials from the last quarter of the range.
            guard request.serial > 1 << 31 else { return .echo }
            return .sequence([.push(Frame(.push, type: 2, body: request.body + body)), .echo])
        }
        try simulate(handler: handler) { service, client in
            let maximumCount = overflow == .dropOldest ? count : 4
            let buffering = PushBuffering(maximumCount: maximumCount, maximumBytes: 1 << 30, overflow: overflow)
            let pushes = client.pushes(buffering: buffering)
            for number in 0..<count { _ = try await client.subscribe(ask(number)) }
            service.network.reset("db")
            try await service.pass(.seconds(20))
            var iterator = pushes.makeAsyncIterator()
            guard case .reconnected? = await iterator.next() else {
                Issue.record("pushes of another link are not announced")
                return
            }
            for number in 0..<count {
                guard case .message(let frame)? = await iterator.next() else {
                    Issue.record("push \(number) is missing")
                    return
                }
                #expect(
                    Bytes(frame.body.prefix(3)) == Bytes((Bytes("\(number)") + body).prefix(3)) && frame.session == 2
                )
            }
            try await client.connect()
            #expect(await client.metrics.connection.disconnects == [.reset: 1])
        }
    }

    /// Regression: a reader suspends reading while more pushes are held than a handshake allows, and then reads them.
    /// Nothing more was read until the handshake timed out, not even the responses.
    @Test func restorationContinuesWhenAReaderResumes() throws {
        let count = 300
        let push = Reaction.push(Frame(.push, type: 2, body: filled(65_536)))
        let handler: LoopbackServer.Handler = { request in
            // Requests of a handshake have serials from the last quarter of the range.
            request.serial > 1 << 31 ? .sequence(Array(repeating: push, count: count) + [.echo]) : .echo
        }
        let options = ClientOptions { $0.handshake.timeout = .seconds(60) }
        try simulate(options: options, handler: handler) { service, client in
            let buffering = PushBuffering(maximumCount: 4, maximumBytes: 1 << 30, overflow: .suspendReading)
            let pushes = client.pushes(buffering: buffering)
            _ = try await client.subscribe(ask("a"))
            service.network.reset("db")
            try await service.pass(.seconds(20))
            #expect(await client.metrics.connection.links == 1)
            let began = service.now
            var left = count
            for await _ in pushes.messages {
                left -= 1
                if left == 0 { break }
            }
            try await client.connect()
            #expect(service.now - began < .seconds(1))
            #expect(await client.metrics.connection.disconnects == [.reset: 1])
        }
    }

    /// Regression: pushes that consist of a head only counted as empty, and 65,536 of them with 8 KiB each were held.
    @Test func headsOfPushesCountTowardsTheLimitOfAHandshake() throws {
        let codec = CountedPayloadCodec { _ in .absent }
            .reading { if $0.head.hasPrefix("MSG ") { $0.kind = .push } }
        let push = Reaction.push(Frame(.push, head: "MSG " + Bytes(repeating: 0x61, count: 8000)))
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 1
            options.handshake.perform = { handshaker in _ = try await handshaker.send(Request(head: "login")) }
        }
        let welcome = Reaction.reply(Frame(.response, head: "welcome"))
        for (count, isHeld) in [(900, true), (2000, false)] {
            let handler: LoopbackServer.Handler = { _ in .sequence(Array(repeating: push, count: count) + [welcome]) }
            try simulate(speaking: codec, options: options, handler: handler) { _, client in
                if isHeld { return try await client.connect() }
                let error = await failure { () throws(ClientError) in try await client.connect() }
                #expect(error.map { "\($0)".contains("frames arrived that were not requested") } == true)
            }
        }
    }

    // MARK: Information from a handshake

    @Test func aHandshakeMayAddEndpoints() throws {
        let options = ClientOptions { options in
            options.handshake.perform = { handshaker in
                let known = try await handshaker.send(ask("servers"))
                await handshaker.addEndpoints(
                    String(known.body).split(separator: " ").map { .host(String($0), port: 7000) }
                )
            }
        }
        let known = Mutex<Bytes>("b c")
        let handler: LoopbackServer.Handler = { request in
            request.body == "servers" ? .reply(Frame(.response, body: known.withLock { $0 })) : .echo
        }
        try simulate(options: options, overTLS: false, handler: handler) { service, client in
            let others = [
                try await service.startServer(at: "c:7000", speaking: .standard, handler: handler),
                try await service.startServer(at: "d:7000", speaking: .standard, handler: handler),
            ]
            try await expectEcho("1", by: client)
            #expect(await client.endpoints == ["db:7000", "b:7000", "c:7000"])
            // The endpoints of the next handshake replace them. The link goes to one of the earlier
            // endpoints and stays.
            known.withLock { $0 = "d db" }
            try await client.switchEndpoint(to: "c:7000")
            await client.becomesReady(at: "c:7000")
            try await expectEcho("2", by: client)
            #expect(await client.endpoints == ["db:7000", "d:7000"])
            try await expectEcho("3", by: client)
            #expect(await others[0].received.map(\.body) == ["servers", "2", "3"])
            // A lost link is replaced by a link to one of the endpoints that are known now.
            await service.server.stop()
            service.network.reset("c")
            try await expectEcho("4", by: client)
            #expect(await others[1].received.map(\.body) == ["servers", "4"])
            // The endpoints that the caller sets replace all of them.
            await client.replaceEndpoints(["d:7000"])
            #expect(await client.endpoints == ["d:7000"])
            for server in others { await server.stop() }
        }
    }

    @Test func informationFromAFailedHandshakeIsDiscarded() throws {
        let isFirst = Mutex(true)
        let options = ClientOptions { options in
            options.handshake.perform = { handshaker in
                await handshaker.addEndpoints(["evil:7000"])
                await handshaker.setServerInfo("evil")
                if isFirst.withLock({ exchange(&$0, with: false) }) { throw HandshakeRefusal("no", isPermanent: false) }
                await handshaker.addEndpoints([])
                await handshaker.setServerInfo(handshaker.session)
            }
        }
        try simulate(options: options) { service, client in
            let known = await client.endpoints
            #expect(await client.serverInfo(as: SessionID.self) == nil)
            try await client.connect()
            #expect(await client.endpoints == known)
            #expect(await client.serverInfo(as: SessionID.self) == 2)
            #expect(await client.serverInfo(as: String.self) == nil)
            service.network.reset("db")
            try await expectEcho("a", by: client)
            #expect(await client.serverInfo(as: SessionID.self) == 3)
        }
    }

    /// Regression: the pushes that a server had collected for the client came before its response and were too many.
    /// Reading stopped, the response never arrived, and the next attempt ended likewise.
    @Test func twentyThousandPushesMayPrecedeTheResponseOfAHandshake() throws {
        let pushes = (0..<20_000).map { Reaction.push(Frame(.push, type: 2, body: Bytes("\($0)"))) }
        try simulate(options: Self.login(), handler: { $0.body == "login" ? .sequence(pushes + [.echo]) : .echo }) {
            service,
            client in
            let stream = client.pushes(buffering: PushBuffering(maximumCount: 20_000))
            try await expectEcho("a", by: client)
            #expect(await client.metrics.connection.attempts == 1)
            var number = 0
            for await push in stream.messages.prefix(20_000) {
                #expect(push.body == Bytes("\(number)") && push.session == 1)
                number += 1
            }
        }
    }

    /// Regression: the addresses of endpoints that earlier handshakes had added were kept for ever.
    @Test func theAddressesOfEndpointsThatWereReplacedAreForgotten() throws {
        let options = ClientOptions {
            $0.handshake.perform = { link in
                await link.addEndpoints([Endpoint.host("node\(link.session)", port: 7000)])
            }
        }
        try simulate(options: options) { service, client in
            let pushes = client.pushes()
            for _ in 0..<20 {
                try await service.pass(.seconds(100))
                // The link has not lasted, so the added endpoint is tried first. There is no such server.
                service.network.reset("db")
                try await service.pass(.seconds(1))
                service.network.reset("db")
            }
            try await service.pass(.seconds(100))
            #expect(await client.metrics.connection.failedAttempts >= 10)
            #expect(await client.endpoints.count == 2)
            #expect(await client.connection.entered { $0.paths.addresses.count } <= 2)
            #expect(await client.connection.entered { $0.paths.unresolved.count } <= 2)
            withExtendedLifetime(pushes) {}
        }
    }

    @Test func aHandshakeAddsAtMostSoManyEndpoints() throws {
        let options = ClientOptions {
            $0.handshake.perform = { link in
                await link.addEndpoints((0..<5000).map { Endpoint.host("node\($0)", port: 7000) })
            }
        }
        try simulate(options: options) { _, client in
            try await expectEcho("a", by: client)
            #expect(await client.endpoints.count == 1 + 1024)
            #expect(await client.endpoints.last == "node1023:7000")
        }
    }
}

/// A protocol matched in order in which a request goes out only after the response to the previous one.
private struct OneAtATime: FrameCodec, PipeliningCodec, ServerSideCodec {
    private var layout = FrameLayout {
        Field.type(UInt16.self)
        Field.length(UInt32.self, counting: .body)
        Field.body
    }

    var matching: ResponseMatching { layout.matching }
    func mayPipeline(behind request: Frame) -> Bool { false }
    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try layout.decode(&input) }
    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try layout.encode(frame, into: &output)
    }
    func serverSide() -> any FrameCodec { layout.serverSide() }
}
