import Synchronization
import Testing
import Trunkline
import TrunklineHTTP

@testable import TrunklineTelemetry
@testable import TrunklineTesting

/// The exporter against a collector in a simulated network.
@Suite(.tags(.simulated), .serialized, .timeLimit(.minutes(5)))
struct OTLPExporterTests {}

extension OTLPExporterTests {
    /// Runs an exporter for `duration` of virtual time, every 10 s, and returns the requests that the collector
    /// received, and the failures.
    private func reports(
        for duration: Duration,
        _ answer: @escaping @Sendable (Int) -> Reaction
    ) throws -> (requests: [HTTP1Request], failures: [OTLPExporter.Failure], end: Duration) {
        let network = SimulatedNetwork(seed: 1)
        let received = Mutex<[HTTP1Request]>([])
        let failures = Mutex<[OTLPExporter.Failure]>([])
        let end = Mutex<Duration>(.zero)
        try network.runBlocking {
            let codec = HTTP1Codec(host: "collector")
            let server = try await network.startServer(at: "collector:4318", speaking: codec) { frame in
                guard let request = try? HTTP1Request(frame) else { return .reset }
                return answer(
                    received.withLock {
                        $0.append(request)
                        return $0.count
                    }
                )
            }
            let exporter = OTLPExporter(
                to: "collector:4318",
                headers: ["Authorization": "secret"],
                resource: ["service.name": "shop"],
                every: .seconds(10),
                on: network.loops,
                clock: network.clock,
                now: { 1_000_000_000 },
                onFailure: { failure in failures.withLock { $0.append(failure) } },
                snapshots: { [sampleSnapshot()] }
            )
            await withTaskGroup { tasks in
                tasks.addTask { await exporter.run() }
                try? await network.clock.sleep(for: duration)
                tasks.cancelAll()
            }
            end.withLock { $0 = network.clock.now.offset }
            await server.stop()
        }
        #expect(network.openLinks == 0)
        return (received.withLock { $0 }, failures.withLock { $0 }, end.withLock { $0 })
    }

    private static func status(_ status: Int) -> Reaction {
        (try? HTTP1Response(status, body: "{}").frame()).map { .reply($0) } ?? .reset
    }

    @Test func itReportsAtOnceAfterEveryIntervalAndAtTheEnd() throws {
        let (requests, failures, end) = try reports(for: .seconds(25)) { _ in Self.status(200) }
        #expect(requests.count == 4 && failures.isEmpty && end < .seconds(26))
        let request = try #require(requests.last)
        #expect(request.method == .post && request.target == "/v1/metrics")
        #expect(request.headers["host"] == "collector:4318" && request.headers["authorization"] == "secret")
        #expect(request.headers["content-type"] == "application/json")
        let expected = OTLPRequest.json(
            of: [sampleSnapshot()],
            resource: ["service.name": "shop"],
            from: 1_000_000_000,
            at: 1_000_000_000
        )
        #expect(request.body == Bytes(expected))
    }

    @Test func aRefusedReportIsAFailureAndNotRepeated() throws {
        let (requests, failures, _) = try reports(for: .seconds(15)) { Self.status($0 == 2 ? 503 : 200) }
        #expect(requests.count == 3)
        #expect(failures.map(\.status) == [503])
        #expect(failures.first?.description == "metrics were not exported: the collector answered with status 503")
    }

    /// Each report has 10 s, so one is on its way at a time. The last one has a second: a program used to end 10 s late.
    @Test func reportsDoNotPileUpAtACollectorThatHangs() throws {
        let (requests, failures, end) = try reports(for: .seconds(65)) { _ in .noReply }
        #expect(requests.count >= 6 && requests.count <= 8)
        // The first, second and fourth, and at the end those that followed.
        #expect(failures.map(\.count).prefix(3) == [1, 1, 2] && failures.map(\.count).reduce(0, +) >= 6)
        #expect(failures.count == 4 && failures.allSatisfy { $0.error?.code == .timedOut })
        #expect(end <= .seconds(66))
    }

    @Test func failuresOfOneKindAreSummed() throws {
        let (requests, failures, _) = try reports(for: .seconds(1005)) { number in
            // Every second one of the first 40, then 40 that arrive.
            Self.status(number > 80 || number <= 40 && number.isMultiple(of: 2) ? 503 : 200)
        }
        #expect(requests.count == 102)
        // 20 failures, and then 22.
        #expect(failures.map(\.count) == [1, 1, 2, 4, 8, 4, 1, 1, 2, 4, 8, 6])
        #expect(failures.last?.description.hasPrefix("6 reports of metrics were not exported: ") == true)
    }
}
