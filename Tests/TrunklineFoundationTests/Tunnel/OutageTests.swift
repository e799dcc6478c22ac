import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineIO
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The gateway dies with hundreds of requests under way, and comes back.
@Suite(.timeLimit(.minutes(2)))
struct OutageTests {
    private static let reads = 500
    private static let writes = 200

    private enum End: Sendable {
        case read(isRight: Bool)
        case written(Int)
        case failed(Int, URLError)
    }

    @Test func readsAreAnsweredAndWritesAreNotRepeated() async throws {
        // What the origin leaves unanswered, of what comes before the gateway is killed: those are certainly under way then.
        let isDead = Lock(false)
        let performed = Lock<[String: Int]>([:])
        let handler: @Sendable (HTTP1Request) -> Reaction = { request in
            if request.method == .post { performed.withLock { $0[request.target, default: 0] += 1 } }
            let number = Int(request.target.drop { !$0.isNumber }) ?? 0
            return number.isMultiple(of: 20) && !isDead.withLock { $0 } ? .noReply : .reply(Bytes(request.target))
        }
        let options = HTTPTunnel.Options { $0.hedgeBudget = nil }
        let wide = HTTPGateway.Options { $0.maximumConcurrency = 1000 }
        let policy = HTTPTunnel.Policy.preferLink(hedgeAfter: .seconds(3600))
        try await Tunnelled.with(handler, policy: policy, options: options, gateway: wide) { setup in
            var ends: [End] = []
            try await withThrowingTaskGroup(of: End.self) { group in
                for number in 0..<Self.reads {
                    group.addTask { .read(isRight: try await isAnswered(setup, "/read/\(number)", "GET")) }
                }
                for number in 0..<Self.writes {
                    group.addTask {
                        do throws(URLError) {
                            _ = try await isAnswered(setup, "/write/\(number)", "POST")
                            return .written(number)
                        } catch {
                            return .failed(number, error)
                        }
                    }
                }
                try await setup.server.waitForRequests((Self.reads + Self.writes) / 2)
                try await setup.origin.server.waitForRequests(50)
                isDead.withLock { $0 = true }
                await setup.server.kill()
                for try await end in group { ends.append(end) }
            }
            check(ends, performed.withLock { $0 })
            #expect(setup.tunnel.statistics.fallbacks > 0)
            try await shareReturns(setup)
        }
    }

    private func isAnswered(_ setup: Tunnelled, _ path: String, _ method: String) async throws(URLError) -> Bool {
        let (data, _) = try await setup.tunnel.data(for: setup.request(path, method))
        return data == Data(path.utf8)
    }

    private func check(_ ends: [End], _ performed: [String: Int]) {
        var (answered, failed) = (0, 0)
        for end in ends {
            switch end {
            case .read(let isRight):
                #expect(isRight)
                answered += 1
            case .written(let number): #expect(performed["/write/\(number)"] == 1)
            case .failed(let number, let error):
                // It may have been performed, and says so.
                failed += 1
                #expect(performed["/write/\(number)", default: 0] <= 1)
                #expect(error.code == .networkConnectionLost)
                #expect((error.userInfo[NSUnderlyingErrorKey] as? ClientError)?.fate == .unknown)
            }
        }
        #expect(answered == Self.reads && ends.count == Self.reads + Self.writes)
        #expect(performed.values.allSatisfy { $0 == 1 }, "\(performed.filter { $0.value > 1 })")
        print(
            "Outage: \(Self.writes - failed) of \(Self.writes) writes answered, \(failed) failed, none performed twice"
        )
    }

    private func shareReturns(_ setup: Tunnelled) async throws {
        try await setup.server.resumeAccepting()
        try await setup.client.connect()
        let before = setup.tunnel.statistics
        for number in 0..<100 {
            let isRight = try await isAnswered(setup, "/after/\(number)", number.isMultiple(of: 2) ? "GET" : "POST")
            #expect(isRight)
        }
        let after = setup.tunnel.statistics
        #expect(after.link - before.link == 100 && after.direct == before.direct)
        #expect(after.fallbacks == before.fallbacks && after.hedges == 0)
    }
}
