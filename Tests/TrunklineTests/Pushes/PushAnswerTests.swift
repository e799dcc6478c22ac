import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Answers to pushes. They go out on the link of their push or not at all.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct PushAnswerTests {}

extension PushAnswerTests {
    /// Makes the server send a push, and returns the push.
    private func push(from server: LoopbackServer, to client: Client) async throws -> PushMessage {
        var pushes = client.pushes().messages.makeAsyncIterator()
        try await client.connect()
        try await server.waitForConnections(1)
        try await server.push(Frame(.push, type: 2, body: "news"))
        return try #require(await pushes.next())
    }

    @Test func anAnswerGoesOutOnTheLinkOfItsPush() throws {
        try simulate { service, client in
            let push = try await push(from: service.server, to: client)
            guard case .ready(_, let session)? = await client.states.first(where: { $0.isReady }) else { return }
            #expect(push.session == session && session > 0)
            // The session is not part of the comparison.
            #expect(push == PushMessage(type: 2, body: "news"))
            try await client.post(ask("thanks"), answering: push)
            try await service.server.waitForRequest { $0.body == "thanks" }
        }
    }

    @Test func manyPushesAreAnsweredInOrder() throws {
        try simulate { service, client in
            let first = try await push(from: service.server, to: client)
            let pushes = Array(repeating: first, count: 300)
            let count = Lock(0)
            try await client.enqueue(answering: pushes) { push in
                let number = count.withLock { count in
                    count += 1
                    return count
                }
                return number % 3 == 0 ? nil : ask("\(String(push.body)) \(number)")
            }
            try await service.server.waitForRequests(200)
            let expected = (1...300).filter { $0 % 3 != 0 }.map { Bytes("news \($0)") }
            #expect(await service.server.received.map(\.body) == expected)
            // None was received from a server: nothing is accepted.
            let error = await failure { () throws(ClientError) in
                try await client.enqueue(answering: [first, PushMessage(type: 2)]) { _ in ask("x") }
            }
            #expect(error?.code == .invalidArgument && error?.fate == .notSent)
            try await expectEcho("echo", by: client)
            #expect(await service.server.journal.requestCount == 201)
        }
    }

    /// SMPP's `deliver_sm`: the server sends a request with its own serial, and the answer is marked as a response.
    @Test func aRequestOfTheServerIsAnsweredWithItsSerialAndAResponseMark() throws {
        let smpp = FrameLayout {
            Field.length(UInt32.self, counting: .wholeFrame)
            Field.type(UInt32.self)
            Field.status(UInt32.self)
            Field.serial(UInt32.self)
            Field.body
        }
        .roles {
            $0.ping = 0x15
            $0.response = .bit(31)
        }
        try simulate(speaking: smpp) { service, client in
            var pushes = client.pushes().messages.makeAsyncIterator()
            try await client.connect()
            try await service.server.waitForConnections(1)
            try await service.server.push(Frame(.push, type: 5, serial: 77, body: "short message"))
            let push = try #require(await pushes.next())
            #expect(push.type == 5 && push.serial == 77)
            try await client.post(Request(type: 5), answering: push)
            try await service.server.waitForRequest { $0.type == 5 && $0.serial == 77 }
        }
        var output = SendBuffer()
        try smpp.encode(Frame(.response, type: 5, serial: 77), into: &output)
        #expect(output.bytes == [0, 0, 0, 16, 0x80, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 77])
    }

    @Test func anAnswerIsNotSentOnAnotherLink() throws {
        try simulate { service, client in
            let push = try await push(from: service.server, to: client)
            service.network.reset("db")
            for _ in 0..<2 {
                // First without a link, then with the next one.
                let error = await failure { () throws(ClientError) in try await client.post(ask("x"), answering: push) }
                #expect(error?.code == .connectionLost && error?.fate == .notSent)
                try await expectEcho("on the new link", by: client)
            }
            #expect(await service.server.received.allSatisfy { $0.body != "x" })
            let again = try await self.push(from: service.server, to: client)
            #expect(try #require(again.session) > #require(push.session))
            try await client.post(ask("y"), answering: again)
        }
    }

    /// The answer was accepted while its link was ready, and was still queued when the link was lost.
    @Test func anAnswerThatIsStillQueuedIsLostWithItsLink() throws {
        try simulate { service, client in
            let push = try await push(from: service.server, to: client)
            await service.server.pauseReading()
            let large = client.start(ask(filled(3_000_000)), timeout: .seconds(3600))
            async let error = failure { () throws(ClientError) in try await client.post(ask("x"), answering: push) }
            try await service.pass(.seconds(1))
            service.network.reset("db")
            await service.server.resumeReading()
            let lost = await error
            #expect(lost?.code == .connectionLost && lost?.fate == .notSent)
            #expect(await failure(of: large)?.code == .connectionLost)
            try await expectEcho("on the new link", by: client)
            #expect(await service.server.received.allSatisfy { $0.body != "x" })
        }
    }

    /// Requests that have not started move to the next endpoint. Answers do not.
    @Test func anAnswerDoesNotMoveToTheNextEndpoint() throws {
        try simulate { service, _ in
            let other = try await service.startServer(at: "other:7000", speaking: .standard)
            let client = service.client(of: ["db:7000", "other:7000"])
            let push = try await push(from: service.server, to: client)
            await service.server.pauseReading()
            _ = client.start(ask(filled(3_000_000)), timeout: .seconds(3600))
            async let error = failure { () throws(ClientError) in try await client.post(ask("x"), answering: push) }
            let request = client.start(ask("with us"))
            try await service.pass(.seconds(1))
            try await client.switchEndpoint(to: service.endpoint("other:7000"))
            let lost = await error
            #expect(lost?.code == .connectionLost && lost?.fate == .notSent)
            try await expectBody("with us", of: request)
            let late = await failure { () throws(ClientError) in try await client.post(ask("y"), answering: push) }
            #expect(late?.code == .connectionLost && late?.fate == .notSent)
            #expect(await other.received.map(\.body) == ["with us"])
            await client.closeNow()
            await other.stop()
        }
    }

    @Test func aMessageThatWasNotReceivedCannotBeAnswered() throws {
        try simulate { service, client in
            let push = PushMessage(type: 2, body: "made by hand")
            let error = await failure { () throws(ClientError) in try await client.post(ask("x"), answering: push) }
            #expect(error?.code == .invalidArgument && error?.fate == .notSent)
        }
    }

    /// `speakAfter`: a server that sends all the time still receives pings, even while no subscriber reads.
    @Test(arguments: [true, false]) func aServerThatSendsAllTheTimeReceivesPings(_ isReading: Bool) throws {
        let options = ClientOptions { $0.liveness.speakAfter = .seconds(3) }
        try simulate(options: options) { service, client in
            let buffering = PushBuffering(maximumCount: 4, overflow: .suspendReading)
            let pushes = client.pushes(buffering: buffering)
            var iterator = pushes.makeAsyncIterator()
            try await client.connect()
            try await service.server.waitForConnections(1)
            for _ in 0..<60 {
                try await service.server.push(Frame(.push, type: 2, body: "news"))
                try await service.pass(.seconds(1))
                if isReading { _ = await iterator.next() }
            }
            let pings = await service.server.journal.pingCount
            #expect((18...20).contains(pings), "\(pings)")
            #expect(await client.metrics.connection.links == 1)
            #expect(await client.metrics.connection.disconnects.isEmpty)
            if !isReading { #expect(await iterator.next() != nil) }
        }
    }
}
