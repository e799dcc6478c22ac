import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineLoopback

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The gateway fails with hundreds of requests in flight, and returns.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct OutageTests {}

extension OutageTests {
    private static let reads = 500
    private static let writes = 200

    /// How many of the reads, and of the writes between them, start after the gateway has failed.
    private static let late = 50

    private enum End: Sendable {
        case read(isRight: Bool)
        case written(Int)
        case failed(Int, URLError)
    }

    @Test func readsAreAnsweredAndWritesAreNotRepeated() async throws {
        // The origin does not respond to some of the requests that arrive before the gateway is killed: these are
        // certainly in flight at that time.
        let isDead = Lock(false)
        let performed = Lock<[String: Int]>([:])
        let handler: @Sendable (HTTP1Request) -> Reaction = { request in
            if request.method == .post { performed.withLock { $0[request.target, default: 0] += 1 } }
            let number = Int(request.target.drop { !$0.isNumber }) ?? 0
            return number.isMultiple(of: 20) && !isDead.withLock { $0 } ? .noReply : .reply(Bytes(request.target))
        }
        let wide = HTTPGateway.Options { $0.maximumConcurrency = 1000 }
        let policy = HTTPTunnel.Policy.preferLink(hedgeAfter: .seconds(3600))
        try await Tunnelled.with(handler, policy: policy, gateway: wide) { setup in
            var ends: [End] = []
            try await withThrowingTaskGroup(of: End.self) { group in
                for number in 0..<Self.reads - Self.late { ask(number, setup, in: &group) }
                // In the middle: some requests have their responses, and those to which the origin does not respond
                // have none.
                try await setup.server.waitForRequests(Self.reads / 2, within: patience)
                while setup.tunnel.metrics.link < Self.reads / 5 { try await Task.sleep(for: .milliseconds(1)) }
                isDead.withLock { $0 = true }
                await setup.server.kill()
                for number in Self.reads - Self.late..<Self.reads { ask(number, setup, in: &group) }
                for try await end in group { ends.append(end) }
            }
            check(ends, performed.withLock { $0 })
            #expect(setup.tunnel.metrics.fallbacks > 0)
            try await expectEveryRequestOnTheLink(setup)
        }
    }

    /// Starts a read and, evenly distributed among the reads, a write.
    private func ask(_ number: Int, _ setup: Tunnelled, in group: inout ThrowingTaskGroup<End, any Error>) {
        group.addTask { .read(isRight: try await isAnswered(setup, "/read/\(number)", "GET")) }
        guard number * Self.writes / Self.reads != (number + 1) * Self.writes / Self.reads else { return }
        let write = number * Self.writes / Self.reads
        group.addTask {
            do throws(URLError) {
                _ = try await isAnswered(setup, "/write/\(write)", "POST")
                return .written(write)
            } catch {
                return .failed(write, error)
            }
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
                // The write may have been performed, and the error says so.
                failed += 1
                #expect(performed["/write/\(number)", default: 0] <= 1)
                #expect(error.code == .networkConnectionLost)
                #expect((error.userInfo[NSUnderlyingErrorKey] as? ClientError)?.fate == .unknown)
            }
        }
        #expect(failed < Self.writes)
        #expect(answered == Self.reads && ends.count == Self.reads + Self.writes)
        #expect(performed.values.allSatisfy { $0 == 1 }, "\(performed.filter { $0.value > 1 })")
        print(
            "Outage: \(Self.writes - failed) of \(Self.writes) writes answered, \(failed) failed, none performed twice"
        )
    }

    private func expectEveryRequestOnTheLink(_ setup: Tunnelled) async throws {
        try await setup.server.resumeAccepting()
        try await setup.client.connect()
        let before = setup.tunnel.metrics
        for number in 0..<100 {
            let isRight = try await isAnswered(setup, "/after/\(number)", number.isMultiple(of: 2) ? "GET" : "POST")
            #expect(isRight)
        }
        let after = setup.tunnel.metrics
        #expect(after.link - before.link == 100 && after.direct == before.direct)
        #expect(after.fallbacks == before.fallbacks && after.hedges == 0)
    }
}
