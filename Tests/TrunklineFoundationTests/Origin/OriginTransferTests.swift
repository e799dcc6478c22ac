import Foundation
import Testing
import Trunkline
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineFoundation
@testable import TrunklineLoopback

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// What happens to a request between its beginning and its end: it is cancelled, repeated, or outlives its session.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct OriginTransferTests {}

extension OriginTransferTests {
    private func request(_ url: URL, _ method: String = "GET") -> URLRequest {
        var request = URLRequest(url: url)
        request.httpMethod = method
        return request
    }

    private func content(of transfer: OriginTransfer) async throws(URLError) -> Data {
        var content = Data()
        while let piece = try await transfer.next() { content += piece }
        return content
    }

    /// Returns when all work queued on `queue` has been done.
    private func flush(_ queue: DispatchQueue) async {
        await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
    }

    // MARK: Cancelled requests

    /// On Linux, answering a redirect after the task was cancelled ends the process.
    @Test func aCancelledRedirectIsNotAnswered() async throws {
        let calls = DispatchQueue(label: "test.calls")
        let transfers = OriginTransfers(calls)
        // As in `OriginSession`: on Linux, a session with a cache sometimes traps when its tasks are cancelled early.
        let configuration = URLSessionConfiguration.ephemeral
        configuration.urlCache = nil
        let session = URLSession(configuration: configuration, delegate: transfers, delegateQueue: nil)
        defer { session.finishTasksAndInvalidate() }
        try await Origin.with({ _ in .noReply }) { origin in
            for isGivenUp in [false, true] {
                let spool = BodySpool(memory: 1000, limit: 1000)
                let transfer = OriginTransfer(spool, keeping: .none, on: calls)
                let request = request(origin.url("/"))
                calls.async { transfers.begin(transfer, request, in: session) }
                await flush(calls)
                let tasks = await withCheckedContinuation { continuation in
                    session.getAllTasks { continuation.resume(returning: $0) }
                }
                let task = try #require(tasks.first)
                let found = HTTPURLResponse(url: origin.url("/"), statusCode: 302, httpVersion: nil, headerFields: nil)
                if isGivenUp { transfer.cancel() }
                let isAnswered = Lock(false)
                transfers.urlSession(
                    session,
                    task: task,
                    willPerformHTTPRedirection: try #require(found),
                    newRequest: request
                ) { _ in isAnswered.withLock { $0 = true } }
                await flush(calls)
                #expect(isAnswered.withLock { $0 } == !isGivenUp)
                transfer.cancel()
                let error = await urlError { _ = try await transfer.response }
                #expect(error?.code == .cancelled)
                try await origin.server.wait(within: patience) { $0.connectionCount == 0 }
            }
        }
    }

    @Test func redirectsMayBeCancelledAtAnyMoment() async throws {
        let session = OriginSession()
        try await Origin.with({ _ in .response(302, ["Location": "/other"], "gone") }) { origin in
            for round in 0..<300 {
                let transfer = session.begin(request(origin.url("/")), body: .none, timeout: .seconds(30))
                for _ in 0..<round { await Task.yield() }
                transfer.cancel()
            }
            let last = session.begin(request(origin.url("/")), body: .none, timeout: .seconds(30))
            let status = try await last.response.statusCode
            #expect(status == 302)
        }
    }

    @Test func aRequestCancelledAtOnceIsNotStarted() async throws {
        let session = OriginSession()
        try await Origin.with({ .reply($0.body) }) { origin in
            session.calls.suspend()
            for method in ["GET", "POST"] {
                for _ in 0..<10 {
                    session.begin(request(origin.url("/"), method), body: .none, timeout: .seconds(30)).cancel()
                }
            }
            session.calls.resume()
            let transfer = session.begin(request(origin.url("/"), "POST"), body: .none, timeout: .seconds(30))
            _ = try await transfer.response
            #expect(await origin.server.totalConnections == 1)
        }
    }

    // MARK: Repeated requests

    /// libcurl used to send such a request again if the connection had been used before.
    @Test(arguments: ["GET", "POST"])
    func aRequestThatIsNotIdempotentIsSentOnce(first: String) async throws {
        let session = OriginSession()
        let isLater = Lock(false)
        try await Origin.with({ _ in
            isLater.withLock { isLater in
                defer { isLater = true }
                return isLater ? .close : .reply("tea")
            }
        }) { origin in
            let before = session.begin(request(origin.url("/"), first), body: .none, timeout: .seconds(30))
            let found = try await content(of: before)
            #expect(found == Data("tea".utf8))
            let transfer = session.begin(request(origin.url("/"), "POST"), body: .none, timeout: .seconds(30))
            let error = await urlError { _ = try await transfer.response }
            #expect(error != nil && error?.code != .timedOut && !transfer.isUnsent)
            #expect(await origin.server.journal.requestCount == 2)
        }
    }

    /// libcurl sent the request again without its body, which it could not read twice, and waited.
    @Test func aRequestWithABodyIsNotRepeatedWithoutIt() async throws {
        let session = OriginSession()
        try await Origin.with({ $0.method == .get ? .reply("tea") : .close }) { origin in
            let before = session.begin(request(origin.url("/")), body: .none, timeout: .seconds(200))
            _ = try await content(of: before)
            let body = OriginBody.data(Data("tea".utf8))
            let transfer = session.begin(request(origin.url("/"), "PUT"), body: body, timeout: .seconds(200))
            let error = await urlError { _ = try await transfer.response }
            #expect(error != nil && error?.code != .timedOut)
            #expect(await origin.server.journal.requestCount == 2)
        }
    }

    /// One address of the name refuses; the other accepts the request and closes. On Linux the error is
    /// `cannotConnectToHost`.
    @Test(arguments: AddressFamily.allCases)
    func aRequestThatOneAddressMayHaveAcceptedIsNotUnsent(live: AddressFamily) async throws {
        let session = OriginSession()
        try await HalfDeadName.with(live: live, { _ in .close }) { server, url in
            for body in [OriginBody.none, .data(Data("tea".utf8))] {
                let transfer = session.begin(request(url, "POST"), body: body, timeout: .seconds(30))
                let error = await urlError { _ = try await transfer.response }
                #expect(error != nil && !transfer.isUnsent)
            }
            #expect(await server.journal.requestCount == 2)
        }
    }

    @Test func aRequestThatNoServerAcceptedIsUnsent() async throws {
        let session = OriginSession()
        let body = OriginBody.data(Data("tea".utf8))
        let transfer = session.begin(request(refusingURL, "POST"), body: body, timeout: .seconds(30))
        let error = await urlError { _ = try await transfer.response }
        #expect(error?.code == .cannotConnectToHost && transfer.isUnsent)
    }

    // MARK: Connections with one request each

    @Test func connectionsWithOneRequestEachAreLimited() async throws {
        var options = OriginSession.Options()
        options.maximumConnectionsPerHost = 2
        let session = OriginSession(options)
        let gate = AsyncStream<Void>.makeStream()
        let slow = Reaction.perform { exchange in
            for await _ in gate.stream {}
            try await exchange.reply("tea")
        }
        try await Origin.with({ _ in slow }) { origin in
            let transfers = (0..<20).map { _ in
                session.begin(request(origin.url("/"), "POST"), body: .none, timeout: .seconds(200))
            }
            try await origin.server.waitForRequests(2)
            await flush(session.calls)
            #expect(await origin.server.totalConnections == 2)
            // Requests to another origin do not wait for these.
            let other = session.begin(request(refusingURL, "POST"), body: .none, timeout: .seconds(200))
            let error = await urlError { _ = try await other.response }
            #expect(error?.code == .cannotConnectToHost)
            for transfer in transfers[10...] { transfer.cancel() }
            gate.continuation.finish()
            for transfer in transfers[..<10] {
                let found = try await content(of: transfer)
                #expect(found == Data("tea".utf8))
            }
            #expect(await origin.server.journal.requestCount == 10)
            // All places are free again.
            let last = session.begin(request(origin.url("/"), "POST"), body: .none, timeout: .seconds(200))
            let found = try await content(of: last)
            #expect(found == Data("tea".utf8))
        }
    }

    @Test(arguments: ["GET", "POST"])
    func aTransferOutlivesItsSession(method: String) async throws {
        let gate = AsyncStream<Void>.makeStream()
        let slow = Reaction.perform { exchange in
            try await exchange.part("te")
            for await _ in gate.stream {}
            try await exchange.reply("a")
        }
        try await Origin.with({ _ in slow }) { origin in
            var session: OriginSession? = OriginSession()
            let calls = try #require(session?.calls)
            let begun = session?.begin(request(origin.url("/"), method), body: .none, timeout: .seconds(200))
            let transfer = try #require(begun)
            _ = try await transfer.response
            session = nil
            await flush(calls)
            gate.continuation.finish()
            let found = try await content(of: transfer)
            #expect(found == Data("tea".utf8))
            // The session is deallocated too, with its connections.
            try await origin.server.wait(within: patience) { $0.connectionCount == 0 }
        }
    }
}
