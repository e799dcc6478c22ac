import Synchronization
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// Requests that wait for a link, requests that do not wait for one, and limits on waiting requests.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct QueueingTests {}

extension QueueingTests {
    // MARK: Requests that are never retried

    @Test func aRequestThatIsNeverRetriedEndsWithItsLink() throws {
        let options = ClientOptions {
            $0.requests.maximumInFlight = 1
            $0.requests.retry = .never
        }
        try simulate(options: options, handler: { $0.body == "0" ? .noReply : .echo }) { service, client in
            let first = client.start(ask("0"))
            let queued = client.start(ask("1"))
            let patient = client.start(ask("2"), options: CallOptions(retry: .ifUnsent))
            try await service.server.waitForRequests(1)
            service.network.reset("db")
            let errors = [await failure(of: first), await failure(of: queued)]
            #expect(errors.map { $0?.code } == [.connectionLost, .connectionLost])
            #expect(errors.map { $0?.fate } == [.unknown, .notSent])
            #expect((errors[1]?.cause as? TransportError)?.code == .reset)
            #expect(errors[1]?.endpoint == service.endpoint("db:7000"))
            try await expectBody("2", of: patient)
            #expect(await service.server.received.map(\.body) == ["0", "2"])
        }
    }

    /// The request is queued for the next link, whichever that is. A failed attempt is not a lost link.
    @Test func aRequestThatIsNeverRetriedWaitsForTheFirstLink() throws {
        try simulate { service, client in
            service.network.refuseConnections(to: "db")
            let handle = client.start(ask("a"), timeout: .seconds(60), options: CallOptions(retry: .never))
            try await service.pass(.seconds(5))
            service.network.acceptConnections(to: "db")
            try await expectBody("a", of: handle)
        }
    }

    // MARK: Many requests at once

    /// More requests than are performed before the first of them are put on the link.
    @Test func cancelledRequestsOfALargeBatchAreNotSent() throws {
        try simulate { service, client in
            try await client.connect()
            let handles = (0..<1000).map { client.start(ask("\($0)")) }
            for (number, handle) in handles.enumerated() where number % 3 == 0 { handle.cancel() }
            for (number, handle) in handles.enumerated() {
                if number % 3 == 0 {
                    let error = await failure(of: handle)
                    #expect(error?.code == .cancelled && error?.fate == .notSent)
                } else {
                    try await expectBody("\(number)", of: handle)
                }
            }
            let sent = (0..<1000).filter { $0 % 3 != 0 }.map { Bytes("\($0)") }
            #expect(await service.server.received.map(\.body) == sent)
        }
    }

    /// The request is on the link already when the client takes the cancellation, but nothing is written before the end
    /// of the turn.
    @Test func aRequestCancelledInItsOwnBatchIsNotSent() throws {
        try simulate { service, client in
            try await client.connect()
            // What `send` and its cancellation handler submit, without a chance for the loop to run in between.
            let id = client.nextRequestID()
            let outcome = await withContinuation { continuation in
                let frame = ask("send").frame
                let queue = client.commandQueue
                let now = client.loop.now
                let waiter = Waiter(.caller(continuation))
                queue.post(.send(id, frame, waiter, accepted: now, deadline: nil, expectsResponse: true))
                queue.post(.cancel(id...id))
            }
            #expect(outcome.error?.code == .cancelled && outcome.error?.fate == .notSent)
            // A command from outside the loop keeps all commands that follow in one batch.
            client.commandQueue.post(.resumeReading)
            let handle = client.start(ask("start"))
            handle.cancel()
            let error = await failure(of: handle)
            #expect(error?.code == .cancelled && error?.fate == .notSent)
            #expect(handle.state == .cancelled)
            try await service.pass(.seconds(1))
            // Both were accepted. Nothing was written: neither the requests nor cancel frames.
            #expect(await client.metrics.requests == 2)
            #expect(await service.server.received.isEmpty)
            #expect(await service.server.journal.cancelCount == 0)
            try await expectEcho("next", by: client)
            #expect(await service.server.received.map(\.body) == ["next"])
        }
    }

    /// The limit that makes the rest of a batch wait.
    enum Limit: CaseIterable {
        case inFlight, earlierBatch, serials
    }

    @Test(arguments: Limit.allCases)
    func theRestOfABatchWaitsForItsTurn(_ limit: Limit) throws {
        let options = ClientOptions {
            if limit == .inFlight { $0.requests.maximumInFlight = 3 }
            if limit == .earlierBatch { $0.requests.maximumInFlight = 8 }
        }
        let layout = limit == .serials ? standardLayout(serials: 1...3) : .standard
        let handler: LoopbackServer.Handler = { _ in .after(.milliseconds(200), .echo) }
        try simulate(speaking: layout, options: options, handler: handler) { service, client in
            try await client.connect()
            let earlier = limit == .earlierBatch ? 5 : 0
            async let first = client.send(all: (0..<earlier).map { ask($0) })
            try await service.server.waitForRequests(earlier)
            async let batch = client.send(all: (earlier..<20).map { ask($0) })
            try await service.server.waitForRequests(earlier + 3)
            try await service.pass(.milliseconds(100))
            #expect(await service.server.journal.requestCount == earlier + 3)
            let replies = await first + batch
            #expect(replies.compactMap { try? String($0.get().body) } == (0..<20).map { "\($0)" })
            #expect(await service.server.received.map(\.body) == (0..<20).map { Bytes("\($0)") })
            let metrics = await client.metrics
            #expect(metrics.requests == 20 && metrics.responses == 20 && metrics.pending == 0)
        }
    }

    /// While the server does not read, the rest of a batch waits. Its deadline applies to all of it.
    @Test(arguments: [true, false])
    func theRestOfABatchWaitsBelowTheWatermark(expires: Bool) throws {
        let options = ClientOptions {
            ($0.outbound.highWatermark, $0.outbound.lowWatermark) = (200_000, 100_000)
            $0.liveness.heartbeat = .none
        }
        try simulate(options: options) { service, client in
            try await client.connect()
            try await service.server.waitForConnections(1)
            await service.server.pauseReading()
            let bodies = (0..<20).map { filled(100_000, with: UInt8($0)) }
            async let batch = client.send(all: bodies.map { ask($0) }, timeout: .seconds(5))
            try await service.pass(.seconds(1))
            let metrics = await client.metrics
            #expect(metrics.pending == 20 && (1..<20).contains(metrics.heldSerials))
            if expires { try await service.pass(.seconds(5)) }
            await service.server.resumeReading()
            let replies = await batch
            if expires {
                let errors = replies.map(\.error)
                #expect(errors.allSatisfy { $0?.code == .timedOut })
                #expect(errors.first??.fate == .unknown && errors.last??.fate == .notSent)
                #expect(errors.count == 20)
            } else {
                #expect(replies.compactMap { try? $0.get().body } == bodies)
            }
        }
    }

    @Test func aBatchCancelledBeforeItIsWrittenIsNotSent() throws {
        try simulate { service, client in
            try await client.connect()
            let count = 100
            let last = RequestID(client.requestIDs.wrappingAdd(UInt64(count), ordering: .relaxed).newValue)
            let first = last.advanced(by: 1 - count)
            let outcomes = await withContinuation { (continuation: Continuation<[Outcome]>) in
                let batch = Batch(count: count, ResolvedOptions(accepted: client.loop.now), continuation)
                let queue = client.commandQueue
                queue.post(.sendAll(first: first, (0..<count).map { ask("\($0)") }, batch))
                queue.post(.cancel(first...last))
            }
            #expect(outcomes.allSatisfy { $0.error?.code == .cancelled && $0.error?.fate == .notSent })
            #expect(outcomes.count == count)
            #expect(await client.metrics.requests == 100)
            try await expectEcho("next", by: client)
            #expect(await service.server.received.map(\.body) == ["next"])
            #expect(await service.server.journal.cancelCount == 0)
        }
    }

    @Test func manyMessagesGoOutInOneBatch() throws {
        try simulate { service, client in
            try await client.connect()
            let results = await client.post(all: (0..<100).map { ask("\($0)") })
            #expect(results.allSatisfy { $0.error == nil } && results.count == 100)
            try await service.server.waitForRequests(100)
            #expect(await service.server.received.map(\.body) == (0..<100).map { Bytes("\($0)") })
            #expect(await client.metrics.heldSerials == 0)
        }
    }

    // MARK: Not waiting for a link

    @Test func aCallThatDoesNotWaitFailsAtOnceWithTheCause() throws {
        try simulate { service, client in
            service.network.refuseConnections(to: "db")
            let patient = client.start(ask("patient"), timeout: .seconds(60))
            try await service.pass(.seconds(1))
            let began = service.now
            var errors: [ClientError?] = []
            errors.append(
                await failure { () throws(ClientError) in
                    try await client.send(ask("a"), options: CallOptions(waitsForReady: false))
                }
            )
            errors.append(
                await failure { () throws(ClientError) in
                    try await client.post(ask("b"), options: CallOptions(waitsForReady: false))
                }
            )
            errors.append(await failure(of: client.start(ask("c"), options: CallOptions(waitsForReady: false))))
            errors += await client.send(all: [ask("d"), ask("e")], options: CallOptions(waitsForReady: false)).map(
                \.error
            )
            // Not retried either, because a retry would have to wait for a link.
            errors.append(
                await failure { () throws(ClientError) in
                    try await client.send(ask("f"), options: CallOptions(retry: .idempotent(), waitsForReady: false))
                }
            )
            #expect(service.now == began)
            #expect(errors.count == 6)
            for error in errors {
                #expect(error?.code == .unavailable)
                #expect(error?.fate == .notSent)
                #expect((error?.cause as? TransportError)?.code == .refused)
                #expect(error?.attempts.isEmpty == false)
            }
            service.network.acceptConnections(to: "db")
            try await expectBody("patient", of: patient)
            let reply = try await client.send(ask("g"), options: CallOptions(waitsForReady: false))
            #expect(reply.body == "g")
            #expect(await service.server.received.map(\.body) == ["patient", "g"])
        }
    }

    @Test func aCallThatDoesNotWaitMakesTheClientConnect() throws {
        try simulate { service, client in
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), options: CallOptions(waitsForReady: false))
            }
            #expect(error?.code == .unavailable)
            try await service.pass(.seconds(1))
            let reply = try await client.send(ask("b"), options: CallOptions(waitsForReady: false))
            #expect(reply.body == "b")
        }
    }

    /// Regression: the socket was connected, but the handshake was not complete. `connect()` returned before the
    /// link was ready.
    @Test func aLinkDuringItsHandshakeIsNotReady() throws {
        let options = ClientOptions {
            $0.handshake.perform = { handshaker in _ = try await handshaker.send(ask("handshake")) }
        }
        let handler: LoopbackServer.Handler = { $0.body == "handshake" ? .after(.milliseconds(500), .echo) : .echo }
        try simulate(options: options, handler: handler) { service, client in
            async let first: Void = client.connect()
            try await service.server.waitForRequests(1)
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), options: CallOptions(waitsForReady: false))
            }
            #expect(error?.code == .unavailable)
            #expect(error?.message.hasSuffix("not connected") == true)
            try await client.connect()
            #expect(service.now > .milliseconds(500))
            let reply = try await client.send(ask("b"), options: CallOptions(waitsForReady: false))
            #expect(reply.body == "b")
            try await first
        }
    }

    /// A request that was accepted while there was a link, but not written when that link is lost, must not wait for
    /// the next link.
    @Test func aCallThatDoesNotWaitEndsWithItsLink() throws {
        let options = ClientOptions { $0.requests.maximumInFlight = 1 }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            try await client.connect()
            let first = client.start(ask("0"), options: CallOptions(waitsForReady: false))
            let queued = client.start(ask("1"), options: CallOptions(retry: .idempotent(), waitsForReady: false))
            try await service.server.waitForRequests(1)
            service.network.refuseConnections(to: "db")
            service.network.reset("db")
            #expect(await failure(of: first)?.fate == .unknown)
            let error = await failure(of: queued)
            #expect(error?.code == .connectionLost)
            #expect(error?.fate == .notSent)
        }
    }

    @Test func aCallThatDoesNotWaitIsRetriedOnlyIfThereIsALink() throws {
        let policy = RetryPolicy.idempotent(tries: 3, backoff: Backoff(base: .seconds(4), cap: .seconds(4)))
        try simulate(handler: { _ in .noReply }) { service, client in
            try await client.connect()
            let handle = client.start(ask("a"), options: CallOptions(retry: policy, waitsForReady: false))
            try await service.server.waitForRequests(1)
            service.network.refuseConnections(to: "db")
            service.network.reset("db")
            let error = await failure(of: handle)
            #expect(error?.code == .unavailable)
            // Its first attempt was written.
            #expect(error?.fate == .unknown)
            #expect(await client.metrics.retries == 1)
        }
    }

    // MARK: Limits

    @Test func requestsThatWaitForALinkAreBoundedInBytes() throws {
        let options = ClientOptions {
            $0.requests.maximumWaitingBytes = 14_000  // nine requests: each counts its body, 32 bytes and 512
            $0.requests.timeout = .seconds(60)
            $0.outbound.highWatermark = 3000  // those beyond it wait in front of the outbound queue and count too
        }
        try simulate(options: options) { service, client in
            service.network.refuseConnections(to: "db")
            let handles = (0..<12).map { client.start(ask(filled(1000, with: UInt8($0)))) }
            try await service.pass(.milliseconds(1))
            for handle in handles[9...] {
                let error = await failure(of: handle)
                #expect(error?.code == .overloaded)
                #expect(error?.fate == .notSent)
            }
            // Cancelled requests make room: one in the outbound queue and one in front of it.
            handles[0].cancel()
            handles[8].cancel()
            try await service.pass(.milliseconds(1))
            let later = (20..<23).map { client.start(ask(filled(1000, with: UInt8($0)))) }
            #expect(await failure(of: later[2])?.code == .overloaded)
            service.network.acceptConnections(to: "db")
            for handle in handles[1..<8] + later[..<2] { _ = try await handle.value }
            #expect(await failure(of: handles[0])?.code == .cancelled)
            let first = await service.server.received.compactMap { Array($0.body).first }
            #expect(first == [1, 2, 3, 4, 5, 6, 7, 20, 21])
        }
    }

    @Test func requestsThatWaitForTheSocketAreBoundedInBytes() throws {
        let options = ClientOptions {
            $0.requests.maximumWaitingBytes = 500_000
            $0.outbound.highWatermark = 200_000
        }
        try simulate(options: options) { service, client in
            try await client.connect()
            try await service.server.waitForConnections(1)
            await service.server.pauseReading()
            var handles: [PendingRequest<Response>] = []
            for _ in 0..<12 {
                handles.append(client.start(ask(filled(100_000))))
                try await service.pass(.milliseconds(10))
            }
            // 128 KiB are in the kernels' buffers, and a frame that has begun counts until its end: five to seven
            // requests are accepted.
            let refused = handles.filter { $0.state == .completed }.count
            #expect((5...7).contains(refused), "\(refused)")
            for handle in handles.suffix(refused) { #expect(await failure(of: handle)?.code == .overloaded) }
            await service.server.resumeReading()
            for handle in handles.prefix(12 - refused) { _ = try await handle.value }
            _ = try await client.send(ask(filled(100_000)))
        }
    }

    /// Otherwise it would depend on the presence of a link whether a body larger than the limit can be sent.
    @Test func oneRequestOfAnySizeMayWaitAlone() throws {
        let options = ClientOptions { $0.requests.maximumWaitingBytes = 10 }
        try simulate(options: options) { _, client in
            let large = client.start(ask(filled(1000)))
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(error?.code == .overloaded)
            _ = try await large.value
            try await expectEcho("b", by: client)
        }
    }

    @Test func requestsThatWaitForALinkAreBoundedInNumber() throws {
        let options = ClientOptions { $0.requests.maximumWaiting = 3 }
        try simulate(options: options) { service, client in
            service.network.refuseConnections(to: "db")
            let results = await client.send(all: (0..<5).map { ask($0) }, timeout: .seconds(1)).map { $0.error?.code }
            #expect(results == [.timedOut, .timedOut, .timedOut, .overloaded, .overloaded])
            service.network.acceptConnections(to: "db")
            try await client.connect()
            // With a link, only requests that have to wait count.
            let all = await client.send(all: (0..<50).map { ask($0) })
            #expect(all.allSatisfy { $0.error == nil })
        }
    }
}
