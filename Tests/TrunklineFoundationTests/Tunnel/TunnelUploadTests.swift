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

/// Uploads whose source, link or gateway stalls.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct TunnelUploadTests {}

extension TunnelUploadTests {
    /// A gate at which a stream waits.
    private final class Gate: Sendable {
        let opening = DispatchSemaphore(value: 0)
        let isUsed = Lock(false)
        let stalled = AsyncStream<Void>.makeStream()
        let closed = AsyncStream<Void>.makeStream()

        /// Ends the read that waits, and returns when the stream is closed. Returns at once if the stream was never
        /// opened: a request that ends early need not open it.
        func open() async {
            opening.signal()
            guard isUsed.withLock({ $0 }) else { return }
            for await _ in closed.stream { break }
        }
    }

    /// A stream that delivers some bytes, and then nothing until its gate opens.
    private final class StalledStream: InputStream {
        private var left: Int
        private let gate: Gate

        init(after count: Int, at gate: Gate) {
            (left, self.gate) = (count, gate)
            super.init(data: Data())
        }

        override func open() { gate.isUsed.withLock { $0 = true } }

        override func close() { gate.closed.continuation.yield() }

        override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength size: Int) -> Int {
            let count = min(left, size)
            left -= count
            if count == 0 {
                gate.stalled.continuation.yield()
                gate.opening.wait()
            }
            unsafe buffer.initialize(repeating: 65, count: count)
            return count
        }
    }

    /// Sends a stream that stalls after 100,000 bytes.
    private func upload(stallingAt gate: Gate, _ setup: Tunnelled, timeout: Double = 200) async throws -> URLResponse {
        var request = setup.request("/", "POST")
        request.httpBodyStream = StalledStream(after: 100_000, at: gate)
        request.timeoutInterval = timeout
        return try await setup.tunnel.data(for: request).1
    }

    /// Cancellation used to wait for the stream, and so for ever.
    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func aStalledStreamDoesNotDelayCancellation(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ _ in .echo }, policy: policy) { setup in
            let gate = Gate()
            let asking = Task { () async throws -> Void in _ = try await self.upload(stallingAt: gate, setup) }
            // Before this the stream may not have been opened, and would not be closed.
            for await _ in gate.stalled.stream { break }
            asking.cancel()
            let error = await urlError { try await asking.value }
            #expect(error?.code == .cancelled)
            await gate.open()
            #expect(await setup.origin.server.totalConnections == 0)
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func aStalledStreamTimesOut(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ _ in .echo }, policy: policy) { setup in
            let gate = Gate()
            let error = await urlError { _ = try await self.upload(stallingAt: gate, setup, timeout: 0.1) }
            #expect(error?.code == .timedOut)
            await gate.open()
            #expect(await setup.origin.server.totalConnections == 0)
        }
    }

    @Test func aRefusalDoesNotWaitForTheSource() async throws {
        let small = HTTPGateway.Options { $0.maximumRequestBody = 1000 }
        try await Tunnelled.with({ _ in .echo }, gateway: small) { setup in
            let gate = Gate()
            let response = try await upload(stallingAt: gate, setup)
            #expect((response as? HTTPURLResponse)?.statusCode == 413)
            await gate.open()
        }
    }

    /// The frames of an upload have no timeout of their own. The last one, too, used to wait for ever.
    @Test func aGatewayThatStopsReadingTimesOut() async throws {
        try await Tunnelled.with({ _ in .echo }, atGateway: { _ in .stopReading }) { setup in
            var request = setup.request("/", "POST")
            request.timeoutInterval = 0.5
            for count in [100_000, 40_000_000] {
                let error = await urlError { [request] in
                    _ = try await setup.tunnel.upload(for: request, from: pattern(count))
                }
                #expect(error?.code == .timedOut)
                #expect((error?.userInfo[NSUnderlyingErrorKey] as? ClientError)?.fate != nil)
            }
            // A client that closes would wait until its frames are written.
            await setup.server.disconnectAll(reset: true)
        }
    }

    /// An `AsyncStream` ends when its reader is cancelled. The bytes before the end used to be sent as a complete body.
    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func aCancelledSourceIsNotAShorterBody(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ .reply($0.body) }, policy: policy) { setup in
            for _ in 0..<20 {
                let (pieces, source) = AsyncStream<Data>.makeStream()
                source.yield(Data("tea".utf8))
                let asking = Task { () async throws -> Void in
                    _ = try await setup.tunnel.upload(for: setup.request("/", "POST"), from: pieces)
                }
                await Task.yield()
                asking.cancel()
                let error = await urlError { try await asking.value }
                #expect(error?.code == .cancelled)
            }
            _ = try await setup.tunnel.data(for: setup.request("/"))
            #expect(await setup.origin.server.journal.requestCount == 1)
        }
    }

    /// The part that waited was not sent, but the parts before it were. The request used to be repeated directly.
    @Test func theFateOfAPartIsNotThatOfTheRequest() async throws {
        let policy = HTTPTunnel.Policy.preferLink(hedgeAfter: .seconds(3600))
        let content = pattern(10_000_000)
        for _ in 0..<10 {
            try await Tunnelled.with({ _ in .reply("tea") }, policy: policy, atGateway: { _ in .noReply }) { setup in
                try await withThrowingTaskGroup(of: URLError?.self) { group in
                    // Several uploads, so that some parts wait for those of others.
                    for _ in 0..<8 {
                        group.addTask {
                            await urlError {
                                _ = try await setup.tunnel.upload(for: setup.request("/", "POST"), from: content)
                            }
                        }
                    }
                    try await setup.server.wait(within: patience) { journal in
                        journal.received.count > 40 && Set(journal.received.map(\.serial)).count == 8
                    }
                    await setup.server.disconnectAll(reset: true)
                    for try await error in group {
                        #expect(error?.code == .networkConnectionLost)
                        #expect((error?.userInfo[NSUnderlyingErrorKey] as? ClientError)?.fate == .unknown)
                    }
                }
                #expect(await setup.origin.server.totalConnections == 0)
            }
        }
    }

    /// The client's own policy may be to retry, and used to send a POST to the gateway twice.
    @Test func aClientThatRetriesDoesNotRepeatAPost() async throws {
        var options = patientOptions
        options.requests.retry = .idempotent()
        let asked = Lock(0)
        let atGateway: @Sendable (Frame) -> Reaction? = { _ in
            let count = asked.withLock { asked in
                asked += 1
                return asked
            }
            return count.isMultiple(of: 2) ? nil : .reset
        }
        try await Tunnelled.with({ _ in .reply("tea") }, client: options, atGateway: atGateway) { setup in
            let (data, _) = try await setup.tunnel.data(for: setup.request("/"))
            #expect(data == Data("tea".utf8) && asked.withLock { $0 } == 2)
            let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/", "POST")) }
            #expect(error?.code == .networkConnectionLost && asked.withLock { $0 } == 3)
        }
    }
}
