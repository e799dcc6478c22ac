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

/// Requests to origins, over real sockets.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct OriginSessionTests {}

extension OriginSessionTests {
    private func get(_ url: URL, in session: OriginSession, timeout: Duration = .seconds(30)) -> OriginTransfer {
        session.begin(URLRequest(url: url), body: .none, timeout: timeout)
    }

    private func content(of transfer: OriginTransfer) async throws(URLError) -> Data {
        var content = Data()
        while let piece = try await transfer.next() { content += piece }
        return content
    }

    @Test func theHeadArrivesBeforeTheBody() async throws {
        let session = OriginSession()
        try await Origin.with({ _ in .sequence([.part("tea"), .after(.seconds(3600), .reply(""))]) }) { origin in
            let transfer = get(origin.url("/"), in: session)
            let found1 = try await transfer.response.statusCode
            #expect(found1 == 200)
            let found2 = try await transfer.next()
            #expect(found2 == Data("tea".utf8))
            transfer.cancel()
            let error = await urlError { _ = try await transfer.next() }
            #expect(error?.code == .cancelled)
        }
    }

    @Test func aRedirectIsNotFollowed() async throws {
        let session = OriginSession()
        try await Origin.with({ _ in .response(302, ["Location": "/other"], "gone") }) { origin in
            let transfer = get(origin.url("/"), in: session)
            let response = try await transfer.response
            #expect(response.statusCode == 302 && response.value(forHTTPHeaderField: "Location") == "/other")
            let found3 = try await content(of: transfer)
            #expect(found3 == Data("gone".utf8))
            #expect(await origin.server.journal.requestCount == 1)
        }
    }

    @Test(arguments: [200, 204, 301, 304, 401, 404, 500])
    func statusesArriveUnchanged(status: Int) async throws {
        let session = OriginSession()
        try await Origin.with({ _ in .response(status, ["X-A": "1"]) }) { origin in
            let transfer = get(origin.url("/"), in: session)
            let response = try await transfer.response
            #expect(response.statusCode == status && response.value(forHTTPHeaderField: "x-a") == "1")
            let found4 = try await content(of: transfer)
            #expect(found4.isEmpty)
        }
    }

    /// On Linux, such a request used never to end.
    @Test(arguments: ["Basic realm=\"a\"", "Digest realm=\"a\", nonce=\"b\"", "Bearer"], [2, 3_000_000])
    func aChallengeIsAResponse(challenge: String, count: Int) async throws {
        let session = OriginSession()
        let body = pattern(count)
        try await Origin.with({ _ in .response(401, ["WWW-Authenticate": challenge], Bytes(body)) }) { origin in
            for _ in 0..<3 {
                let transfer = get(origin.url("/"), in: session)
                let response = try await transfer.response
                #expect(response.statusCode == 401)
                #expect(response.value(forHTTPHeaderField: "WWW-Authenticate") == challenge)
                let found = try await content(of: transfer)
                #expect(found == body)
            }
        }
    }

    @Test func nothingIsKeptBetweenRequests() async throws {
        let session = OriginSession()
        let fields: HTTP1Headers = ["Set-Cookie": "a=1; Path=/", "Cache-Control": "max-age=3600"]
        try await Origin.with({ .response(200, fields, Bytes($0.headers["Cookie"] ?? "none")) }) { origin in
            for _ in 0..<2 {
                let found = try await content(of: get(origin.url("/"), in: session))
                #expect(found == Data("none".utf8))
            }
            #expect(await origin.server.journal.requestCount == 2)
        }
    }

    @Test func anOriginThatIsDownIsAnError() async throws {
        let session = OriginSession()
        let transfer = get(refusingURL, in: session)
        let error = await urlError { _ = try await transfer.response }
        #expect(error?.code == .cannotConnectToHost)
        let again = await urlError { _ = try await transfer.next() }
        #expect(again?.code == .cannotConnectToHost)
    }

    @Test func aSlowOriginTimesOut() async throws {
        let session = OriginSession()
        try await Origin.with({ _ in .noReply }) { origin in
            let transfer = get(origin.url("/"), in: session, timeout: .milliseconds(10))
            let error = await urlError { _ = try await transfer.response }
            #expect(error?.code == .timedOut)
        }
    }

    @Test func cancellingTheTaskEndsTheLinkToTheOrigin() async throws {
        let session = OriginSession()
        try await Origin.with({ $0.target == "/body" ? .part("tea") : .noReply }) { origin in
            for path in ["/head", "/body"] {
                let transfer = get(origin.url(path), in: session)
                let reading = Task { () async throws -> Void in
                    _ = try await transfer.response
                    _ = try await content(of: transfer)
                }
                try await origin.server.waitForRequests(path == "/head" ? 1 : 2)
                reading.cancel()
                let error = await urlError { try await reading.value }
                #expect(error?.code == .cancelled)
                try await origin.server.wait(within: patience) { $0.connectionCount == 0 }
            }
        }
    }

    @Test func aSlowReaderHoldsOneMebibyte() async throws {
        let session = OriginSession()
        let content = pattern(1_000_003)
        let parts = Array(repeating: Bytes(content), count: 32)
        try await Origin.with({ _ in .parts(parts, then: .reply("")) }) { origin in
            let transfer = get(origin.url("/"), in: session)
            _ = try await transfer.response
            // Nothing is read before the whole body has arrived.
            while transfer.isRunning {
                #expect(transfer.held.memory <= 1024 * 1024)
                try await Task.sleep(for: .milliseconds(1))
            }
            #expect(transfer.held.memory + transfer.held.file == 32 * content.count)
            var left = Data()
            var count = 0
            while let piece = try await transfer.next() {
                left += piece
                while left.count >= content.count {
                    #expect(left.prefix(content.count) == content)
                    left = left.dropFirst(content.count)
                    count += 1
                }
            }
            #expect(count == 32 && left.isEmpty)
        }
    }

    @Test func aBodyThatExceedsTheSpoolFails() async throws {
        var options = OriginSession.Options()
        (options.memory, options.maximumSpooled) = (1000, 100_000)
        let session = OriginSession(options)
        try await Origin.with({ _ in .endlessParts(Bytes(pattern(50_000))) }) { origin in
            let transfer = get(origin.url("/"), in: session)
            _ = try await transfer.response
            try await origin.server.wait(within: patience) { $0.connectionCount == 0 }
            let error = await urlError { _ = try await content(of: transfer) }
            #expect(error?.code == .dataLengthExceedsMaximum)
        }
    }

    @Test func bodiesAreSent() async throws {
        let session = OriginSession()
        let content = pattern(3_000_000)
        let file = try TemporaryFile(in: NSTemporaryDirectory(), isNamed: true)
        try unsafe content.withUnsafeBytes { bytes in unsafe try file.write(bytes, at: 0) }
        let bodies = [OriginBody.data(content), .file(file), .userFile(URL(fileURLWithPath: file.path)), .data(Data())]
        try await Origin.with({ .reply($0.body) }) { origin in
            var request = URLRequest(url: origin.url("/"))
            request.httpMethod = "POST"
            for (index, body) in bodies.enumerated() {
                let transfer = session.begin(request, body: body, timeout: .seconds(30))
                let found5 = try await transfer.response.statusCode
                #expect(found5 == 200)
                let found6 = try await self.content(of: transfer)
                #expect(found6 == (index == 3 ? Data() : content))
            }
        }
    }

    @Test func aHundredConcurrentTransfersKeepTheirContent() async throws {
        let session = OriginSession()
        try await Origin.with({ .reply(Bytes(pattern(100_000, seed: UInt64($0.target.dropFirst()) ?? 0))) }) { origin in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for seed in 0..<100 as Range<UInt64> {
                    group.addTask {
                        let transfer = get(origin.url("/\(seed)"), in: session)
                        _ = try await transfer.response
                        return try await content(of: transfer) == pattern(100_000, seed: seed)
                    }
                }
                for try await isRight in group { #expect(isRight) }
            }
        }
    }
}
