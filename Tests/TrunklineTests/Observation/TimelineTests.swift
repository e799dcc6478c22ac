import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// The timelines of requests: in errors, in recorders and among the slowest requests.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct TimelineTests {}

extension TimelineTests {
    @Test func aTimeoutSaysWhereItsRequestWas() throws {
        let options = ClientOptions {
            ($0.liveness.probeAfter, $0.liveness.deadline) = (.seconds(5), .seconds(10))
        }
        try simulate(options: options, handler: { $0.body == "a" ? .echo : .noReply }) { service, client in
            try await expectEcho("a", by: client)
            let others = (0..<3).map { client.start(ask($0), timeout: .seconds(60)) }
            try await service.server.waitForRequests(4)
            service.network.partition()
            let error = try #require(
                await failure { () throws(ClientError) in try await client.send(ask("late"), timeout: .seconds(8)) }
            )
            let timeline = try #require(error.timeline)
            let tried = try #require(timeline.tries.first)
            #expect(timeline.tryCount == 1 && timeline.duration >= .seconds(8) && timeline.type == 0x410)
            #expect(timeline.failure == ClientMetrics.Failure(.timedOut, .unknown))
            let link = try #require(tried.link)
            #expect(link.endpoint == Wire.endpoint("db:7000") && link.session > 0)
            #expect(link.address?.hasSuffix(":7000") == true)
            let condition = try #require(link.condition)
            #expect(condition.isPingUnanswered && condition.othersInFlight == 3 && condition.silence >= .seconds(8))
            #expect(tried.timeWithoutLink == .zero && tried.timeQueued == .zero)
            let written = try #require(tried.lastByteWritten)
            #expect(written < .milliseconds(10) && tried.firstByteWritten == written && tried.encoding == written)
            #expect(tried.admission.map { $0 <= written } == true)
            let text = "\(error)"
            #expect(
                text.hasPrefix("timedOut (fate unknown): deadline exceeded after 8 s: written on session"),
                "\(text)"
            )
            #expect(text.contains("; no frame completed on that link for 8"), "\(text)")
            #expect(text.contains("; ping unanswered; 3 other requests in flight"), "\(text)")
            for other in others { other.cancel() }
        }
    }

    @Test func aRequestThatNeverHadALinkSaysSo() throws {
        try simulate { service, client in
            service.network.refuseConnections(to: "db")
            let error = try #require(
                await failure { () throws(ClientError) in try await client.send(ask("a"), timeout: .seconds(2)) }
            )
            let tried = try #require(error.timeline?.tries.first)
            #expect(tried.link == nil && tried.admission == nil && tried.lastByteWritten == nil)
            #expect(tried.timeWithoutLink == .seconds(2) && tried.timeQueued == .zero)
            // It said the same four times: "not connected; ended after 2 s: waited 2 s for a link".
            let parts = "\(error)".split(separator: "db:7000]; refused: ").map(String.init)
            let start = "timedOut (not sent): deadline exceeded after 2 s: waited 2 s for a link ["
            #expect(parts.count == 2 && [start, "\(start)tls://"].contains(parts[0]), "\(error)")
        }
    }

    @Test func aRequestThatWaitedForItsTurnSaysSo() throws {
        let options = ClientOptions { $0.requests.maximumInFlight = 1 }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            try await client.connect()
            let first = client.start(ask("a"), timeout: .seconds(60))
            let error = try #require(
                await failure { () throws(ClientError) in try await client.send(ask("b"), timeout: .seconds(2)) }
            )
            let tried = try #require(error.timeline?.tries.first)
            #expect(tried.link == nil && tried.timeQueued == .seconds(2) && tried.timeWithoutLink == .zero)
            #expect(
                "\(error)".contains("(requests.maximumInFlight); ended after 2 s: waited 2 s for its turn"),
                "\(error)"
            )
            first.cancel()
        }
    }

    @Test func aRequestMayWaitForALinkAndThenForItsTurn() throws {
        let options = ClientOptions { $0.requests.maximumInFlight = 1 }
        try simulate(options: options, handler: { _ in .after(.seconds(1), .echo) }) { service, client in
            service.network.refuseConnections(to: "db")
            let recorder = TimelineRecorder()
            let handles = (0..<2).map {
                client.start(ask($0), timeout: .seconds(60), options: CallOptions(recorder: recorder))
            }
            try await service.pass(.seconds(5))
            service.network.acceptConnections(to: "db")
            for handle in handles { _ = try await handle.value }
            let timelines = recorder.timelines
            try #require(timelines.count == 2)
            let (first, second) = (timelines[0].tries[0], timelines[1].tries[0])
            #expect(first.timeWithoutLink >= .seconds(5) && first.timeQueued < .milliseconds(10))
            #expect(
                second.timeWithoutLink >= .seconds(5)
                    && second.timeWithoutLink < first.timeWithoutLink + .milliseconds(10)
            )
            #expect(second.timeQueued >= .seconds(1) && second.timeQueued < .seconds(1.1))
            #expect(timelines.allSatisfy { $0.failure == nil && $0.tries[0].link?.condition == nil })
            #expect(timelines.allSatisfy { $0.resumption == nil })
        }
    }

    /// All serials are held by requests that are abandoned, until the link is replaced: that is no wait for a link.
    @Test func aReplacedLinkIsNoReasonForAnEarlierWait() throws {
        let options = ClientOptions { $0.requests.maximumInFlight = 1 }
        try simulate(options: options, handler: { $0.body == "a" ? .noReply : .echo }) { service, client in
            try await client.connect()
            let recorder = TimelineRecorder()
            let first = client.start(ask("a"), timeout: .seconds(5))
            let second = client.start(ask("b"), timeout: .seconds(60), options: CallOptions(recorder: recorder))
            try await service.pass(.seconds(4))
            await client.renewLink()
            _ = await failure(of: first)
            _ = try await second.value
            let tried = try #require(recorder.timelines.first?.tries.first)
            #expect(tried.timeQueued >= .seconds(4) && tried.timeWithoutLink < .seconds(1), "\(tried)")
        }
    }

    @Test func everyTryOfARetriedRequestIsOnTheTimeline() throws {
        let options = ClientOptions {
            $0.requests.retry = .idempotent(tries: 3, backoff: Backoff(minimum: .seconds(2)))
        }
        let answers = Lock(0)
        let handler: LoopbackServer.Handler = { _ in
            answers.withLock { count in
                count += 1
                return count == 1 ? .noReply : .echo
            }
        }
        try simulate(options: options, handler: handler) { service, client in
            let recorder = TimelineRecorder()
            async let reply = client.send(ask("a"), timeout: .seconds(60), options: CallOptions(recorder: recorder))
            try await service.server.waitForRequests(1)
            service.network.reset("db")
            #expect(try await reply.body == "a")
            let timeline = try #require(recorder.takeAll().first)
            #expect(timeline.tryCount == 2 && timeline.tries.count == 2 && timeline.failure == nil)
            let (first, second) = (timeline.tries[0], timeline.tries[1])
            #expect(first.failure == ClientMetrics.Failure(.connectionLost, .unknown) && first.begin == .zero)
            #expect(first.lastByteWritten != nil && first.link?.condition != nil)
            #expect(second.begin == first.end && second.timeInBackOff >= .seconds(2) && second.failure == nil)
            #expect(try #require(second.link?.session) > (try #require(first.link?.session)))
            #expect(try #require(second.admission) >= second.begin + second.timeInBackOff)
            #expect(try #require(timeline.resumption) >= timeline.duration)
            #expect(timeline.description.contains("2 tries, the last one waited"), "\(timeline)")
            #expect(recorder.timelines.isEmpty)
        }
    }

    @Test func everyCallFormCanBeRecorded() throws {
        let handler: LoopbackServer.Handler = { request in
            request.body == "parts" ? .sequence([.part("x"), .after(.milliseconds(10), .reply("y"))]) : .echo
        }
        try simulate(handler: handler) { service, client in
            let recorder = TimelineRecorder()
            let options = CallOptions(recorder: recorder)
            _ = try await client.send(ask("a"), options: options)
            _ = await client.send(all: [ask("b"), ask("c")], options: options)
            try await client.post(ask("d"), options: options)
            _ = await client.post(all: [ask("e"), ask("f")], options: options)
            _ = try await client.start(ask("g"), options: options).value
            for try await _ in client.stream(ask("parts"), options: options) {}
            _ = try await client.send(ask("parts"), options: options)
            let timelines = recorder.timelines
            #expect(timelines.count == 9 && Set(timelines.map(\.id)).count == 9)
            #expect(timelines.map { $0.resumption != nil } == [true, true, true, true, true, true, false, false, true])
            for timeline in timelines {
                let tried = try #require(timeline.tries.last)
                let admitted = try #require(tried.admission)
                let written = try #require(tried.lastByteWritten)
                #expect(admitted <= written && written <= tried.end, "\(timeline)")
            }
            for timeline in timelines.suffix(2) {
                let first = try #require(timeline.tries[0].firstPart)
                #expect(first < timeline.duration, "\(timeline)")
            }
        }
    }

    @Test func aRecorderKeepsTheLatestTimelines() throws {
        try simulate { _, client in
            let recorder = TimelineRecorder(capacity: 3)
            for number in 0..<5 { _ = try await client.send(ask(number), options: CallOptions(recorder: recorder)) }
            #expect(recorder.timelines.count == 3)
            #expect(recorder.timelines.map(\.id) == recorder.timelines.map(\.id).sorted())
        }
    }

    @Test func theSlowestRequestsAreKeptForMinutes() throws {
        let handler: LoopbackServer.Handler = { request in
            .after(.milliseconds(Int64(String(decoding: request.body, as: UTF8.self)) ?? 0), .echo)
        }
        try simulate(handler: handler) { service, client in
            for number in 1...20 { try await expectEcho(Bytes("\(number * 10)"), by: client) }
            var slowest = await client.diagnostics.slowestRequests
            #expect(slowest.count == 8)
            #expect(slowest.map(\.duration) == slowest.map(\.duration).sorted(by: >))
            #expect(try #require(slowest.first).duration >= .milliseconds(200))
            #expect(try #require(slowest.last).duration >= .milliseconds(130))
            try await service.pass(.seconds(130))
            try await expectEcho("1", by: client)
            slowest = await client.diagnostics.slowestRequests
            #expect(slowest.count == 9 && slowest[0].duration >= .milliseconds(200))
            try await service.pass(.seconds(500))
            #expect(await client.diagnostics.slowestRequests.isEmpty)
        }
    }

    @Test(arguments: [
        (Duration.seconds(8), "8 s"), (.milliseconds(7920), "7.92 s"), (.microseconds(312), "0.31 ms"),
        (.microseconds(12), "12 µs"), (.milliseconds(1500), "1.5 s"), (.seconds(120), "120 s"), (.zero, "0 µs"),
        (.milliseconds(-20), "-20 ms"), (.milliseconds(45), "45 ms"),
    ])
    func durationsAreShort(duration: Duration, text: String) {
        #expect(duration.text == text)
    }
}
