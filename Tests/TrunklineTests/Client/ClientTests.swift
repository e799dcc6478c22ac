import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// The client in virtual time: timeouts, quarantine, connecting and closing, to the nanosecond.
@Suite(.simulated, .timeLimit(.seeded))
struct ClientTests {}

extension ClientTests {
    // MARK: Timeouts

    @Test func aTimeoutSendsACancelFrameAndEndsThatRequestOnly() throws {
        try simulate(handler: { $0.body == "silence" ? .noReply : .after(.seconds(3), .echo) }) { service, client in
            try await client.connect()
            let other = client.start(ask("patient"))
            let began = service.now
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("silence"), timeout: .seconds(2))
            }
            #expect(error?.code == .timedOut)
            #expect(error?.fate == .unknown)
            #expect(error?.endpoint == service.endpoint("db:7000"))
            let took = service.now - began
            #expect(took == .seconds(2))
            let silent = try await service.server.waitForRequest { $0.body == "silence" }
            try await service.server.waitForCancel(of: silent.serial)
            try await expectBody("patient", of: other)
            #expect(await service.server.totalConnections == 1)
            #expect(await service.server.journal.cancelCount == 1)
        }
    }

    @Test(arguments: [Timeout.seconds(0), .seconds(-1)])
    func aTimeoutOfZeroOrLessFailsAtOnce(_ timeout: Timeout) throws {
        try simulate { service, client in
            try await client.connect()
            var errors: [ClientError?] = []
            errors.append(await failure { () throws(ClientError) in try await client.send(ask("a"), timeout: timeout) })
            errors.append(await failure { () throws(ClientError) in try await client.post(ask("b"), timeout: timeout) })
            let handle = client.start(ask("c"), timeout: timeout)
            #expect(handle.state == .completed)
            errors.append(await failure(of: handle))
            for result in await client.send(all: [ask("d"), ask("e")], timeout: timeout) {
                errors.append(await failure { () throws(ClientError) in try result.get() })
            }
            #expect(errors.map { $0?.code } == Array(repeating: .timedOut, count: 5))
            #expect(errors.map { $0?.fate } == Array(repeating: .notSent, count: 5))
            try await service.pass(.seconds(1))
            #expect(await service.server.journal.requestCount == 0)
        }
    }

    @Test func theTimeoutOfTheOptionsAppliesToCallsWithoutOne() throws {
        try simulate(options: ClientOptions { $0.requests.timeout = .seconds(5) }, handler: { _ in .noReply }) {
            service,
            client in
            try await client.connect()
            let began = service.now
            let results = await client.send(all: [ask("a"), ask("b")])
            #expect(results.allSatisfy { if case .failure(let error) = $0 { error.code == .timedOut } else { false } })
            let took = service.now - began
            #expect(took == .seconds(5))
            try await service.pass(.seconds(1))
            #expect(await service.server.journal.cancelCount == 2)
        }
    }

    @Test func aRequestThatFindsNoLinkBeforeItsDeadlineReportsTheAttempts() throws {
        try simulate { service, client in
            service.network.refuseConnections(to: "db")
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), timeout: .seconds(5))
            }
            #expect(error?.code == .timedOut)
            #expect(error?.fate == .notSent)
            #expect(error?.attempts.isEmpty == false)
            #expect((error?.cause as? TransportError)?.code == .refused)
            service.network.acceptConnections(to: "db")
            try await expectEcho("b", by: client, timeout: .seconds(60))
            #expect(await service.server.received.map(\.body) == ["b"])
        }
    }

    @Test func withTimeoutCancelsEverythingInside() throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            try await client.connect()
            let began = service.now
            do {
                _ = try await withTimeout(.seconds(2), clock: service.network.clock) {
                    async let a = client.send(ask("a"))
                    async let b = client.send(ask("b"))
                    return try await (a, b)
                }
                Issue.record("expected a timeout")
            } catch let error as ClientError {
                #expect(error.code == .timedOut)
                #expect(error.fate == .unknown)
            }
            let took = service.now - began
            #expect(took == .seconds(2))
            try await service.server.wait { $0.cancelCount == 2 }
            let journal = await service.server.journal
            #expect(Set(journal.cancels.map(\.serial)) == Set(journal.requests.map(\.serial)))
        }
    }

    @Test func withTimeoutReturnsAResultThatIsInTime() throws {
        try simulate(handler: { _ in .after(.seconds(1), .echo) }) { service, client in
            try await client.connect()
            let began = service.now
            let reply = try await withTimeout(.seconds(5), clock: service.network.clock) {
                try await client.send(ask("in time"))
            }
            #expect(reply.body == "in time")
            let took = service.now - began
            #expect(took < .seconds(2))
            struct Mine: Error {}
            await #expect(throws: Mine.self) {
                try await withTimeout(.seconds(5), clock: service.network.clock) { throw Mine() }
            }
            // The error with which an operation reacts to its cancellation, as a URLSession does, is not the reason.
            let late = await #expect(throws: ClientError.self) {
                try await withTimeout(.seconds(5), clock: service.network.clock) {
                    try? await service.pass(.seconds(60))
                    throw Mine()
                }
            }
            #expect(late?.code == .timedOut && late?.fate == .unknown && late?.cause is Mine)
            let nothing = try await withTimeout(.seconds(5), clock: service.network.clock) { Int?.none }
            #expect(nothing == nil)
        }
    }

    /// Regression: when the caller's task is cancelled, the sleeping child wakes and returns before the operation
    /// does. Its result "time is over" led to a `CancellationError` that hid the operation's error and with it the
    /// request's fate.
    @Test func withTimeoutThrowsWhatACancelledOperationThrows() throws {
        for seed in 0..<20 as Range<UInt64> {
            try simulate(seed: seed, handler: { _ in .noReply }) { service, client in
                try await client.connect()
                let caller = Task(executorPreference: service.network.executor) {
                    try await withTimeout(.seconds(60), clock: service.network.clock) {
                        try await client.send(ask("a"))
                    }
                }
                try await service.server.waitForRequests(1)
                caller.cancel()
                let error = await #expect(throws: ClientError.self) { try await caller.value }
                #expect(error?.code == .cancelled, "seed \(seed)")
                #expect(error?.fate == .unknown, "seed \(seed)")
            }
        }
    }

    // MARK: Serials

    @Test func aSerialIsHeldUntilTheQuarantineEnds() throws {
        let options = ClientOptions {
            $0.requests.quarantine = .seconds(60)
            $0.requests.timeout = .seconds(600)
            $0.requests.maximumInFlight = 1  // one at a time, so the link is not replaced
        }
        let handler: LoopbackServer.Handler = { $0.body == "silence" ? .noReply : .echo }
        try simulate(speaking: standardLayout(serials: 5...5), options: options, handler: handler) { service, client in
            let silent = client.start(ask("silence"))
            try await service.server.waitForRequests(1)
            #expect(silent.serial == 5)
            silent.cancel()
            try await service.server.waitForCancel(of: 5)
            let cancelled = service.now
            let next = client.start(ask("next"))
            try await service.pass(.seconds(50))
            #expect(next.state == .queued)
            #expect(next.serial == nil)
            #expect(await client.metrics.heldSerials == 1)
            try await expectBody("next", of: next)
            #expect(next.serial == 5)
            let took = service.now - cancelled
            #expect(took > .seconds(59) && took < .seconds(61))
        }
    }

    @Test func aLateResponseFreesItsSerialAndIsDiscarded() throws {
        let options = ClientOptions {
            $0.requests.timeout = .seconds(600)
            $0.requests.maximumInFlight = 1  // one at a time, so the link is not replaced
        }
        let serverOptions = LoopbackServer.Options { $0.answersCancelled = true }
        let handler: LoopbackServer.Handler = { $0.body == "late" ? .after(.seconds(10), .echo) : .echo }
        try simulate(
            speaking: standardLayout(serials: 5...5),
            server: serverOptions,
            options: options,
            handler: handler
        ) { service, client in
            let late = client.start(ask("late"))
            try await service.server.waitForRequests(1)
            let began = service.now
            late.cancel()
            #expect(await failure(of: late)?.code == .cancelled)
            let took = service.now - began
            #expect(took == .zero)
            try await expectEcho("next", by: client)
            let waited = service.now - began
            #expect(waited >= .seconds(9) && waited < .seconds(11))
            let metrics = await client.metrics
            #expect(metrics.lateResponses == 1)
            #expect(metrics.responses == 1)
            #expect(metrics.heldSerials == 0)
        }
    }

    @Test func aRequestThatWaitsForASerialCanBeCancelledAndTimesOut() throws {
        try simulate(speaking: standardLayout(serials: 5...5), handler: { _ in .noReply }) { service, client in
            _ = client.start(ask("holder"), timeout: .seconds(60))
            let cancelled = client.start(ask("cancelled"), timeout: .seconds(60))
            let expired = client.start(ask("expired"), timeout: .seconds(2))
            try await service.server.waitForRequests(1)
            cancelled.cancel()
            #expect(await failure(of: cancelled)?.fate == .notSent)
            #expect(cancelled.state == .cancelled)
            let error = await failure(of: expired)
            #expect(error?.code == .timedOut)
            #expect(error?.fate == .notSent)
            #expect(expired.state == .completed)
            #expect(await service.server.received.map(\.body) == ["holder"])
        }
    }

    /// A lost link ends every quarantine, because no response can come any more. A cancel frame that is still unwritten
    /// must not go out on the next link.
    @Test func aLostLinkFreesSerialsAndDiscardsUnwrittenCancelFrames() throws {
        var conditions = NetworkConditions()
        conditions.sendBuffer = 4096
        conditions.receiveWindow = 4096
        conditions.fragmentation = 0
        let options = ClientOptions { $0.requests.timeout = .seconds(600) }
        try simulate(conditions: conditions, speaking: standardLayout(serials: 5...6), options: options) {
            service,
            client in
            try await client.connect()
            try await service.server.waitForConnections(1)
            await service.server.pauseReading()
            let large = client.start(ask(filled(100_000)))
            try await service.pass(.seconds(1))
            #expect(large.serial == 5)
            large.cancel()  // partly written: its cancel frame waits behind the rest
            #expect(await failure(of: large)?.fate == .unknown)
            service.network.reset("db")
            await service.server.resumeReading()
            try await expectEcho("next", by: client)
            try await service.pass(.seconds(1))
            #expect(await service.server.received.map(\.kind) == [.request])
            #expect(await client.metrics.heldSerials == 0)
        }
    }

    // MARK: Back-pressure

    @Test func requestsAboveTheHighWatermarkWait() throws {
        let options = ClientOptions {
            $0.outbound.highWatermark = 100_000
            $0.outbound.lowWatermark = 20_000
            $0.requests.timeout = nil
            $0.liveness.heartbeat = .none  // otherwise a server that reads nothing for a minute counts as dead
        }
        try simulate(options: options) { service, client in
            try await client.connect()
            try await service.server.waitForConnections(1)
            await service.server.pauseReading()
            let handles = (0..<40).map { client.start(ask(filled(10_000, with: UInt8($0)))) }
            try await service.pass(.seconds(60))
            let admitted = handles.count { $0.serial != nil }
            #expect(admitted >= 10 && admitted < 40)
            #expect(handles.prefix(admitted).allSatisfy { $0.serial != nil })
            handles[38].cancel()
            #expect(await failure(of: handles[38])?.fate == .notSent)
            await service.server.resumeReading()
            for (index, handle) in handles.enumerated() where index != 38 {
                #expect(try await handle.value.body.first == UInt8(index))
            }
            #expect(await service.server.received.compactMap(\.body.first) == (0..<40).filter { $0 != 38 })
        }
    }

    /// Nothing but the write of the request before it tells the client that there is room again.
    @Test func aRequestAboveTheHighWatermarkGoesOutAfterAWriteWithoutOtherTraffic() throws {
        let options = ClientOptions {
            ($0.outbound.highWatermark, $0.outbound.lowWatermark) = (1000, 500)
            $0.liveness.heartbeat = .none
        }
        try simulate(options: options, handler: { _ in .after(.seconds(5), .echo) }) { service, client in
            try await client.connect()
            let began = service.now
            // Not `start`: a handle is told that its request is on the link, and the client then looks again.
            async let batch = client.send(all: (0..<3).map { ask(filled(2000, with: UInt8($0))) })
            try await service.server.waitForRequests(3)
            #expect(service.now - began < .seconds(1))
            #expect(await service.server.journal.replyCount == 0)
            let replies = await batch
            #expect(replies.compactMap { try? $0.get().body.first } == [0, 1, 2])
        }
    }

    /// Regression: requests waited until fewer bytes were queued than the low watermark. With a watermark of zero they
    /// waited for ever.
    @Test(arguments: [0, 1, 100_000])
    func aLowWatermarkOfZeroDoesNotBlockRequests(_ high: Int) throws {
        let options = ClientOptions {
            $0.outbound.highWatermark = high
            $0.outbound.lowWatermark = 0
        }
        try simulate(options: options) { _, client in
            let results = await client.send(all: (0..<50).map { ask(filled(10_000, with: UInt8($0))) })
            #expect(results.compactMap { try? $0.get().body.first } == Array(0..<50))
        }
    }

    @Test func requestsAboveTheLimitInFlightWait() throws {
        let options = ClientOptions { $0.requests.maximumInFlight = 2 }
        let serverOptions = LoopbackServer.Options { $0.answersCancelled = true }
        try simulate(server: serverOptions, options: options, handler: { _ in .outOfOrder(window: 100) }) {
            service,
            client in
            let handles = (0..<5).map { client.start(ask($0)) }
            try await service.pass(.seconds(1))
            #expect(handles.map { $0.serial != nil } == [true, true, false, false, false])
            handles[1].cancel()  // makes no room for "2" until its late response comes
            handles[3].cancel()  // is never sent
            try await service.pass(.seconds(1))
            #expect(handles.map(\.state) == [.written, .cancelled, .queued, .cancelled, .queued])
            #expect(await client.metrics.abandoned == 1)
            await service.server.releaseHeld()
            try await expectBody("0", of: handles[0])
            try await service.pass(.seconds(1))
            await service.server.releaseHeld()
            try await expectBody("2", of: handles[2])
            try await expectBody("4", of: handles[4])
            #expect(await service.server.journal.requests.map { String($0.body) } == ["0", "1", "2", "4"])
        }
    }

    @Test func requestsAboveTheLimitOfWaitingOnesAreOverloaded() throws {
        let options = ClientOptions {
            $0.requests.maximumInFlight = 1
            $0.requests.maximumWaiting = 2
        }
        try simulate(options: options, handler: { $0.body == "0" ? .after(.seconds(2), .echo) : .echo }) {
            service,
            client in
            try await client.connect()
            let results = await client.send(all: (0..<5).map { ask($0) })
            let texts = results.map { result -> String in
                switch result {
                case .success(let frame): String(frame.body)
                case .failure(let error): "\(error.code) \(error.fate)"
                }
            }
            #expect(texts == ["0", "1", "2", "overloaded notSent", "overloaded notSent"])
            #expect(await service.server.journal.requestCount == 3)
            try await expectEcho("after", by: client)
        }
    }

    /// Regression: with "1" still waiting in front, the cancelled requests behind it stayed in the queue and were
    /// counted. Although only "1" was waiting, another request failed as one too many.
    @Test func cancelledRequestsDoNotCountAsWaiting() throws {
        let options = ClientOptions {
            $0.requests.maximumInFlight = 1
            $0.requests.maximumWaiting = 3
        }
        try simulate(options: options, handler: { $0.body == "0" ? .after(.seconds(2), .echo) : .echo }) {
            service,
            client in
            let first = [0, 1].map { client.start(ask($0)) }
            try await service.server.waitForRequests(1)
            for round in 0..<100 {
                let extra = [client.start(ask("given up")), client.start(ask("too"))]
                try await service.pass(.milliseconds(1))
                for handle in extra { handle.cancel() }
                for handle in extra { #expect(await failure(of: handle)?.code == .cancelled, "round \(round)") }
            }
            try await expectEcho("last", by: client)
            for handle in first { _ = try await handle.value }
            #expect(await service.server.received.map { String($0.body) } == ["0", "1", "last"])
        }
    }

    // MARK: One-way messages

    @Test func postReturnsWhenTheLastByteIsWritten() throws {
        var conditions = NetworkConditions()
        conditions.sendBuffer = 1000
        conditions.receiveWindow = 1000
        let options = ClientOptions {
            $0.requests.timeout = nil
            $0.liveness.heartbeat = .none  // otherwise a server that reads nothing for a minute counts as dead
        }
        try simulate(conditions: conditions, options: options) { service, client in
            try await client.connect()
            try await service.server.waitForConnections(1)
            await service.server.pauseReading()
            let began = service.now
            async let posted: Void = client.post(ask(filled(10_000)))
            try await service.pass(.seconds(60))
            await service.server.resumeReading()
            try await posted
            let took = service.now - began
            #expect(took >= .seconds(60))
            #expect(await client.metrics.heldSerials == 0)
            try await service.server.waitForRequests(1)
            #expect(await service.server.received.first?.serial == 0)
        }
    }

    @Test func aPostCancelledWhileItIsWrittenIsStillSentWhole() throws {
        var conditions = NetworkConditions()
        conditions.sendBuffer = 1000
        conditions.receiveWindow = 1000
        let options = ClientOptions { $0.requests.timeout = nil }
        // Not over TLS, which encrypts the whole message at once, so it is never partly written.
        try simulate(conditions: conditions, options: options, overTLS: false) { service, client in
            try await client.connect()
            try await service.server.waitForConnections(1)
            await service.server.pauseReading()
            let posting = Task(executorPreference: service.network.executor) {
                await failure { () throws(ClientError) in try await client.post(ask(filled(10_000))) }
            }
            let behind = Task(executorPreference: service.network.executor) {
                try await service.pass(.milliseconds(1))
                return await failure { () throws(ClientError) in try await client.post(ask("never sent")) }
            }
            try await service.pass(.seconds(1))
            posting.cancel()
            behind.cancel()
            let error = await posting.value
            #expect(error?.code == .cancelled)
            #expect(error?.fate == .unknown)
            #expect(try await behind.value?.fate == .notSent)
            await service.server.resumeReading()
            try await expectEcho("next", by: client)
            #expect(await service.server.received.map(\.body.count) == [10_000, 4])
            #expect(await service.server.journal.cancelCount == 0)
        }
    }

    // MARK: Connecting

    @Test func connectingToASilentHostTimesOutAndMayBeRepeated() throws {
        let options = ClientOptions {
            $0.connecting.timeout = .seconds(3)
            $0.reconnecting.maximumAttempts = 2
            $0.reconnecting.policy = Backoff(base: .zero)
        }
        try simulate(options: options) { service, client in
            service.network.partition("db")
            let began = service.now
            let error = await failure { () throws(ClientError) in try await client.connect() }
            #expect(error?.code == .unavailable)
            #expect(error?.fate == .notSent)
            #expect(error?.attempts.count == 2)
            #expect((error?.cause as? TransportError)?.code == .timedOut)
            let took = service.now - began
            #expect(took == .seconds(6))
            service.network.heal("db")
            try await expectEcho("a", by: client)
        }
    }

    @Test func connectCanBeCancelled() throws {
        try simulate { service, client in
            service.network.partition("db")
            let connecting = Task(executorPreference: service.network.executor) {
                await failure { () throws(ClientError) in try await client.connect() }
            }
            try await service.pass(.seconds(20))
            connecting.cancel()
            let error = await connecting.value
            #expect(error?.code == .cancelled)
            #expect(error?.fate == .notSent)
            let early = Task(executorPreference: service.network.executor) {
                await failure { () throws(ClientError) in try await client.connect() }
            }
            early.cancel()
            #expect(await early.value?.code == .cancelled)
        }
    }

    @Test func theSecondEndpointIsTriedIfTheFirstRefuses() throws {
        try simulate { service, _ in
            service.network.refuseConnections(to: "gone")
            let client = service.client(of: ["gone:7000", "db:7000"])
            let began = service.now
            try await expectEcho("a", by: client)
            let took = service.now - began
            #expect(took < .seconds(1))
            await client.close()
        }
    }

    @Test func queuedRequestsGoOutOnTheNextLinkAndWrittenOnesAreLost() throws {
        try simulate(handler: { $0.body == "written" ? .noReply : .echo }) { service, client in
            let written = client.start(ask("written"))
            try await service.server.waitForRequests(1)
            service.network.refuseConnections(to: "db")
            service.network.reset("db")
            let error = await failure(of: written)
            #expect(error?.code == .connectionLost)
            #expect(error?.fate == .unknown)
            #expect((error?.cause as? TransportError)?.code == .reset)
            let queued = (0..<3).map { client.start(ask($0)) }
            try await service.pass(.seconds(2))
            #expect(queued.allSatisfy { $0.state == .queued })
            service.network.acceptConnections(to: "db")
            for handle in queued { _ = try await handle.value }
            #expect(await service.server.received.map { String($0.body) } == ["written", "0", "1", "2"])
        }
    }

    // MARK: Closing

    @Test func closeLetsRequestsInFlightFinish() throws {
        try simulate(handler: { _ in .after(.seconds(2), .echo) }) { service, client in
            let handle = client.start(ask("in flight"))
            try await service.server.waitForRequests(1)
            async let closed: Void = client.close()
            try await service.pass(.seconds(1))
            let error = await failure { () throws(ClientError) in try await client.send(ask("new")) }
            #expect(error?.code == .closed)
            #expect(error?.fate == .notSent)
            #expect(handle.state == .written)
            try await expectBody("in flight", of: handle)
            await closed
            await client.close()
            #expect(await service.server.journal.requestCount == 1)
            try await service.server.waitForConnections(0)
        }
    }

    @Test func closeWaitsNoLongerThanTheDrainTimeout() throws {
        let options = ClientOptions {
            $0.requests.timeout = nil
            $0.requests.drainTimeout = .seconds(5)
        }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            let handle = client.start(ask("a"))
            try await service.server.waitForRequests(1)
            let began = service.now
            await client.close()
            let took = service.now - began
            #expect(took == .seconds(5))
            let error = await failure(of: handle)
            #expect(error?.code == .closed)
            #expect(error?.fate == .unknown)
        }
    }

    @Test func closeEndsAtTheDeadlineOfTheLastRequest() throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            let handle = client.start(ask("a"), timeout: .seconds(4))
            try await service.server.waitForRequests(1)
            await client.close()
            #expect(await failure(of: handle)?.code == .timedOut)
            #expect(service.now < .seconds(5))
        }
    }

    @Test func closeWhileConnectingEndsTheAttempt() throws {
        try simulate { service, client in
            service.network.partition("db")
            let connecting = Task(executorPreference: service.network.executor) {
                await failure { () throws(ClientError) in try await client.connect() }
            }
            try await service.pass(.seconds(1))
            let began = service.now
            await client.close()
            let took = service.now - began
            #expect(took == .zero)
            #expect(await connecting.value?.code == .closed)
        }
    }

    @Test func closeDuringABackoffWaitsForQueuedRequestsOnly() throws {
        let options = ClientOptions {
            $0.reconnecting.policy = Backoff(base: .seconds(1000), cap: .seconds(1000))
            $0.requests.drainTimeout = .seconds(5)
        }
        for hasRequest in [false, true] {
            try simulate(seed: hasRequest ? 3 : 4, options: options) { service, client in
                try await client.connect()
                service.network.refuseConnections(to: "db")
                service.network.reset("db")
                try await service.pass(.milliseconds(1))
                let handle = hasRequest ? client.start(ask("queued"), timeout: .seconds(60)) : nil
                try await service.pass(.milliseconds(1))
                let began = service.now
                await client.close()
                let took = service.now - began
                #expect(took == (hasRequest ? .seconds(5) : .zero))
                guard let handle else { return }
                let error = await failure(of: handle)
                #expect(error?.code == .closed)
                #expect(error?.fate == .notSent)
            }
        }
    }

    @Test func aCancelledCloseClosesAtOnce() throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            let handle = client.start(ask("a"))
            try await service.server.waitForRequests(1)
            let closing = Task(executorPreference: service.network.executor) { await client.close() }
            try await service.pass(.seconds(1))
            let began = service.now
            closing.cancel()
            await closing.value
            let took = service.now - began
            #expect(took == .zero)
            #expect(await failure(of: handle)?.fate == .unknown)
        }
    }

    /// Regression: the socket is full, so the link waits for room. It is closed and lingers. Once its sending side
    /// is shut down, a socket counts as writable. The event loop received this event in every turn for a second, and
    /// did nothing else.
    @Test func closingALinkThatWaitsForRoomDoesNotKeepTheLoopBusy() throws {
        try simulate { service, client in
            try await client.connect()
            try await service.server.waitForConnections(1)
            await service.server.pauseReading()
            let handle = client.start(ask(filled(1_000_000)))
            try await service.pass(.seconds(1))
            await client.closeNow()
            #expect(await failure(of: handle)?.fate == .unknown)
            await service.server.resumeReading()
            try await service.pass(.seconds(10))
        }
    }

    @Test func everyCallEndsWhenCloseRacesWithSend() async throws {
        for seed in seeds(200) {
            await Task.yield()
            try simulate(seed: seed) { service, client in
                if seed % 2 == 0 { try await client.connect() }
                let fates = await withTaskGroup(of: String.self) { group in
                    for number in 0..<20 {
                        group.addTask {
                            try? await service.pass(.microseconds(number * 50))
                            do throws(ClientError) {
                                let reply = try await client.send(ask(number))
                                return reply.body == Bytes("\(number)") ? "success" : "crossed"
                            } catch { return "\(error.code) \(error.fate)" }
                        }
                    }
                    for _ in 0..<2 {
                        group.addTask {
                            try? await service.pass(.microseconds(500))
                            await client.close()
                            return "success"
                        }
                    }
                    return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
                }
                #expect(fates.values.reduce(0, +) == 22)
                #expect(Set(fates.keys).isSubset(of: ["success", "closed notSent"]), "seed \(seed): \(fates)")
                let answered = await service.server.journal.requestCount
                #expect(fates["success"] == answered + 2, "seed \(seed)")
            }
        }
    }

    @Test func runEndsWhenTheClientClosesAndCancellingItClosesTheClient() throws {
        try simulate(handler: { _ in .after(.seconds(2), .echo) }) { service, client in
            async let running: Void = client.run()
            try await service.server.waitForConnections(1)  // `run` connects
            await client.close()
            try await running
            try await client.run()

            let other = service.client()
            let cancelled = Task(executorPreference: service.network.executor) { try await other.run() }
            let handle = other.start(ask("in flight"))
            try await service.server.waitForRequests(1)
            cancelled.cancel()
            try await expectBody("in flight", of: handle)
            try await cancelled.value
            #expect(await failure { () throws(ClientError) in try await other.send(ask("new")) }?.code == .closed)
        }
    }

    // MARK: Reading

    @Test func aConnectionWhoseFramesAreNotConsumedStopsReading() throws {
        try simulate(handler: { _ in
            .sequence((0..<1000).map { .push(Frame(.push, type: 2, body: filled(10_000, with: UInt8($0 % 251)))) })
        }) {
            service,
            _ in
            let options = ClientOptions { $0.inbound.maximumHeld = 100_000 }
            let connection = service.network.connection(to: ["db:7000"], speaking: .standard, options: options)
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            try await service.server.waitForRequests(1)
            try await connection.withFrames { stream in
                var frames = stream.makeAsyncIterator()
                #expect(await frames.next()?.body.first == 0)
                try await service.pass(.seconds(600))
                // The two buffers between server and client, one batch of reading, and what is held.
                let sent = await service.server.journal.bytesSent
                #expect(sent < 1024 * 1024 + 2 * 65_536 + 65_536 + 100_000)
                for number in 1..<1000 { #expect(await frames.next()?.body.first == UInt8(number % 251)) }
                await connection.close()
                #expect(await frames.next() == nil)
            }
        }
    }

    @Test func aSubscriberMaySuspendReading() throws {
        let handler: LoopbackServer.Handler = { request in
            request.body == "flood"
                ? .sequence((0..<500).map { .push(Frame(.push, type: 2, body: filled(1000, with: UInt8($0 % 251)))) })
                : .echo
        }
        let options = ClientOptions {
            $0.requests.timeout = nil
            $0.inbound.maximumHeld = 100_000
        }
        try simulate(options: options, handler: handler) { service, client in
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: 10, overflow: .suspendReading))
            try await client.post(ask("flood"))
            try await service.pass(.seconds(60))
            let reply = client.start(ask("waits too"))
            try await service.pass(.seconds(60))
            #expect(reply.state == .written)
            #expect(await service.server.journal.bytesSent < 500_000)
            var numbers: [UInt8] = []
            for await frame in pushes.messages.prefix(500) { numbers.append(frame.body.first ?? 255) }
            #expect(numbers == (0..<500).map { UInt8($0 % 251) })
            try await expectBody("waits too", of: reply)
        }
    }

    @Test func aDeallocatedSubscriberResumesReading() throws {
        let handler: LoopbackServer.Handler = { request in
            request.body == "flood"
                ? .sequence((0..<500).map { _ in .push(Frame(.push, type: 2, body: filled(1000))) }) : .echo
        }
        try simulate(options: ClientOptions { $0.requests.timeout = nil }, handler: handler) { service, client in
            var pushes: PushStream? = client.pushes(
                buffering: PushBuffering(maximumCount: 10, overflow: .suspendReading)
            )
            try await client.post(ask("flood"))
            let reply = client.start(ask("waits too"))
            try await service.pass(.seconds(60))
            #expect(reply.state == .written)
            #expect(pushes != nil)
            pushes = nil
            try await expectBody("waits too", of: reply)
        }
    }

    /// Regression: the frames were still in the inbox when the link was closed, and were lost with it.
    @Test func framesBeforeAViolationAreNotLost() throws {
        let pushes = (1...5).map { Reaction.push(Frame(.push, type: 1, body: Bytes("\($0)"))) }
        try simulate(speaking: strictLayout, handler: { _ in .sequence(pushes + [.garbage([1, 2, 3, 4])]) }) {
            service,
            _ in
            let connection = service.connection(to: ["db:7000"], speaking: strictLayout)
            try await connection.write(Frame(.request, type: 7, serial: 1))
            var bodies: [String] = []
            try await connection.withFrames { frames in
                for await frame in frames {
                    bodies.append(String(frame.body))
                    try await service.pass(.seconds(1))
                    if bodies.count == 5 { break }
                }
            }
            #expect(bodies == ["1", "2", "3", "4", "5"])
            await connection.closeNow()
        }
    }

    /// A greeting that comes before the first use of the frames is kept, even if its link ends.
    @Test func framesBeforeTheFirstUseAreNotLost() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard)
            let connection = network.connection(to: ["db:7000"], speaking: .standard)
            await connection.reconnectNow()
            try await server.waitForConnections(1)
            try await server.push(Frame(.push, type: 2, body: "hello"))
            try await network.clock.sleep(for: .seconds(1))
            await server.disconnectAll()
            try await network.clock.sleep(for: .seconds(1))
            let first = try await connection.withFrames { await $0.first { _ in true } }
            #expect(first?.body == "hello")
            await connection.close()
            await server.stop()
        }
    }

    /// The frames of a link that has closed are read after the connection was closed, too.
    @Test func framesThatAreHeldCanBeReadAfterTheClose() throws {
        try simulate(handler: { _ in .sequence([.push(Frame(.push, type: 2, body: "a")), .reply("b")]) }) {
            service,
            _ in
            let connection = service.connection(to: ["db:7000"], speaking: .standard)
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            try await service.pass(.seconds(1))
            await connection.close()
            var bodies: [String] = []
            try await connection.withFrames { frames in
                for await frame in frames { bodies.append(String(frame.body)) }
            }
            #expect(bodies == ["a", "b"])
        }
    }

    /// A reader that got its frame needs no other link when the server closes.
    @Test func aReaderThatWasServedDoesNotCauseAnAttempt() throws {
        try simulate(handler: { _ in .sequence([.reply("b"), .close]) }) { service, _ in
            let connection = service.connection(to: ["db:7000"], speaking: .standard)
            async let frame = connection.withFrames { await $0.first { _ in true } }
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            #expect(try await frame?.body == "b")
            try await service.pass(.seconds(60))
            #expect(await connection.state == .idle)
            #expect(await connection.metrics.attempts == 1)
            await connection.close()
        }
    }

    /// Regression: closing first took every frame out of the queue, and then reported `notSent` for each of them.
    @Test func aPartlyWrittenFrameHasFateUnknownWhenItsConnectionCloses() throws {
        try simulate { service, _ in
            let connection = service.connection(to: ["db:7000"], speaking: .standard)
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            try await service.server.waitForRequests(1)
            await service.server.pauseReading()
            let writes = [1_000_000, 10].map { count in
                Task(executorPreference: service.network.executor) {
                    if count == 10 { try await service.pass(.seconds(1)) }
                    return await failure { () throws(ClientError) in
                        try await connection.write(Frame(.request, type: 0x410, serial: 2, body: filled(count)))
                    }
                }
            }
            try await service.pass(.seconds(2))
            await connection.closeNow()
            let errors = [try await writes[0].value, try await writes[1].value]
            #expect(errors.map { $0?.code } == [.closed, .closed])
            #expect(errors.map { $0?.fate } == [.unknown, .notSent])
        }
    }
}
