import Synchronization
import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// The client against a real server over real sockets.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ClientLoopbackTests {}

extension ClientLoopbackTests {
    @Test func concurrentRequestsGetTheirOwnResponses() async throws {
        try await withServerAndClient { server, client in
            try await withThrowingTaskGroup { group in
                for number in 0..<2000 {
                    group.addTask {
                        let body = Bytes("\(number)")
                        let reply = try await client.send(Request(type: 0x410, body: body))
                        #expect(reply.body == body)
                    }
                }
                try await group.waitForAll()
            }
            let metrics = await client.metrics
            #expect(metrics.responses == 2000)
            #expect(metrics.heldSerials == 0)
            #expect(await server.totalConnections == 1)
        }
    }

    @Test func aCallerOnTheEventLoopGetsItsResponse() async throws {
        try await withServerAndClient { _, client in
            let bodies = try await withTaskExecutorPreference(client.executor) {
                var bodies: [Bytes] = []
                for index in 0..<100 {
                    bodies.append(try await client.send(Request(type: 0x410, body: Bytes("\(index)"))).body)
                }
                return bodies
            }
            #expect(bodies == (0..<100).map { Bytes("\($0)") })
        }
    }

    @Test func aLargeBodyIsSentAndEchoed() async throws {
        try await withServerAndClient { server, client in
            let body = Bytes((0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
            let replies = await client.send(all: (0..<8).map { _ in Request(type: 0x410, body: body) })
            for reply in replies {
                let received = try reply.get().body
                #expect(received.count == body.count)
                #expect(received[999_999] == body[999_999])
                #expect(received[123_457] == body[123_457])
            }
        }
    }

    @Test func aRequestThatIsTooLargeFailsAlone() async throws {
        try await withServerAndClient { server, client in
            let body = Bytes([UInt8](repeating: 0, count: 16 * 1024 * 1024))
            async let other = client.send(Request(type: 0x410, body: "fine"))
            let error = await failure { () throws(ClientError) in
                try await client.send(Request(type: 0x410, body: body))
            }
            #expect(error?.code == .invalidRequest)
            #expect(error?.fate == .notSent)
            #expect((error?.cause as? FrameError)?.code == .illegalLength)
            let reply = try await other
            #expect(reply.body == "fine")
            #expect(await server.totalConnections == 1)
        }
    }

    @Test func aRequestCancelledBeforeItIsSentNeverReachesTheServer() async throws {
        try await withServerAndClient { server, client in
            await server.stopAccepting()
            let pending = client.start(Request(type: 0x410, body: "never"))
            pending.cancel()
            let error = await failure { () throws(ClientError) in try await pending.value }
            #expect(error?.code == .cancelled)
            #expect(error?.fate == .notSent)
            try await server.resumeAccepting()
            _ = try await client.send(Request(type: 0x410, body: "sent"))
            #expect(await server.received.map { String($0.body) } == ["sent"])
        }
    }

    @Test func cancellingTheTaskSendsACancelFrame() async throws {
        try await withServerAndClient(handler: { $0.body == "slow" ? .noReply : .echo }) { server, client in
            let error = await withTaskGroup(of: ClientError?.self) { group in
                group.addTask {
                    await failure { () throws(ClientError) in try await client.send(Request(type: 0x410, body: "slow"))
                    }
                }
                try? await server.waitForRequests(1, within: patience)
                group.cancelAll()
                return await group.next() ?? nil
            }
            #expect(error?.code == .cancelled)
            #expect(error?.fate == .unknown)
            let cancel = try await server.waitForCancel(of: 50, within: patience)
            #expect(cancel.type == 0x401)
            #expect(cancel.body.isEmpty)
            #expect(await client.metrics.heldSerials == 1)  // in quarantine
            let reply = try await client.send(Request(type: 0x410, body: "next"))
            #expect(reply.serial == 51)
        }
    }

    /// In virtual time: on a busy machine there is no time after which the requests are certain to be written.
    @Test func oneDeadlineCancelsSeveralCalls() throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            try await client.connect()
            do {
                try await withTimeout(.milliseconds(300), clock: service.network.clock) {
                    async let a = client.send(Request(type: 0x410)), b = client.send(Request(type: 0x410))
                    _ = try await (a, b)
                }
                Issue.record("no error")
            } catch let error as ClientError {
                #expect(error.code == .timedOut)
                #expect(error.fate == .unknown)
            }
            try await service.server.wait(within: patience) { $0.cancelCount == 2 }
        }
    }

    /// Cancellation races with the response: every call ends once, and no serial is held afterwards.
    @Test func aStormOfCancellationsLeavesNoSerialsHeld() async throws {
        try await withServerAndClient { server, client in
            for _ in 0..<20 {
                await withTaskGroup(of: Void.self) { group in
                    for number in 0..<200 {
                        group.addTask {
                            let body = Bytes("\(number)")
                            do throws(ClientError) {
                                let reply = try await client.send(Request(type: 0x410, body: body))
                                #expect(reply.body == body)
                            } catch {
                                #expect(error.code == .cancelled)
                            }
                        }
                    }
                    for _ in 0..<Int.random(in: 0..<40) { await Task.yield() }
                    group.cancelAll()
                }
            }
            // The server echoes every request, cancelled or not, so every serial becomes free.
            _ = try await client.send(Request(type: 0x410))
            let metrics = await client.metrics
            #expect(metrics.pending == 0)
            #expect(metrics.heldSerials == 0)
            #expect(metrics.unknownResponses == 0)
            let journal = await server.journal
            #expect(journal.requestCount == metrics.responses + metrics.lateResponses)
        }
    }

    @Test func closingWaitsForRequestsInFlight() async throws {
        try await withServer(speaking: .standard, handler: { _ in .after(.milliseconds(30), .echo) }) {
            server in
            let client = Client(to: server.endpoint, speaking: .standard, options: quickOptions())
            let pending = client.start(Request(type: 0x410, body: "last"))
            try await server.waitForRequests(1, within: patience)
            await client.close()
            let reply = try await pending.value
            #expect(reply.body == "last")
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 0x410)) }
            #expect(error?.code == .closed)
            #expect(error?.fate == .notSent)
            try await server.waitForConnections(0, within: patience)
        }
    }

    @Test func closingAtOnceFailsRequestsInFlight() async throws {
        // No deadline: a busy machine may be slow.
        let options = quickOptions { $0.requests.timeout = nil }
        try await withServerAndClient(clientOptions: options, handler: { _ in .noReply }) { server, client in
            let pending = client.start(Request(type: 0x410))
            try await server.waitForRequests(1, within: patience)
            await client.closeNow()
            let error = await failure { () throws(ClientError) in try await pending.value }
            #expect(error?.code == .closed)
            #expect(error?.fate == .unknown)
        }
    }

    @Test func aOneWayMessageArrives() async throws {
        try await withServerAndClient(handler: { _ in .noReply }) { server, client in
            try await client.post(Request(type: 0x410, body: "note"))
            let request = try await server.waitForRequest(within: patience)
            #expect(request.body == "note")
            #expect(await client.metrics.heldSerials == 0)
        }
    }

    @Test func anUnsentRequestGoesOutOnTheNextLink() async throws {
        try await withServerAndClient { server, client in
            _ = try await client.send(Request(type: 0x410))
            await server.stopAccepting()
            await server.disconnectAll()
            for await state in client.states where !state.isReady { break }
            async let reply = client.send(Request(type: 0x410, body: "patient"))
            while await client.metrics.pending == 0 { await moment() }
            try await server.resumeAccepting()
            #expect(try await reply.body == "patient")
        }
    }

    @Test func anotherEndpointTakesOver() async throws {
        try await withServer(speaking: .standard, handler: { _ in .reply("one") }) { one in
            try await withServer(speaking: .standard, handler: { _ in .reply("two") }) { two in
                let endpoints = [one.endpoint, two.endpoint]
                let options = quickOptions { $0.reconnecting.keepsLinkWarm = true }
                try await withClient(to: endpoints, speaking: .standard, options: options) { client in
                    let first = try await client.send(Request(type: 0x410))
                    #expect(first.body == "one")
                    let states = client.states
                    await one.stop()
                    for await state in states {
                        if case .ready(two.endpoint, _) = state { break }
                    }
                    let second = try await client.send(Request(type: 0x410))
                    #expect(second.body == "two")
                }
            }
        }
    }

    @Test func aPushStreamMarksWhereTheLinkWasReplaced() async throws {
        try await withServerAndClient { server, client in
            var pushes = client.pushes(ofType: 2).makeAsyncIterator()
            try await client.connect()
            try await server.waitForConnections(1, within: patience)
            try await server.push(Frame(.push, type: 2, body: "before"))
            #expect(await pushes.next()?.text == "before")
            await server.disconnectAll()
            try await server.waitForConnections(1, within: patience)
            #expect(await pushes.next()?.text == "reconnected")
            try await server.push(Frame(.push, type: 2, body: "after"))
            #expect(await pushes.next()?.text == "after")
        }
    }

    @Test func aSlowSubscriberThatSuspendsReadingLosesNoPush() async throws {
        try await withServerAndClient { server, client in
            let buffering = PushBuffering(maximumCount: 4, overflow: .suspendReading)
            let pushes = client.pushes(ofType: 2, buffering: buffering)
            let frames = (0..<500).map { Frame(.push, type: 2, body: Bytes("\($0)")) }
            await server.script(.sequence([.echo] + frames.map { .inPieces(of: 100, .push($0)) }))
            _ = try await client.send(Request(type: 0x410))
            var texts: [String] = []
            for await frame in pushes.messages.prefix(500) { texts.append(String(frame.body)) }
            #expect(texts == (0..<500).map(String.init))
        }
    }

    @Test func requestsAboveTheLimitInFlightWait() async throws {
        let options = quickOptions { options in
            options.requests.maximumInFlight = 2
            options.requests.maximumWaiting = 3
        }
        try await withServerAndClient(clientOptions: options, handler: { _ in .outOfOrder(window: 100) }) {
            server,
            client in
            try await client.connect()  // without a link, all requests would wait
            let handles = (0..<6).map { client.start(Request(type: 0x410, body: Bytes("\($0)"))) }
            let error = await failure { () throws(ClientError) in try await handles[5].value }
            #expect(error?.code == .overloaded)
            #expect(error?.fate == .notSent)
            try await server.waitForRequests(2, within: patience)
            #expect(await server.journal.requestCount == 2)
            for served in [2, 4, 5] {
                try await server.waitForRequests(served, within: patience)
                await server.releaseHeld()
            }
            for (index, handle) in handles.prefix(5).enumerated() {
                let reply = try await handle.value
                #expect(reply.body == Bytes("\(index)"))
            }
        }
    }

    /// Regression: a reader or writer that found the connection open hopped from the actor to itself on its way into
    /// the queue, and was suspended there. The connection closed meanwhile, and the reader or writer was never resumed.
    @Test func readsAndWritesThatRaceWithCloseEnd() async throws {
        try await withServer(speaking: .standard) { server in
            for round in 0..<300 {
                let connection = Connection(
                    to: server.endpoint,
                    speaking: .standard,
                    options: ConnectionOptions(quickOptions())
                )
                async let frame = frames(of: connection, 1)
                async let write: Void? = try? connection.write(Frame(.request, type: 0x410, serial: 1))
                async let close: Void = connection.close()
                if round % 2 == 0 { await connection.closeNow() }
                _ = await (frame, write, close)
            }
        }
    }

    @Test func aConnectionDeliversTheFramesReceivedBeforeItsEnd() async throws {
        let handler: LoopbackServer.Handler = { _ in .sequence([.echo, .echo, .echo, .close]) }
        try await withServerAndConnection(handler: handler) { server, connection in
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            try await server.waitForConnections(0, within: patience)
            #expect(await serials(of: connection, 3) == [1, 1, 1])
        }
    }
}

extension Push {
    /// The body of a message, or the name of another element.
    var text: String {
        switch self {
        case .message(let frame): String(frame.body)
        case .dropped(let count): "dropped \(count)"
        case .reconnected: "reconnected"
        }
    }
}
