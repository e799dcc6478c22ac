import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineLoopback

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Which route requests take when the link is down, slow, or lost.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct FallbackTests {}

extension FallbackTests {
    /// Longer than any test.
    private static let never = HTTPTunnel.Policy.preferLink(hedgeAfter: .seconds(3600))
    private static let always = HTTPTunnel.Policy.preferLink(hedgeAfter: .zero)

    private static func options(budget: Int) -> HTTPTunnel.Options {
        HTTPTunnel.Options { options in
            var account = RetryBudget()
            (account.share, account.perSecond, account.initial) = (0, 0, budget)
            options.hedgeBudget = account
        }
    }

    private func post(_ setup: Tunnelled) async throws -> URLResponse {
        try await setup.tunnel.upload(for: setup.request("/", "POST"), from: Data("tea".utf8)).1
    }

    @Test func theLinkIsPreferred() async throws {
        try await Tunnelled.with({ _ in .reply("tea") }, policy: Self.never) { setup in
            for _ in 0..<10 { _ = try await setup.tunnel.data(for: setup.request("/")) }
            #expect(try await post(setup).route == .link)
            #expect(setup.tunnel.metrics.link == 11 && setup.tunnel.metrics.direct == 0)
        }
    }

    @Test func withoutALinkRequestsGoDirectlyUntilItIsBack() async throws {
        try await Tunnelled.with({ .reply($0.body) }, policy: Self.never, options: Self.options(budget: 0)) { setup in
            await setup.client.suspend()
            let (_, response) = try await setup.tunnel.data(for: setup.request("/"))
            #expect(response.route == .direct)
            #expect(try await post(setup).route == .direct)
            let pieces = AsyncStream<Data> { stream in
                stream.yield(Data("tea".utf8))
                stream.finish()
            }
            let (data, streamed) = try await setup.tunnel.upload(for: setup.request("/", "POST"), from: pieces)
            #expect(data == Data("tea".utf8) && streamed.route == .direct)
            let error = await urlError {
                var request = setup.request("/")
                request.timeoutInterval = 0.05
                _ = try await setup.tunnel.data(for: request, policy: .linkOnly)
            }
            #expect(error?.code == .timedOut)
            await setup.client.resume()
            try await setup.client.connect()
            let (_, after) = try await setup.tunnel.data(for: setup.request("/"))
            #expect(after.route == .link)
            let metrics = setup.tunnel.metrics
            #expect(metrics.fallbacks == 3 && metrics.hedges == 0 && metrics.refusedByBudget == 0)
        }
    }

    @Test func aDirectResponseCancelsTheRequestAtASlowGateway() async throws {
        // The origin responds after the gateway has received the request. Otherwise there might be nothing to cancel.
        let asked = AsyncStream<Void>.makeStream()
        let atGateway: @Sendable (Frame) -> Reaction? = { _ in
            asked.continuation.yield()
            return .noReply
        }
        let atOrigin = Reaction.perform { exchange in
            for await _ in asked.stream { break }
            try await exchange.reply("tea")
        }
        try await Tunnelled.with({ _ in atOrigin }, policy: Self.always, atGateway: atGateway) { setup in
            let (data, response) = try await setup.tunnel.data(for: setup.request("/"))
            #expect(data == Data("tea".utf8) && response.route == .direct)
            try await setup.server.waitForCancel(within: patience)
            let metrics = setup.tunnel.metrics
            #expect(metrics.hedges == 1 && metrics.hedgesWon == 1 && metrics.fallbacks == 0)
        }
    }

    @Test func aResponseOverTheLinkCancelsTheDirectRequest() async throws {
        // The gateway responds after the origin has received the direct request.
        let asked = AsyncStream<Void>.makeStream()
        let atGateway = Reaction.perform { exchange in
            for await _ in asked.stream { break }
            try await exchange.reply(Frame(.response, type: 0x403, body: "HTTP/1.1 200 OK\r\n\r\ntea"))
        }
        try await Tunnelled.with(
            { _ in
                asked.continuation.yield()
                return .noReply
            },
            policy: Self.always,
            atGateway: { _ in atGateway }
        ) { setup in
            let (_, response) = try await setup.tunnel.data(for: setup.request("/"))
            #expect(response.route == .link)
            // The slower request is cancelled at the origin.
            try await setup.origin.server.wait(within: patience) { $0.connectionCount == 0 }
            #expect(setup.tunnel.metrics.hedges == 1 && setup.tunnel.metrics.hedgesWon == 0)
        }
    }

    @Test func aRequestThatIsNotIdempotentIsNotRepeated() async throws {
        let lost: @Sendable (Frame) -> Reaction? = { _ in .reset }
        try await Tunnelled.with({ _ in .reply("tea") }, policy: Self.always, atGateway: lost) { setup in
            let error = await urlError { _ = try await self.post(setup) }
            #expect(error?.code == .networkConnectionLost)
            #expect(await setup.origin.server.journal.requestCount == 0)
            #expect((error?.userInfo[NSUnderlyingErrorKey] as? ClientError)?.fate == .unknown)
        }
    }

    @Test func anIdempotentRequestIsRepeatedWhenTheLinkIsLost() async throws {
        try await Tunnelled.with({ _ in .reply("tea") }, policy: Self.never, atGateway: { _ in .reset }) { setup in
            let (_, response) = try await setup.tunnel.data(for: setup.request("/"))
            #expect(response.route == .direct && setup.tunnel.metrics.fallbacks == 1)
        }
    }

    @Test func withoutABudgetTheLinkAloneIsUsed() async throws {
        try await Tunnelled.with(
            { _ in .reply("tea") },
            policy: Self.always,
            options: Self.options(budget: 2),
            atGateway: { _ in .noReply }
        ) { setup in
            for _ in 0..<2 { _ = try await setup.tunnel.data(for: setup.request("/")) }
            var request = setup.request("/")
            request.timeoutInterval = 5
            let error = await urlError { [request] in _ = try await setup.tunnel.data(for: request) }
            #expect(error?.code == .timedOut)
            #expect(setup.tunnel.metrics.hedges == 2 && setup.tunnel.metrics.refusedByBudget == 1)
        }
    }

    @Test func requestsThatTheGatewayRefusesGoDirectly() async throws {
        try await Tunnelled.with({ _ in .reply("tea") }, policy: Self.never, allows: false) { setup in
            let (data, response) = try await setup.tunnel.data(for: setup.request("/"))
            #expect(data == Data("tea".utf8) && response.route == .direct)
            #expect(try await post(setup).route == .direct)
            let (_, refused) = try await setup.tunnel.data(for: setup.request("/"), policy: .linkOnly)
            #expect((refused as? HTTPURLResponse)?.statusCode == 403 && refused.route == .link)
            #expect(await setup.origin.server.journal.requestCount == 2)
        }
    }

    @Test func cancellingEndsBothRoutes() async throws {
        try await Tunnelled.with({ _ in .noReply }, policy: Self.always, atGateway: { _ in .noReply }) { setup in
            let asking = Task { () async throws -> Void in _ = try await setup.tunnel.data(for: setup.request("/")) }
            try await setup.origin.server.waitForRequests(1, within: patience)
            try await setup.server.waitForRequests(1, within: patience)
            asking.cancel()
            let error = await urlError { try await asking.value }
            #expect(error?.code == .cancelled)
            try await setup.server.waitForCancel(within: patience)
            try await setup.origin.server.wait(within: patience) { $0.connectionCount == 0 }
        }
    }

    @Test func everyRequestIsAnsweredWhenTheLinkIsLost() async throws {
        // With the default options: a request that replaces one on a lost link takes nothing from the budget. Some
        // requests are certainly in flight when the link is lost.
        let isDead = Lock(false)
        let handler: @Sendable (HTTP1Request) -> Reaction = { request in
            let number = Int(request.target.dropFirst()) ?? 1
            return number.isMultiple(of: 2) && !isDead.withLock { $0 } ? .noReply : .reply(Bytes(request.target))
        }
        try await Tunnelled.with(handler, policy: Self.never) { setup in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<200 {
                    group.addTask {
                        let (data, _) = try await setup.tunnel.data(for: setup.request("/\(number)"))
                        return data == Data("/\(number)".utf8)
                    }
                }
                try await setup.server.waitForRequests(20, within: patience)
                isDead.withLock { $0 = true }
                await setup.server.disconnectAll(reset: true)
                for try await isRight in group { #expect(isRight) }
            }
            #expect(setup.tunnel.metrics.fallbacks > 0)
            try await setup.client.connect()
            let before = setup.tunnel.metrics.link
            for _ in 0..<20 { _ = try await setup.tunnel.data(for: setup.request("/")) }
            #expect(setup.tunnel.metrics.link == before + 20)
        }
    }

    /// The result used to depend on which of the two responses arrived first.
    @Test func theGatewaysResponseCountsWhenTheHedgeFailed() async throws {
        // The gateway refuses after the origin has received the direct request and closed the connection.
        let asked = AsyncStream<Void>.makeStream()
        let atGateway = Reaction.perform { exchange in
            for await _ in asked.stream { break }
            let refusal: Bytes = "HTTP/1.1 403 No\r\nTrunkline-Gateway: forbidden\r\n\r\n"
            try await exchange.reply(Frame(.response, type: 0x403, body: refusal))
        }
        let handler: @Sendable (HTTP1Request) -> Reaction = { _ in
            asked.continuation.yield()
            return .close
        }
        try await Tunnelled.with(handler, policy: Self.always, atGateway: { _ in atGateway }) { setup in
            for _ in 0..<10 {
                let (_, response) = try await setup.tunnel.data(for: setup.request("/"))
                #expect((response as? HTTPURLResponse)?.statusCode == 403 && response.route == .link)
            }
        }
    }
}
