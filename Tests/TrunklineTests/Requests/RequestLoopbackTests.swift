import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Single requests and their cancellation, over real sockets.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct RequestLoopbackTests {}

extension RequestLoopbackTests {
    // MARK: Cancelling

    @Test(arguments: Mechanism.allCases)
    func aRequestCancelledBeforeItStartsIsNeverWritten(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism) { server, client in
            try await client.connect()
            let errors = await withTaskGroup(of: [ClientError?].self) { group in
                group.cancelAll()  // its tasks are cancelled before they begin
                group.addTask { [await failure { () throws(ClientError) in try await client.send(ask("a")) }] }
                group.addTask { [await failure { () throws(ClientError) in try await client.post(ask("b")) }] }
                group.addTask {
                    var errors: [ClientError?] = []
                    for result in await client.send(all: [ask("c"), ask("d")]) {
                        errors.append(await failure { () throws(ClientError) in try result.get() })
                    }
                    return errors
                }
                return await group.reduce(into: []) { $0 += $1 }
            }
            #expect(errors.map { $0?.code } == Array(repeating: .cancelled, count: 4))
            #expect(errors.map { $0?.fate } == Array(repeating: .notSent, count: 4))
            try await expectEcho("e", by: client)
            #expect(await server.received.map(\.body) == ["e"])
        }
    }

    @Test(arguments: Mechanism.allCases)
    func cancellingAQueuedRequestRemovesIt(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism) { server, client in
            await server.stopAccepting()
            let sending = Task {
                await failure { () throws(ClientError) in try await client.send(ask("sent and cancelled")) }
            }
            let handle = client.start(ask("started and cancelled"))
            let kept = client.start(ask("kept"))
            while await client.metrics.pending < 3 { await moment() }
            sending.cancel()
            handle.cancel()
            for error in [await sending.value, await failure(of: handle)] {
                #expect(error?.code == .cancelled)
                #expect(error?.fate == .notSent)
            }
            #expect(handle.state == .cancelled)
            try await server.resumeAccepting()
            try await expectBody("kept", of: kept)
            #expect(await server.received.map(\.body) == ["kept"])
        }
    }

    @Test(arguments: Mechanism.allCases)
    func cancellingAWrittenRequestSendsACancelFrame(_ mechanism: Mechanism) async throws {
        let options = LoopbackServer.Options { $0.answersCancelled = true }
        let handler: LoopbackServer.Handler = { $0.body == "held" ? .outOfOrder(window: 100) : .echo }
        try await withServerAndClient(
            by: mechanism,
            speaking: standardLayout(serials: 1...2),
            options: options,
            handler: handler
        ) { server, client in
            let sending = Task { await failure { () throws(ClientError) in try await client.send(ask("held")) } }
            let request = try await server.waitForRequest(within: patience)
            sending.cancel()
            let error = await sending.value  // at once: the server is still silent
            #expect(error?.code == .cancelled)
            #expect(error?.fate == .unknown)
            #expect(error?.endpoint == server.endpoint)
            let cancel = try await server.waitForCancel(of: request.serial, within: patience)
            #expect(cancel.body.isEmpty)
            // The other serial is reused. The one in quarantine is skipped.
            for number in 0..<5 { try await expectEcho(Bytes("\(number)"), by: client) }
            #expect(await Set(server.received.dropFirst(2).map(\.serial)) == [request.serial == 1 ? 2 : 1])
            #expect(await client.metrics.heldSerials == 1)
            await server.releaseHeld()
            // Responses keep their order. When these have arrived, the late one has, too.
            try await expectEcho("after", by: client)
            let metrics = await client.metrics
            #expect(metrics.lateResponses == 1)
            #expect(metrics.heldSerials == 0)
        }
    }

    @Test func anAnsweredRequestCanNoLongerBeCancelled() async throws {
        try await withServerAndClient { server, client in
            let handle = client.start(ask("a"))
            try await expectBody("a", of: handle)
            handle.cancel()
            try await expectEcho("b", by: client)
            #expect(handle.state == .completed)
            try await expectBody("a", of: handle)
            #expect(await server.journal.cancelCount == 0)
        }
    }

    @Test func cancelAllCancelsEveryRequestThatHasNotEnded() async throws {
        let handler: LoopbackServer.Handler = { $0.body == "done" ? .echo : .noReply }
        try await withServerAndClient(clientOptions: quickOptions { $0.requests.maximumInFlight = 3 }, handler: handler)
        {
            server,
            client in
            try await expectEcho("done", by: client)
            let handles = (0..<5).map { client.start(ask($0)) }
            async let batch = client.send(all: [ask("x"), ask("y")])
            try await server.waitForRequests(4, within: patience)
            while await client.metrics.pending < 7 { await moment() }
            client.cancelAll()
            var fates: [ClientError.Fate?] = []
            for handle in handles { fates.append(await failure(of: handle)?.fate) }
            #expect(fates.filter { $0 == .unknown }.count <= 3)
            #expect(fates.contains(.notSent))
            for result in await batch {
                let error = await failure { () throws(ClientError) in try result.get() }
                #expect(error?.code == .cancelled)
            }
            #expect(await server.journal.requestCount == 4)
            try await server.wait(within: patience) { $0.cancelCount == 3 }
        }
    }

    // MARK: Handles

    @Test func aHandleReportsTheStateOfItsRequest() async throws {
        try await withServerAndClient(handler: { _ in .outOfOrder(window: 100) }) { server, client in
            await server.stopAccepting()
            let handle = client.start(ask("a"))
            while await client.metrics.pending == 0 { await moment() }
            #expect(handle.state == .queued)
            try await server.resumeAccepting()
            let request = try await server.waitForRequest(within: patience)
            while handle.state == .queued { await moment() }
            #expect(handle.state == .written)
            #expect(handle.serial == request.serial)
            // Several tasks may await it. Each of them gets the response.
            let bodies = try await withThrowingTaskGroup(of: Bytes.self) { group in
                for _ in 0..<10 { group.addTask { try await handle.value.body } }
                await server.releaseHeld()
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(bodies == Array(repeating: "a", count: 10))
            #expect(handle.state == .completed)
        }
    }

    @Test func cancellingATaskThatWaitsForAHandleCancelsTheRequestForAll() async throws {
        try await withServerAndClient(handler: { _ in .noReply }) { server, client in
            let handle = client.start(ask("a"))
            try await server.waitForRequests(1, within: patience)
            let waiting = (0..<3).map { _ in Task { await failure(of: handle) } }
            waiting[1].cancel()
            for task in waiting { #expect(await task.value?.code == .cancelled) }
            #expect(handle.state == .cancelled)
            try await server.waitForCancel(of: handle.serial, within: patience)
        }
    }

    // MARK: Batches

    @Test func aBatchKeepsItsOrderAndMayMixResults() async throws {
        let handler: LoopbackServer.Handler = { request in
            switch request.body.first {
            case UInt8(ascii: "r"): .after(.milliseconds(1), .status(404, "none"))
            case UInt8(ascii: "s"): .after(.milliseconds(5), .echo)
            default: .echo
            }
        }
        try await withServerAndClient(speaking: strictLayout, handler: handler) { _, client in
            var requests = ["a", "r1", "s1", "b", "r2", "s2"].map { Request(type: 7, body: Bytes($0)) }
            requests.insert(Request(type: 0x1_0000, body: "too large a type"), at: 3)
            let results = await client.send(all: requests)
            let texts = results.map { result -> String in
                switch result {
                case .success(let frame): String(frame.body)
                case .failure(let error): "\(error.code) \(error.fate)"
                }
            }
            let rejected = "rejected answered"
            #expect(texts == ["a", rejected, "s1", "invalidRequest notSent", "b", rejected, "s2"])
            #expect(await client.metrics.pending == 0)
            #expect(await client.send(all: [Request]()).isEmpty)
        }
    }

    /// The refused request ends first, and the others in reverse order.
    @Test func aBatchAnsweredInReverseKeepsItsOrder() async throws {
        let handler: LoopbackServer.Handler = { _ in .outOfOrder(window: 8) }
        try await withServerAndClient(speaking: strictLayout, handler: handler) { server, client in
            var requests = (0..<8).map { Request(type: 7, body: Bytes("\($0)")) }
            requests.insert(Request(type: 0x1_0000, body: "too large a type"), at: 4)
            let results = await client.send(all: requests)
            let texts = results.map { result -> String in
                switch result {
                case .success(let frame): String(frame.body)
                case .failure(let error): "\(error.code) \(error.fate)"
                }
            }
            #expect(texts == ["0", "1", "2", "3", "invalidRequest notSent", "4", "5", "6", "7"])
            #expect(await server.journal.requestCount == 8)
            #expect(await client.metrics.pending == 0)
        }
    }

    @Test func cancellingABatchCancelsItsUnansweredRequests() async throws {
        let handler: LoopbackServer.Handler = { $0.body == "answered" ? .echo : .noReply }
        try await withServerAndClient(handler: handler) { server, client in
            let batch = Task { await client.send(all: [ask("answered"), ask("silence"), ask("silence")]) }
            try await server.wait(within: patience) { $0.requestCount == 3 && $0.replyCount == 1 }
            while await client.metrics.responses == 0 { await moment() }
            batch.cancel()
            let results = await batch.value
            #expect(try results[0].get().body == "answered")
            for result in results.dropFirst() {
                let error = await failure { () throws(ClientError) in try result.get() }
                #expect(error?.code == .cancelled)
                #expect(error?.fate == .unknown)
            }
            try await server.wait(within: patience) { $0.cancelCount == 2 }
        }
    }

    @Test func aRequestThatCannotBeEncodedFailsAlone() async throws {
        try await withServerAndClient(speaking: strictLayout) { server, client in
            async let good = client.send(Request(type: 7, body: "good"))
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 0x1_0000)) }
            #expect(error?.code == .invalidRequest)
            #expect(error?.fate == .notSent)
            #expect((error?.cause as? FrameError)?.code == .unknownType)
            let reply = try await good
            #expect(reply.body == "good")
            #expect(await client.metrics.heldSerials == 0)
            #expect(await server.totalConnections == 1)
        }
    }

    // MARK: Typed requests

    private struct Parse: TypedRequest {
        struct Malformed: Error, Equatable { var text: String }
        static let type: UInt32 = 0x410
        let text: String

        func encode() throws -> Bytes {
            if text.isEmpty { throw Malformed(text: text) }
            return Bytes(text)
        }

        static func decode(_ response: Response) throws -> Int {
            guard let number = Int(String(response.body)) else { throw Malformed(text: String(response.body)) }
            return number
        }
    }

    @Test func aTypedRequestDecodesItsResponse() async throws {
        try await withServerAndClient { server, client in
            let number = try await client.send(Parse(text: "42"))
            #expect(number == 42)
            let unread = await failure { () throws(ClientError) in try await client.send(Parse(text: "not a number")) }
            #expect(unread?.code == .invalidResponse)
            #expect(unread?.fate == .answered)
            #expect(unread?.cause as? Parse.Malformed == Parse.Malformed(text: "not a number"))
            #expect(unread?.response?.body == "not a number")
            let unmade = await failure { () throws(ClientError) in try await client.send(Parse(text: "")) }
            #expect(unmade?.code == .invalidRequest)
            #expect(unmade?.fate == .notSent)
            #expect(await server.journal.requestCount == 2)
        }
    }

    // MARK: The event loop as executor

    @Test(arguments: Mechanism.allCases)
    func callersOnTheClientsEventLoopGetTheirResponses(_ mechanism: Mechanism) async throws {
        let handler: LoopbackServer.Handler = { $0.body == "silence" ? .noReply : .echo }
        try await withServerAndClient(by: mechanism, handler: handler) { server, client in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<50 {
                    group.addTask(executorPreference: client.executor) {
                        for round in 0..<20 { try await expectEcho(Bytes("\(number) \(round)"), by: client) }
                    }
                }
                try await group.waitForAll()
            }
            let silent = Task(executorPreference: client.executor) {
                await failure { () throws(ClientError) in try await client.send(ask("silence")) }
            }
            let request = try await server.waitForRequest(within: patience) { $0.body == "silence" }
            silent.cancel()
            #expect(await silent.value?.fate == .unknown)
            try await server.waitForCancel(of: request.serial, within: patience)
        }
    }
}
