import Testing
import Trunkline

@testable import TrunklineTesting

/// Requests of the server, which a client answers.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ServingTests {}

extension ServingTests {
    /// Runs `body` while the client serves.
    private func serve(
        _ layout: FrameLayout = refusingLayout,
        conditions: NetworkConditions = NetworkConditions(),
        maximumConcurrent: Int = 64,
        maximumWaiting: Int = 1024,
        _ handler: @escaping @Sendable (SimulatedService, Frame) async throws -> Frame? = { $1.echoed },
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws {
        try simulate(conditions: conditions, speaking: layout) { service, client in
            try await whileServing(
                client,
                service.server,
                maximumConcurrent: maximumConcurrent,
                maximumWaiting: maximumWaiting,
                pause: { try await service.pass(.milliseconds(1)) },
                { try await handler(service, $0) },
                { try await body(service, client) }
            )
            let serving = await client.metrics.serving
            #expect(serving.running == 0 && serving.waiting == 0 && serving.maximumConcurrent == 0)
        }
    }

    @Test func aHandlerAnswersRequestsOfTheServer() throws {
        try serve { service, client in
            // The numbers of both sides have nothing to do with each other.
            async let own = client.send(Request(type: 3, body: "ours"))
            let answer = try await service.server.request(.call("theirs", type: 2, serial: 1))
            #expect(answer.kind == .response && answer.serial == 1 && answer.type == 2 && answer.body == "theirs")
            let ownBody = try await own.body
            #expect(ownBody == "ours")
            let metrics = await client.metrics
            #expect(metrics.serving.received == 1 && metrics.serving.answered == 1)
            #expect(metrics.requests == 1 && metrics.pending == 0 && metrics.unknownResponses == 0)
            #expect(metrics.unexpectedFrames == 0)
        }
    }

    @Test func aHandlerLearnsTheLinkOfARequest() throws {
        try serve { _, request in
            Frame(.response, body: Bytes(request.session.map { "\($0)" } ?? "none"))
        } _: { service, client in
            try await client.connect()
            let session = try #require(await client.metrics.connection.link?.session)
            let body = try await service.server.request(.call()).body
            #expect(body == Bytes("\(session)"))
        }
    }

    @Test func aRequestMayNeedNoAnswer() throws {
        try serve { _, _ in
            nil
        } _: { service, client in
            try await service.server.broadcast(.call(serial: 1))
            try await service.pass(.seconds(1))
            // Its number is free.
            try await service.server.broadcast(.call(serial: 1))
            try await service.pass(.seconds(1))
            let serving = await client.metrics.serving
            #expect(serving.received == 2 && serving.answered == 2 && serving.dropped == 0)
            #expect(await service.server.journal.requestCount == 0)
        }
    }

    // MARK: Limits

    /// With the push buffer, of 5,000 calls 3,926 got no answer.
    @Test func aSlowHandlerLosesNoRequest() throws {
        let gauge = Gauge()
        try serve(maximumConcurrent: 8, maximumWaiting: 5000) { service, request in
            try await gauge.within {
                try await service.pass(.milliseconds(10))
                return request.echoed
            }
        } _: { service, client in
            let outcomes = await service.server.burst(of: 5000)
            #expect(outcomes == CallOutcomes(answered: 5000))
            #expect(gauge.highest == 8 && gauge.now == 0 && gauge.all == 5000)
            #expect(await client.metrics.serving.answered == 5000)
            #expect(await service.server.journal.requestCount == 0)
        }
    }

    @Test func requestsAboveTheLimitsAreRefused() throws {
        let gauge = Gauge()
        try serve(maximumConcurrent: 10, maximumWaiting: 100) { service, request in
            try await gauge.within {
                try await service.pass(.seconds(10))
                return request.echoed
            }
        } _: { service, client in
            let outcomes = await service.server.burst(of: 5000)
            #expect(outcomes == CallOutcomes(answered: 110, refused: [.overloaded: 4890]))
            #expect(gauge.highest == 10)
            let serving = await client.metrics.serving
            #expect(serving.refused == [.overloaded: 4890] && serving.dropped == 0)
        }
    }

    @Test func withoutARefusalRequestsAreDroppedAndCounted() throws {
        try serve(symmetricLayout, maximumConcurrent: 1, maximumWaiting: 0) { service, request in
            try await service.pass(.seconds(1))
            return request.echoed
        } _: { service, client in
            async let first = service.server.request(.call("a"))
            try await service.pass(.milliseconds(100))
            try await service.server.broadcast(.call(serial: 70))
            let firstBody = try await first.body
            #expect(firstBody == "a")
            let serving = await client.metrics.serving
            #expect(serving.received == 2 && serving.answered == 1 && serving.dropped == 1)
        }
    }

    @Test func aClientThatDoesNotServeRefuses() throws {
        try simulate(speaking: refusingLayout) { service, client in
            try await client.connect()
            let status = try await service.server.request(.call()).status
            #expect(status == ServingRefusal.notServed.status)
            #expect(await client.metrics.serving.refused == [.notServed: 1])
        }
    }

    /// A server that sends requests and never reads must not fill the memory.
    @Test func aServerThatDoesNotReadIsBounded() throws {
        var conditions = NetworkConditions()
        (conditions.sendBuffer, conditions.receiveWindow) = (4096, 4096)
        try serve(conditions: conditions, maximumConcurrent: 5, maximumWaiting: 10) { _, request in
            Frame(.response, body: filled(1000))
        } _: { service, client in
            await service.server.pauseReading()
            for serial in 1...50_000 as ClosedRange<SerialNumber> {
                try await service.server.broadcast(.call(serial: serial))
            }
            try await service.pass(.seconds(60))
            let metrics = await client.metrics
            #expect(metrics.serving.running == 5 && metrics.serving.waiting == 10)
            #expect(metrics.serving.received == 50_000 && metrics.serving.dropped > 10_000)
            #expect(metrics.connection.bytesToWrite < 1_000_000)
            await service.server.resumeReading()
            try await service.pass(.seconds(60))
            let served = await client.metrics.serving
            #expect(served.running == 0 && served.waiting == 0)
            #expect(served.answered + (served.refused[.overloaded] ?? 0) + served.dropped == 50_000)
        }
    }

    @Test func onlyOneTaskServesAtATime() throws {
        try serve { service, client in
            let error = await failure { () throws(ClientError) in try await client.serve { _ in nil } }
            #expect(error?.code == .invalidRequest && error?.fate == .notSent)
            let body = try await service.server.request(.call("a")).body
            #expect(body == "a")
        }
    }

    @Test func anotherTaskMayServeLater() throws {
        try simulate(speaking: refusingLayout) { service, client in
            let pause: @Sendable () async throws -> Void = { try await service.pass(.milliseconds(1)) }
            for name in ["a", "b"] as [Bytes] {
                try await whileServing(client, service.server, pause: pause) { _ in
                    Frame(.response, body: name)
                } _: {
                    let body = try await service.server.request(.call()).body
                    #expect(body == name)
                }
            }
        }
    }

    @Test func answersInOrderCannotBeServed() throws {
        let layout = FrameLayout {
            Field.type(UInt16.self)
            Field.length(UInt16.self, counting: .body)
            Field.body
        }
        try simulate(speaking: layout) { _, client in
            let error = await failure { () throws(ClientError) in try await client.serve { _ in nil } }
            #expect(error?.code == .invalidRequest && error?.fate == .notSent)
        }
    }

    // MARK: Failures

    @Test func aHandlerThatThrowsIsRefused() throws {
        try serve { _, request in
            if request.body == "throw" { throw CancellationError() }
            var answer = request.echoed
            // Larger than its field.
            if request.body == "status" { answer.status = 70_000 }
            if request.body == "marked" { answer.markLinkEnding() }
            return answer
        } _: { service, client in
            for body in ["throw", "status", "marked"] as [Bytes] {
                let status = try await service.server.request(.call(body)).status
                #expect(status == ServingRefusal.failed.status)
            }
            let body = try await service.server.request(.call("good")).body
            #expect(body == "good")
            #expect(await client.metrics.serving.refused == [.failed: 3])
        }
    }

    @Test func aRefusalThatCannotBeEncodedIsDropped() throws {
        let layout = symmetricLayout.refusingRequests { _, _ in Frame(.response, status: 70_000) }
        try simulate(speaking: layout) { service, client in
            try await client.connect()
            try await service.server.broadcast(.call(serial: 1))
            try await service.pass(.seconds(1))
            let serving = await client.metrics.serving
            #expect(serving.dropped == 1 && serving.refused == [:])
        }
    }

    /// An answer to the second one would be taken for an answer to the first.
    @Test func aRepeatedSerialIsNotAnswered() throws {
        try serve { service, request in
            try await service.pass(.seconds(1))
            return request.echoed
        } _: { service, client in
            async let first = service.server.request(.call("first", serial: 7))
            try await service.pass(.milliseconds(100))
            try await service.server.broadcast(.call("second", serial: 7))
            let firstBody = try await first.body
            #expect(firstBody == "first")
            try await service.pass(.seconds(5))
            let metrics = await client.metrics
            #expect(metrics.unexpectedFrames == 1 && metrics.serving.received == 1)
            #expect(await service.server.journal.requestCount == 0)
        }
    }

    // MARK: Cancellation

    @Test func theServerCancelsARequest() throws {
        let gauge = Gauge()
        try serve(maximumConcurrent: 1) { service, request in
            try await gauge.within {
                // An answer in spite of the cancellation is not sent.
                try? await service.pass(.seconds(10))
                return request.echoed
            }
        } _: { service, client in
            for index in 0..<3 {  // the first one runs, the others wait
                let waiting = index > 0
                try await withThrowingTaskGroup(of: Frame.self) { group in
                    if waiting { group.addTask { try await service.server.request(.call()) } }
                    try await service.pass(.milliseconds(100))
                    group.addTask { try await service.server.request(.call()) }
                    try await service.pass(.milliseconds(100))
                    group.cancelAll()
                    while let result = await group.nextResult() {
                        #expect(throws: CancellationError.self) { try result.get() }
                    }
                }
                try await service.pass(.seconds(1))
                #expect(gauge.now == 0)
            }
            #expect(gauge.all == 3 && gauge.cancelled == 3)
            let metrics = await client.metrics
            #expect(metrics.serving.cancelled == 5 && metrics.serving.answered == 0)
            #expect(metrics.unexpectedFrames == 0 && metrics.serving.running == 0)

            // It has crossed the answer.
            _ = try await service.server.broadcast(Frame(.cancel, type: 9, serial: 3))
            try await service.pass(.seconds(1))
            #expect(await client.metrics.unexpectedFrames == 0)
        }
    }

    @Test func cancellingTheServingTaskRefusesWhatWaits() throws {
        let gauge = Gauge()
        try simulate(speaking: refusingLayout) { service, client in
            let outcomes = try await withThrowingTaskGroup(of: CallOutcomes?.self) { group in
                let serving = Task(executorPreference: service.network.executor) {
                    try await client.serve(maximumConcurrent: 10) { request in
                        try await gauge.within {
                            try await service.pass(.seconds(100))
                            return request.echoed
                        }
                    }
                }
                try await service.server.wait { $0.connectionCount > 0 }
                group.addTask { await service.server.burst(of: 100) }
                try await service.pass(.seconds(1))
                #expect(gauge.now == 10)
                serving.cancel()
                try await serving.value
                #expect(gauge.now == 0 && gauge.cancelled == 10)
                return try await group.next() ?? nil
            }
            #expect(outcomes == CallOutcomes(refused: [.notServed: 100]))
        }
    }

    // MARK: Links

    @Test func theEndOfALinkCancelsItsHandlers() throws {
        let gauge = Gauge()
        try serve { service, request in
            if request.body == "quick" { return request.echoed }
            return try await gauge.within {
                try? await service.pass(.seconds(10))
                return request.echoed
            }
        } _: { service, client in
            async let lost = service.server.burst(of: 100)
            try await service.pass(.seconds(1))
            #expect(gauge.now == 64)
            await service.server.disconnectAll(reset: true)
            let ended = await lost
            #expect(ended == CallOutcomes(failed: 100))
            try await service.server.wait { $0.connectionCount == 1 }
            #expect(gauge.now == 0 && gauge.cancelled == 64)

            // The answers never go out on the next link, on which the numbers begin again.
            let body = try await service.server.request(.call("quick")).body
            #expect(body == "quick")
            try await service.pass(.seconds(60))
            let serving = await client.metrics.serving
            #expect(serving.received == 101 && serving.dropped == 100 && serving.answered == 1)
            #expect(await service.server.journal.requestCount == 0)
        }
    }

    @Test func aDrainingLinkWaitsForItsHandlers() throws {
        try serve { service, request in
            try await service.pass(.seconds(5))
            return request.echoed
        } _: { service, client in
            async let answer = service.server.request(.call("a"))
            try await service.pass(.seconds(1))
            try await service.server.broadcast(Frame(.goAway, type: 10))
            try await service.server.wait { $0.totalConnections == 2 }
            let answerBody = try await answer.body
            #expect(answerBody == "a")
            try await service.server.wait { $0.connectionCount == 1 }
            let metrics = await client.metrics
            #expect(metrics.serving.answered == 1 && metrics.connection.links == 2)
        }
    }

    @Test func closeWaitsForHandlers() throws {
        try serve(maximumConcurrent: 2) { service, request in
            try await service.pass(.seconds(2))
            return request.echoed
        } _: { service, client in
            async let outcomes = service.server.burst(of: 10)
            try await service.pass(.seconds(1))
            await client.close()
            let ended = await outcomes
            #expect(ended == CallOutcomes(answered: 2, refused: [.notServed: 8]))
            #expect(service.now < .seconds(5))
        }
    }

    @Test func closeNowCancelsHandlers() throws {
        let gauge = Gauge()
        try serve { service, request in
            try await gauge.within {
                try await service.pass(.seconds(1000))
                return request.echoed
            }
        } _: { service, client in
            async let outcomes = service.server.burst(of: 10)
            try await service.pass(.seconds(1))
            await client.closeNow()
            let ended = await outcomes
            #expect(ended == CallOutcomes(failed: 10))
            try await service.pass(.seconds(1))
            #expect(gauge.now == 0 && gauge.cancelled == 10)
        }
    }

    @Test func servingEndsWhenTheClientIsClosed() throws {
        try simulate(speaking: refusingLayout) { service, client in
            async let serving: Void = client.serve { $0.echoed }
            try await service.server.wait { $0.connectionCount > 0 }
            await client.close()
            try await serving
            try await client.serve { $0.echoed }  // returns at once
        }
    }

    /// As for a stream of pushes: otherwise the server could not call.
    @Test func servingKeepsALink() throws {
        try serve { service, client in
            await service.server.disconnectAll()
            try await service.server.wait { $0.totalConnections == 2 && $0.connectionCount == 1 }
            let body = try await service.server.request(.call("a")).body
            #expect(body == "a")
        }
    }

    // MARK: What is told

    @Test func refusedRequestsAreTold() throws {
        let collector = EventCollector(.pushes)
        let options = ClientOptions { $0.observers = [collector] }
        try simulate(speaking: refusingLayout, options: options) { service, client in
            try await client.connect()
            _ = await service.server.burst(of: 20)
        }
        var count = 0
        for event in collector.events {
            guard case .serverRequestsRefused(let refused, .notServed) = event.content else {
                Issue.record("\(event)")
                continue
            }
            count += refused
        }
        #expect(count == 20)
    }
}
