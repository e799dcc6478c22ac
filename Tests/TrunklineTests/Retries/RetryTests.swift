import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// Requests that are retried, and requests that are not, in virtual time.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct RetryTests {}

extension RetryTests {
    /// Resets the link on the first `count` requests, and then echoes.
    private func resetting(_ count: Int) -> LoopbackServer.Handler {
        let left = Countdown(count)
        return { _ in left.next() ? .reset : .echo }
    }

    /// Requests that wait their turn end with the link, too: a batch without retries never continues on another link.
    @Test func aBatchWithoutRetriesEndsWithItsLink() throws {
        let options = ClientOptions { $0.requests.maximumInFlight = 4 }
        let handler: LoopbackServer.Handler = { $0.body == "6" ? .reset : .echo }
        try simulate(options: options, handler: handler) { service, client in
            try await client.connect()
            let results = await client.send(all: (0..<20).map { ask($0) }, options: CallOptions(retry: .never))
            let fates = results.map { result -> ClientError.Fate in
                if case .failure(let error) = result { error.fate } else { .answered }
            }
            let unsent = fates.filter { $0 == .notSent }.count
            #expect(unsent >= 10 && fates[6] == .unknown)
            #expect(fates.suffix(unsent).allSatisfy { $0 == .notSent })
            try await expectEcho("next", by: client)
            let received = await service.server.received.map(\.body)
            #expect(received.count <= 20 - unsent + 1 && received.last == "next")
            #expect(await service.server.totalConnections == 2)
        }
    }

    // MARK: Idempotent requests

    @Test func anIdempotentRequestIsRetriedWhenItsLinkIsLost() throws {
        try simulate(handler: resetting(2)) { service, client in
            let reply = try await client.send(ask("a"), options: CallOptions(retry: .idempotent(tries: 3)))
            #expect(reply.body == "a")
            #expect(await service.server.journal.requestCount == 3)
            let metrics = await client.metrics
            #expect(metrics.requests == 1)
            #expect(metrics.retries == 2)
            #expect(metrics.retriesRefused == 0)
        }
    }

    @Test func afterItsLastAttemptARequestFailsWithTheLastError() throws {
        try simulate(handler: resetting(5)) { service, client in
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), options: CallOptions(retry: .idempotent(tries: 3)))
            }
            #expect(error?.code == .connectionLost)
            #expect(error?.fate == .unknown)
            #expect(error?.message.hasSuffix("(try 3)") == true)
            // Regression: it was appended where the error was observed, and again where the caller got it.
            #expect(error?.message.contains("(try 3) (try 3)") == false)
            #expect(await service.server.journal.requestCount == 3)
        }
    }

    @Test(arguments: [RetryPolicy.never, .ifUnsent, .idempotent(tries: 1), .idempotent(tries: -1)])
    func otherRequestsFailWithTheirLink(_ policy: RetryPolicy) throws {
        try simulate(handler: resetting(1)) { service, client in
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), options: CallOptions(retry: policy))
            }
            #expect(error?.code == .connectionLost)
            #expect(error?.fate == .unknown)
            try await expectEcho("b", by: client)
            #expect(await service.server.received.map(\.body) == ["a", "b"])
            #expect(await client.metrics.retries == 0)
        }
    }

    @Test func aProtocolViolationIsRetriedLikeALostLink() throws {
        let left = Countdown(1)
        let handler: LoopbackServer.Handler = { _ in left.next() ? .absurdLength : .echo }
        try simulate(handler: handler) { _, client in
            let reply = try await client.send(ask("a"), options: CallOptions(retry: .idempotent()))
            #expect(reply.body == "a")
            #expect(await client.metrics.retries == 1)
        }
    }

    @Test func everyFormOfCallIsRetried() throws {
        let options = ClientOptions { $0.requests.retry = .idempotent(tries: 4) }
        try simulate(options: options, handler: resetting(3)) { service, client in
            let handle = client.start(ask("handle"))
            let results = await client.send(all: [ask("x"), ask("y")])
            #expect(results.allSatisfy { $0.error == nil })
            try await expectBody("handle", of: handle)
            #expect(handle.state == .completed)
            let read = try await client.send(Read())
            #expect(read == "read")
            try await client.post(ask("one-way"))
        }
    }

    private struct Read: TypedRequest {
        static let type: UInt32 = 0x410
        static var retry: RetryPolicy { .idempotent() }
        func encode() -> Bytes { "read" }
        static func decode(_ response: Response) -> String { String(response.body) }
    }

    @Test func aRequestTypeMayAllowRetriesForAllItsCalls() throws {
        try simulate(handler: resetting(1)) { _, client in
            let read = try await client.send(Read())
            #expect(read == "read")
            #expect(await client.metrics.retries == 1)
        }
        try simulate(handler: resetting(1)) { _, client in
            let error = await failure { () throws(ClientError) in
                try await client.send(Read(), options: CallOptions(retry: .never))
            }
            #expect(error?.code == .connectionLost)
        }
    }

    @Test func anErrorResponseIsNotRetried() throws {
        let handler: LoopbackServer.Handler = { _ in .status(5) }
        try simulate(speaking: statusLayout, handler: handler) { service, client in
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), options: CallOptions(retry: .idempotent(tries: 5)))
            }
            #expect(error?.code == .rejected)
            #expect(await service.server.journal.requestCount == 1)
        }
    }

    // MARK: Deadlines and cancellation

    @Test func retriesHaveTheDeadlineOfTheCall() throws {
        let backoff = Backoff(base: .milliseconds(1), cap: .milliseconds(1))
        let options = ClientOptions {
            $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(1))
            $0.requests.retryBudget = nil
        }
        try simulate(options: options, handler: { _ in .after(.milliseconds(300), .reset) }) { service, client in
            try await client.connect()
            let began = service.now
            let error = await failure { () throws(ClientError) in
                try await client.send(
                    ask("a"),
                    timeout: .seconds(1),
                    options: CallOptions(retry: .idempotent(tries: .max, backoff: backoff))
                )
            }
            let took = service.now - began
            #expect(error?.code == .timedOut)
            #expect(error?.fate == .unknown)
            #expect(took == .seconds(1))
            #expect(await service.server.journal.requestCount == 4)
            try await service.pass(.seconds(60))
            #expect(await service.server.journal.requestCount == 4)
        }
    }

    /// A try that cannot begin before the deadline would only hide the error and delay it.
    @Test func aBackoffThatEndsAfterTheDeadlineIsNotBegun() throws {
        try simulate(handler: resetting(1)) { service, client in
            try await client.connect()
            let began = service.now
            let long = Backoff(base: .seconds(100_000), cap: .seconds(100_000))
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), options: CallOptions(retry: .idempotent(tries: 5, backoff: long)))
            }
            #expect(error?.code == .connectionLost)
            let took = service.now - began
            #expect(took < .seconds(1))
            #expect(await client.metrics.retries == 0)
        }
    }

    /// The request was written once, and its second try has not begun. The second try is unsent, but the server
    /// may have handled the first.
    @Test func aRequestCancelledBetweenTwoAttemptsHasFateUnknown() throws {
        let long = Backoff(base: .seconds(5), cap: .seconds(5))
        try simulate(seed: 3, handler: resetting(1)) { service, client in
            let handle = client.start(ask("a"), options: CallOptions(retry: .idempotent(tries: 2, backoff: long)))
            let other = client.start(
                ask("b"),
                timeout: .seconds(600),
                options: CallOptions(retry: .idempotent(tries: 2, backoff: long))
            )
            try await service.server.waitForRequests(1)
            try await service.pass(.milliseconds(20))
            #expect(handle.state == .queued)
            #expect(handle.serial == nil)
            handle.cancel()
            let error = await failure(of: handle)
            #expect(error?.code == .cancelled)
            #expect(error?.fate == .unknown)
            try await expectBody("b", of: other)
            try await service.pass(.seconds(60))
            #expect(await service.server.received.filter { $0.body == "a" }.count <= 1)
        }
    }

    @Test func closingEndsRequestsThatWaitForARetry() throws {
        let long = Backoff(base: .seconds(5), cap: .seconds(5))
        for closesNow in [true, false] {
            try simulate(handler: resetting(1)) { service, client in
                let policy = RetryPolicy.idempotent(tries: 2, backoff: long)
                let handle = client.start(ask("a"), timeout: .seconds(60), options: CallOptions(retry: policy))
                try await service.server.waitForRequests(1)
                try await service.pass(.milliseconds(20))
                if closesNow {
                    await client.closeNow()
                    let error = await failure(of: handle)
                    #expect(error?.code == .closed)
                    #expect(error?.fate == .unknown)
                } else {
                    // An orderly close waits for the request, which counts as in flight.
                    await client.close()
                    try await expectBody("a", of: handle)
                }
            }
        }
    }

    // MARK: The budget

    @Test func withoutATokenARequestIsNotRetried() throws {
        let options = ClientOptions {
            $0.requests.retryBudget = RetryBudget()
            $0.requests.retryBudget?.initial = 3
            $0.requests.retryBudget?.share = 0
            $0.requests.retryBudget?.perSecond = 0
        }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            try await client.connect()
            let requests = (0..<10).map { ask($0) }
            async let results = client.send(
                all: requests,
                timeout: .seconds(30),
                options: CallOptions(retry: .idempotent(tries: 2))
            )
            try await service.server.waitForRequests(10)
            service.network.reset("db")
            try await service.server.waitForRequests(13)
            service.network.reset("db")
            let errors = await results.map(\.error)
            #expect(errors.allSatisfy { $0?.code == .connectionLost && $0?.fate == .unknown })
            let metrics = await client.metrics
            #expect(metrics.retries == 3)
            #expect(metrics.retriesRefused == 7)
        }
    }

    // MARK: No server

    @Test func anIdempotentRequestSurvivesTheLimitOnAttempts() throws {
        let options = ClientOptions {
            $0.reconnecting.maximumAttempts = 2
            $0.requests.retryBudget?.initial = 0
            $0.requests.retryBudget?.perSecond = 0
        }
        try simulate(options: options) { service, client in
            service.network.refuseConnections(to: "db")
            let error = await failure { () throws(ClientError) in try await client.send(ask("usual")) }
            #expect(error?.code == .unavailable)
            #expect(error?.fate == .notSent)
            let policy = RetryPolicy.idempotent(tries: 50, backoff: Backoff(base: .seconds(1), cap: .seconds(1)))
            let handle = client.start(ask("patient"), timeout: .seconds(60), options: CallOptions(retry: policy))
            try await service.pass(.seconds(5))
            service.network.acceptConnections(to: "db")
            // The request was not sent before, so no token is needed, and there is none.
            try await expectBody("patient", of: handle)
            #expect(await client.metrics.retries > 1)
            #expect(await service.server.received.map(\.body) == ["patient"])
        }
    }

    @Test func aRequestThatWasNeverSentFailsWithFateNotSent() throws {
        let options = ClientOptions { $0.reconnecting.maximumAttempts = 1 }
        try simulate(options: options) { service, client in
            service.network.refuseConnections(to: "db")
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), options: CallOptions(retry: .idempotent(tries: 3)))
            }
            #expect(error?.code == .unavailable)
            #expect(error?.fate == .notSent)
            #expect((error?.cause as? TransportError)?.code == .refused)
            #expect(await client.metrics.retries == 2)
        }
    }

    /// Requests that wait for a retry do not wait for the server. When other calls fail because there is no server,
    /// these requests keep waiting, and their timer stays armed.
    @Test func requestsThatWaitForARetryDoNotFailForLackOfAServer() throws {
        let options = ClientOptions { $0.reconnecting.maximumAttempts = 1 }
        let long = Backoff(base: .seconds(20), cap: .seconds(20))
        try simulate(seed: 2, options: options, handler: resetting(1)) { service, client in
            let policy = RetryPolicy.idempotent(tries: 2, backoff: long)
            let handle = client.start(ask("delayed"), timeout: .seconds(60), options: CallOptions(retry: policy))
            try await service.server.waitForRequests(1)
            service.network.refuseConnections(to: "db")
            try await service.pass(.milliseconds(500))
            let error = await failure { () throws(ClientError) in try await client.send(ask("b")) }
            #expect(error?.code == .unavailable)
            service.network.acceptConnections(to: "db")
            try await expectBody("delayed", of: handle)
            #expect(await client.metrics.retries == 1)
        }
    }
}

extension Result {
    /// The error of a failure.
    var error: Failure? {
        if case .failure(let error) = self { error } else { nil }
    }
}

/// Returns `true` a given number of times.
final class Countdown: Sendable {
    private let left: Lock<Int>

    init(_ count: Int) { left = Lock(count) }

    func next() -> Bool {
        left.withLock { left in
            left -= 1
            return left >= 0
        }
    }
}
