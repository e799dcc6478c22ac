import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// One-way messages that no caller waits for, and batches of one-way messages.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct OneWayTests {}

extension OneWayTests {
    /// A network that holds little, for a server that can stop reading. Not for TLS, which encrypts ahead
    /// of the kernel.
    private static let narrow: NetworkConditions = {
        var conditions = NetworkConditions()
        conditions.sendBuffer = 1000
        conditions.receiveWindow = 1000
        return conditions
    }()

    private static let options = ClientOptions {
        $0.outbound.highWatermark = 4096
        $0.outbound.lowWatermark = 2048
        $0.requests.timeout = .seconds(100)
        $0.liveness.heartbeat = .none  // otherwise a server that reads nothing for a minute counts as dead
    }

    /// A message that costs 1024 bytes and begins with `number`.
    private func message(_ number: Int) -> Request {
        ask(Bytes("\(number) " + String(repeating: "x", count: 992 - "\(number) ".count)))
    }

    private func numbers(_ server: LoopbackServer) async -> [Int] {
        await server.received.compactMap { String($0.body).split(separator: " ").first.flatMap { Int($0) } }
    }

    private func pause(_ service: SimulatedService, _ client: Client) async throws {
        try await client.connect()
        try await service.server.waitForConnections(1)
        await service.server.pauseReading()
    }

    /// Calls `tryEnqueue` until there is no room. Returns the number of accepted messages and the error.
    private func fill(_ client: Client, from first: Int = 0) -> (count: Int, error: ClientError) {
        var count = 0
        while true {
            do throws(ClientError) { try client.tryEnqueue(message(first + count)) } catch { return (count, error) }
            count += 1
        }
    }

    @Test func enqueueingWaitsForNeitherLinkNorKernel() throws {
        try simulate(conditions: Self.narrow) { service, client in
            let began = service.now
            for number in 0..<50 { try await client.enqueue(message(number)) }
            for number in 50..<100 { try client.tryEnqueue(message(number)) }
            #expect(service.now == began)
            try await service.server.waitForRequests(100)
            #expect(await numbers(service.server) == Array(0..<100))
            #expect(await service.server.received.allSatisfy { $0.serial == 0 })
            try await service.pass(.seconds(1))
            #expect(client.messageRoom.isEmpty)
            #expect(await client.metrics.failedMessages == 0)
        }
    }

    @Test func messagesKeepTheirPlaceAmongRequests() throws {
        try simulate { service, client in
            try await client.enqueue(ask("a"))
            let b = client.start(ask("b"))
            try client.tryEnqueue(ask("c"))
            try await client.post(ask("d"))
            try await client.enqueue(ask("e"))
            try await expectEcho("f", by: client)
            try await expectBody("b", of: b)
            #expect(await service.server.received.map(\.body) == ["a", "b", "c", "d", "e", "f"])
        }
    }

    // MARK: Bounds

    @Test func acceptedMessagesAreLimitedInBytes() throws {
        try simulate(conditions: Self.narrow, options: Self.options, overTLS: false) { service, client in
            try await pause(service, client)
            let (count, error) = fill(client)
            #expect(count == 4)
            #expect(error.code == .overloaded && error.fate == .notSent)
            // Messages that the kernel takes make room.
            try await service.pass(.seconds(1))
            #expect(await client.metrics.pending > 0)
            let more = fill(client, from: 4)
            #expect((1...3).contains(more.count))
            await service.server.resumeReading()
            let all = count + more.count
            try await service.server.waitForRequests(all)
            #expect(await numbers(service.server) == Array(0..<all))
        }
    }

    @Test func acceptedMessagesAreLimitedInNumber() throws {
        let options = ClientOptions { $0.requests.maximumWaiting = 10 }
        try simulate(options: options) { service, client in
            #expect(fill(client).count == 10)
            try await service.server.waitForRequests(10)
            try await expectEcho("a", by: client)
        }
    }

    @Test func oneMessageOfAnySizeIsAccepted() throws {
        try simulate(options: Self.options) { service, client in
            try client.tryEnqueue(ask(filled(100_000)))
            #expect(fill(client).count == 0)
            try await service.server.waitForRequests(1)
            try await service.pass(.seconds(1))
            #expect(fill(client).count == 4)
            try await service.server.waitForRequests(5)
        }
    }

    @Test func callersWaitForRoomInOrder() throws {
        try simulate(conditions: Self.narrow, options: Self.options, overTLS: false) { service, client in
            try await pause(service, client)
            let callers = (0..<4).map { caller in
                Task(executorPreference: service.network.executor) {
                    for number in 0..<25 { try await client.enqueue(message(100 * caller + number)) }
                }
            }
            try await service.pass(.seconds(50))
            // Messages of waiting callers have not been accepted.
            #expect(await client.metrics.pending < 4 + 4 + 4)
            await service.server.resumeReading()
            for caller in callers { try await caller.value }
            try await service.server.waitForRequests(100)
            let received = await numbers(service.server)
            for caller in 0..<4 {
                let mine = received.filter { $0 / 100 == caller }
                #expect(mine == (0..<25).map { 100 * caller + $0 })
            }
            try await service.pass(.seconds(1))
            #expect(client.messageRoom.isEmpty)
        }
    }

    @Test func aWaitingCallerCanBeCancelledAndHasADeadline() throws {
        try simulate(conditions: Self.narrow, options: Self.options, overTLS: false) { service, client in
            try await pause(service, client)
            var count = fill(client).count
            try await service.pass(.seconds(1))
            count += fill(client, from: count).count
            let waiting = (0..<3).map { number in
                Task(executorPreference: service.network.executor) {
                    await failure { () throws(ClientError) in
                        try await client.enqueue(message(900 + number), timeout: number == 2 ? .seconds(5) : .default)
                    }
                }
            }
            try await service.pass(.seconds(1))
            waiting[0].cancel()
            waiting[1].cancel()
            for task in waiting[..<2] {
                let error = await task.value
                #expect(error?.code == .cancelled && error?.fate == .notSent)
            }
            let late = await waiting[2].value
            #expect(late?.code == .timedOut && late?.fate == .notSent)
            let cancelled = Task(executorPreference: service.network.executor) {
                await failure { () throws(ClientError) in try await client.enqueue(message(999)) }
            }
            cancelled.cancel()
            #expect(await cancelled.value?.code == .cancelled)
            await service.server.resumeReading()
            try await service.server.waitForRequests(count)
            try await service.pass(.seconds(1))
            #expect(await numbers(service.server) == Array(0..<count))
            #expect(client.messageRoom.isEmpty)
            #expect(await client.metrics.failedMessages == 0)
        }
    }

    /// Both messages go out in one turn. The first task that resumes cancels the other, whose message was accepted and
    /// would be removed from the queue again.
    @Test(arguments: UInt64(1)...20)
    func aCancellationAfterTheAcceptanceHasNoEffect(_ seed: UInt64) throws {
        try simulate(seed: seed, conditions: Self.narrow, options: Self.options, overTLS: false) { service, client in
            try await pause(service, client)
            var count = fill(client).count
            try await service.pass(.seconds(1))
            count += fill(client, from: count).count
            let second = Task(executorPreference: service.network.executor) {
                do throws(ClientError) { try await client.enqueue(message(901)) } catch { return false }
                return true
            }
            let first = Task(executorPreference: service.network.executor) {
                try await client.enqueue(message(900))
                second.cancel()
            }
            try await service.pass(.seconds(1))
            await service.server.resumeReading()
            try await first.value
            let isAccepted = await second.value
            try await service.pass(.seconds(10))
            #expect(await numbers(service.server).contains(901) == isAccepted)
            #expect(await client.metrics.failedMessages == 0)
        }
    }

    // MARK: Outcomes

    @Test func unsentMessagesGoOutOnTheNextLink() throws {
        try simulate(conditions: Self.narrow, options: Self.options, overTLS: false) { service, client in
            try await pause(service, client)
            var count = fill(client).count
            try await service.pass(.seconds(1))
            count += fill(client, from: count).count
            service.network.reset("db")
            await service.server.resumeReading()
            try client.tryEnqueue(message(count))
            try await service.server.waitForRequest { [count] in $0.body == message(count).body }
            let received = await numbers(service.server)
            // No message arrives twice or overtakes another. Those in the kernels' buffers are lost, and one that was
            // partly written.
            #expect(received == Array(received[0]...count))
            #expect(received.count >= 3)
            #expect(await client.metrics.failedMessages == 1)
            #expect(client.messageRoom.isEmpty)
        }
    }

    @Test func aMessageThatExpiresWithoutALinkIsCountedAndNotSent() throws {
        try simulate { service, client in
            await service.server.stopAccepting()
            try await client.enqueue(ask("a"), timeout: .seconds(1))
            try client.tryEnqueue(ask("b"), timeout: .seconds(60))
            try await service.pass(.seconds(2))
            #expect(await client.metrics.failedMessages == 1)
            try await service.server.resumeAccepting()
            _ = try await service.server.waitForRequest { $0.body == "b" }
            #expect(await service.server.received.map(\.body) == ["b"])
        }
    }

    @Test func aMessageThatCannotBeEncodedIsCountedAndPostingItThrows() throws {
        try simulate { service, client in
            let message = Request(type: 0x1)  // the type of a ping
            try await client.enqueue(message)
            try await expectEcho("a", by: client)
            #expect(await client.metrics.failedMessages == 1)
            let error = await failure { () throws(ClientError) in try await client.post(message) }
            #expect(error?.code == .invalidRequest && error?.cause is FrameError)
            #expect(await client.metrics.failedMessages == 1)
            #expect(await client.metrics.pending == 0)
        }
    }

    @Test func closingWritesAcceptedMessages() throws {
        try simulate(conditions: Self.narrow) { service, client in
            for number in 0..<100 { try await client.enqueue(message(number)) }
            await client.close()
            try await service.server.waitForRequests(100)
            #expect(await numbers(service.server) == Array(0..<100))
            let error = await failure { () throws(ClientError) in try await client.enqueue(message(0)) }
            #expect(error?.code == .closed && error?.fate == .notSent)
            #expect(fill(client).error.code == .closed)
        }
    }

    @Test func closeNowFailsWaitingCallers() throws {
        try simulate(conditions: Self.narrow, options: Self.options, overTLS: false) { service, client in
            try await pause(service, client)
            var count = fill(client).count
            try await service.pass(.seconds(1))
            count += fill(client, from: count).count
            let waiting = Task(executorPreference: service.network.executor) {
                await failure { () throws(ClientError) in try await client.enqueue(message(900)) }
            }
            try await service.pass(.seconds(1))
            let pending = await client.metrics.pending
            await client.closeNow()
            let error = await waiting.value
            #expect(error?.code == .closed && error?.fate == .notSent)
            #expect(await client.metrics.failedMessages == pending - 1)
            #expect(client.messageRoom.isEmpty)
        }
    }

    // MARK: Batches

    @Test func eachMessageOfABatchHasItsOwnResult() throws {
        try simulate { service, client in
            let requests = [ask("a"), Request(type: 0x1), ask("c")]
            let results = await client.post(all: requests)
            #expect(results.count == 3)
            #expect(throws: Never.self) { try results[0].get() }
            #expect(throws: Never.self) { try results[2].get() }
            guard case .failure(let error) = results[1] else { throw Missing() }
            #expect(error.code == .invalidRequest && error.fate == .notSent)
            try await service.server.waitForRequests(2)
            #expect(await service.server.received.map(\.body) == ["a", "c"])
            #expect(await client.metrics.heldSerials == 0)
            #expect(await client.post(all: []).isEmpty)
        }
    }

    @Test func postingABatchReturnsWhenTheKernelHasTheLastMessage() throws {
        try simulate(conditions: Self.narrow, options: Self.options, overTLS: false) { service, client in
            try await pause(service, client)
            let posting = Task(executorPreference: service.network.executor) {
                await client.post(all: (0..<10).map { message($0) })
            }
            try await service.pass(.seconds(1))
            let late = Task(executorPreference: service.network.executor) {
                await client.post(all: (10..<12).map { message($0) }, timeout: .seconds(5))
            }
            try await service.pass(.seconds(10))
            for result in await late.value {
                guard case .failure(let error) = result else { throw Missing() }
                #expect(error.code == .timedOut && error.fate == .notSent)
            }
            posting.cancel()
            let fates = await posting.value.map { result in
                if case .failure(let error) = result { "\(error.code) \(error.fate)" } else { "written" }
            }
            let sent = fates.prefix { $0 != "cancelled notSent" }
            #expect(!sent.isEmpty && sent.count < 10)
            #expect(fates.dropFirst(sent.count).allSatisfy { $0 == "cancelled notSent" })
            await service.server.resumeReading()
            try await service.server.waitForRequests(sent.count)
            try await service.pass(.seconds(1))
            #expect(await numbers(service.server) == Array(0..<sent.count))
        }
    }

    private struct Missing: Error {}
}
