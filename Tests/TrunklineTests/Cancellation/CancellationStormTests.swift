import Testing

@testable import TrunklineCore
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Very many requests that are cancelled at once, at a server that never answers a cancelled request, such as an LDAP
/// server, whose AbandonRequest has no response.
@Suite(.simulated, .timeLimit(.minutes(10)))
struct CancellationStormTests {}

extension CancellationStormTests {
    /// All cancel frames leave, in order and at once, and so does the next request after them. Abandoned requests hold
    /// neither it nor, as long as there are serials, the following storms.
    @Test func theNextRequestFollowsTheCancelFrames() throws {
        let count = 20_000
        var conditions = NetworkConditions()
        (conditions.sendBuffer, conditions.receiveWindow) = (128 * 1024, 128 * 1024)
        conditions.latency = .milliseconds(1)...(.milliseconds(1))
        conditions.fragmentation = 0
        // A response at the end of the requests that were received: these frames keep arriving for abandoned requests.
        let handler: LoopbackServer.Handler = { $0.body.first == 7 ? .noReply : .echo }
        try simulate(conditions: conditions, overTLS: false, handler: handler) { service, client in
            try await client.connect()
            for storm in 1...3 {
                await service.server.forget()
                let requests = (0..<count).map { _ in ask(filled(60)) }
                async let outcomes = client.send(all: requests, timeout: .never)
                // So many are written that the kernel takes no more. Most of the others wait in the client.
                try await service.pass(.microseconds(500))
                client.cancelAll()
                let began = service.now
                try await expectEcho("next", by: client)
                #expect(service.now - began < .milliseconds(20))
                var fates: [ClientError.Fate: Int] = [:]
                for case .failure(let error) in await outcomes { fates[error.fate, default: 0] += 1 }
                let started = fates[.unknown] ?? 0
                #expect(started > 1000 && fates[.notSent] == count - started)
                // The requests that had started, then their cancel frames in the same order, then the next request.
                let received = await service.server.received
                let serials = received.prefix(started).map(\.serial)
                #expect(received.prefix(started).allSatisfy { $0.kind == .request } && serials == serials.sorted())
                #expect(received.dropFirst(started).prefix(started).allSatisfy { $0.kind == .cancel })
                #expect(received.dropFirst(started).prefix(started).map(\.serial) == serials)
                #expect(received.dropFirst(2 * started).map(\.body) == ["next"])
                // No answer frees a serial: they are held for the quarantine.
                let metrics = await client.metrics
                #expect(metrics.abandoned == metrics.heldSerials && metrics.abandoned > 1000 * storm)
                #expect(metrics.connection.links == 1 && metrics.waiting.total == 0)
            }
        }
    }
}
