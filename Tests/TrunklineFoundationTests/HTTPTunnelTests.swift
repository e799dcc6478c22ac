import Foundation
import Synchronization
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// HTTP over a link, through a gateway, to an origin.
@Suite(.timeLimit(.minutes(2)))
struct HTTPTunnelTests {
    // MARK: Requests and answers

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func anAnswerComesWithItsFields(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with(
            { request in
                let fields: HTTP1Headers = [
                    "X-Method": request.method.name, "X-A": request.headers["x-a"] ?? "", "Trunkline-X": "1",
                ]
                return .response(200, fields, Bytes("\(request.target)"))
            },
            policy: policy
        ) { setup in
            for path in ["/", "/a%20b?x=%C3%A9&y", "//a", "/?"] {
                let request = setup.request(path, "GET", ["X-A": "tea, \"milk\"", "Connection": "X-B", "X-B": "1"])
                let (data, response) = try await setup.tunnel.data(for: request)
                let head = try #require(response as? HTTPURLResponse)
                #expect(String(decoding: data, as: UTF8.self) == path)
                #expect(head.statusCode == 200 && head.value(forHTTPHeaderField: "X-Method") == "GET")
                #expect(head.value(forHTTPHeaderField: "X-A") == "tea, \"milk\"")
                #expect(response.route == (policy == .linkOnly ? .link : .direct))
                #expect(policy == .directOnly || head.value(forHTTPHeaderField: "Trunkline-X") == nil)
            }
            let received = try await setup.origin.server.journal.requests.map { try HTTP1Request($0) }
            #expect(received.allSatisfy { $0.headers["X-B"] == nil && $0.headers["Trunkline-Window"] == nil })
        }
    }

    @Test(
        arguments: [HTTPTunnel.Policy.linkOnly, .directOnly],
        ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
    )
    func methodsAndStatusesComeAsTheyAre(policy: HTTPTunnel.Policy, method: String) async throws {
        try await Tunnelled.with(
            { .response(Int($0.target.dropFirst()) ?? 0, ["X-M": $0.method.name], $0.target == "/204" ? "" : "tea") },
            policy: policy
        ) {
            setup in
            for status in [200, 404, 500, 401] {
                let (data, response) = try await setup.tunnel.data(for: setup.request("/\(status)", method))
                let head = try #require(response as? HTTPURLResponse)
                #expect(head.statusCode == status && head.value(forHTTPHeaderField: "X-M") == method)
                #expect(data == (method == "HEAD" ? Data() : Data("tea".utf8)))
                #expect(head.value(forHTTPHeaderField: "Content-Length") == "3")
            }
        }
    }

    @Test(arguments: [204, 304]) func statusesWithoutContentHaveNone(status: Int) async throws {
        try await Tunnelled.with({ _ in .response(status, ["ETag": "\"a\""]) }) { setup in
            let (data, response) = try await setup.tunnel.data(for: setup.request("/"))
            #expect((response as? HTTPURLResponse)?.statusCode == status && data.isEmpty)
        }
    }

    // MARK: Bodies

    @Test(arguments: [0, 1, 16_383, 16_384, 65_536, 65_537, 5_000_000])
    func contentOfEverySizeComesWhole(count: Int) async throws {
        let content = pattern(count)
        var options = HTTPTunnel.Options()
        options.window = 64 * 1024
        try await Tunnelled.with(
            { $0.target == "/parts" ? .parts([Bytes(content)], then: .reply("")) : .reply(Bytes(content)) },
            options: options
        ) {
            setup in
            for path in ["/whole", "/parts"] {
                let (data, _) = try await setup.tunnel.data(for: setup.request(path))
                #expect(data == content)
                let (body, _) = try await setup.tunnel.bytes(for: setup.request(path))
                var read = Data()
                for try await piece in body { read += piece }
                #expect(read == content)
            }
            let (file, _) = try await setup.tunnel.download(for: setup.request("/whole"))
            #expect(try Data(contentsOf: file) == content)
            try FileManager.default.removeItem(at: file)
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly], [0, 1, 65_536, 65_537, 3_000_000])
    func bodiesAreSentWhole(policy: HTTPTunnel.Policy, count: Int) async throws {
        let content = pattern(count)
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("trunkline-\(UUID().uuidString)")
        try content.write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        try await Tunnelled.with({ .reply($0.body) }, policy: policy) { setup in
            let request = setup.request("/", "POST")
            let pieces = AsyncStream<Data> { stream in
                for start in stride(from: 0, to: count, by: 100_000) {
                    stream.yield(content.subdata(in: start..<min(count, start + 100_000)))
                }
                stream.finish()
            }
            var withBody = request
            withBody.httpBody = content
            var withStream = request
            withStream.httpBodyStream = InputStream(data: content)
            let answers = [
                try await setup.tunnel.upload(for: request, from: content),
                try await setup.tunnel.upload(for: request, fromFile: file),
                try await setup.tunnel.upload(for: request, from: pieces),
                try await setup.tunnel.data(for: withBody),
                try await setup.tunnel.data(for: withStream),
            ]
            for (data, _) in answers { #expect(data == content) }
        }
    }

    @Test func aSlowReaderHoldsUpNobodyElse() async throws {
        let content = pattern(3_000_000)
        try await Tunnelled.with({ $0.target == "/large" ? .reply(Bytes(content)) : .reply("tea") }) { setup in
            let (body, _) = try await setup.tunnel.bytes(for: setup.request("/large"))
            for _ in 0..<50 {
                let (data, _) = try await setup.tunnel.data(for: setup.request("/"))
                #expect(data == Data("tea".utf8))
            }
            var read = Data()
            for try await piece in body { read += piece }
            #expect(read == content)
        }
    }

    // MARK: Redirects and cookies

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func redirectsAreFollowed(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with(
            { request in
                if let status = Int(request.target.dropFirst()) {
                    return .response(status, ["Location": "end?\(status)"], "moved")
                }
                return .response(
                    200,
                    [:],
                    Bytes(
                        "\(request.method) \(request.target) \(String(request.body)) \(request.headers["Authorization"] ?? "")"
                    )
                )
            },
            policy: policy
        ) { setup in
            for (status, said) in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")] {
                let request = setup.request("/\(status)", "POST", ["Authorization": "a"])
                let (data, response) = try await setup.tunnel.upload(for: request, from: Data("tea".utf8))
                #expect(
                    String(decoding: data, as: UTF8.self) == "\(said) /end?\(status) \(said == "POST" ? "tea" : "") a"
                )
                #expect(response.url == setup.origin.url("/end?\(status)"))
            }
            let (_, response) = try await setup.tunnel.data(for: setup.request("/303", "HEAD"))
            #expect((response as? HTTPURLResponse)?.statusCode == 200)
        }
    }

    @Test func redirectsWithoutEndAreAnError() async throws {
        try await Tunnelled.with({ _ in .response(302, ["Location": "/"]) }) { setup in
            let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/")) }
            #expect(error?.code == .httpTooManyRedirects)
            #expect(await setup.origin.server.journal.requestCount == 21)
        }
    }

    @Test func credentialsStayWithTheirOrigin() async throws {
        try await Origin.with({ .reply(Bytes($0.headers["Authorization"] ?? "none")) }) { other in
            let elsewhere = other.url("/").absoluteString
            try await Tunnelled.with({ _ in .response(307, ["Location": elsewhere]) }, policy: .directOnly) { setup in
                let (data, _) = try await setup.tunnel.data(for: setup.request("/", "GET", ["Authorization": "secret"]))
                #expect(data == Data("none".utf8))
            }
        }
    }

    @Test func cookiesAreKeptWhereTheyShall() async throws {
        var options = HTTPTunnel.Options()
        options.cookieStorage = URLSessionConfiguration.ephemeral.httpCookieStorage
        try await Tunnelled.with(
            { .response(200, ["Set-Cookie": "a=1; Path=/"], Bytes($0.headers["Cookie"] ?? "none")) },
            options: options
        ) {
            setup in
            for expected in ["none", "a=1"] {
                let (data, _) = try await setup.tunnel.data(for: setup.request("/"))
                #expect(String(decoding: data, as: UTF8.self) == expected)
            }
            var without = setup.request("/")
            without.httpShouldHandleCookies = false
            let (data, _) = try await setup.tunnel.data(for: without)
            #expect(data == Data("none".utf8))
        }
    }

    // MARK: Errors

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func whatCannotBeAskedIsRefused(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ _ in .echo }, policy: policy) { setup in
            for (text, code) in [
                ("ftp://a/", URLError.Code.unsupportedURL), ("http:///a", .badURL), ("file:///a", .unsupportedURL),
            ] {
                let error = await urlError { _ = try await setup.tunnel.data(from: try #require(URL(string: text))) }
                #expect(error?.code == code, "\(text)")
            }
            var request = setup.request("/")
            request.httpBody = Data("a".utf8)
            let withBody = await urlError { _ = try await setup.tunnel.data(for: request) }
            #expect(withBody?.code == .dataLengthExceedsMaximum)
            // What the URLRequest itself lets pass is refused, or goes without that field.
            for (name, value) in [
                ("X", "a\r\nY: b"), ("X\r\nY", "a"), ("X Y", "a"), ("X", "a\u{0}b"), ("X", "a\nHost: b"),
            ] {
                let error = await urlError {
                    _ = try await setup.tunnel.data(for: setup.request("/", "GET", [name: value]))
                }
                #expect(error == nil || error?.code == .badURL, "\(name): \(value)")
            }
            for method in ["GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET", "G T", ""] {
                let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/", method)) }
                #expect(error?.code == .badURL || method.isEmpty, "\(method)")
            }
            let received = try await setup.origin.server.journal.requests.map { try HTTP1Request($0) }
            #expect(received.allSatisfy { $0.headers["X"] == nil && $0.headers["Y"] == nil && $0.target == "/" })
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func anOriginThatIsDownIsToldTheSameWay(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ _ in .echo }, policy: policy) { setup in
            await setup.origin.server.stop()
            let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/")) }
            #expect(error?.code == .cannotConnectToHost)
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func anOriginThatIsSlowTimesOut(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ $0.target == "/body" ? .part("tea") : .noReply }, policy: policy) { setup in
            for path in ["/head", "/body"] {
                var request = setup.request(path)
                request.timeoutInterval = 1
                let error = await urlError { [request] in _ = try await setup.tunnel.data(for: request) }
                #expect(error?.code == .timedOut)
            }
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func anAnswerThatIsCutOffIsAnError(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with(
            {
                $0.target == "/parts"
                    ? .sequence([.part("tea"), .close]) : .closeMidFrame(.reply(Bytes(pattern(100_000))))
            },
            policy: policy
        ) {
            setup in
            for path in ["/parts", "/whole"] {
                let error = await urlError { _ = try await setup.tunnel.data(for: setup.request(path)) }
                #expect(error?.code == .networkConnectionLost, "\(path)")
            }
        }
    }

    // MARK: Cancellation

    @Test(arguments: ["/head", "/body", "/upload"])
    func cancellingReachesTheOrigin(path: String) async throws {
        try await Tunnelled.with({ $0.target == "/body" ? .part("tea") : .noReply }) { setup in
            let asking = Task { () async throws -> Void in
                let pieces = AsyncStream<Data> { $0.yield(Data("tea".utf8)) }
                if path == "/upload" {
                    _ = try await setup.tunnel.upload(for: setup.request(path, "POST"), from: pieces)
                } else {
                    _ = try await setup.tunnel.data(for: setup.request(path))
                }
            }
            if path == "/upload" {
                try await setup.server.waitForRequests(1)
            } else {
                try await setup.origin.server.waitForRequests(1)
            }
            asking.cancel()
            let error = await urlError { try await asking.value }
            #expect(error?.code == .cancelled)
            try await setup.server.waitForCancel()
            try await setup.origin.server.wait { $0.connectionCount == 0 }
        }
    }

    @Test func aBodyThatIsLetGoIsCancelled() async throws {
        try await Tunnelled.with({ _ in .endlessParts(Bytes(pattern(10_000))) }) { setup in
            for index in 0..<2 {
                let (body, _) = try await setup.tunnel.bytes(for: setup.request("/"))
                if index == 1 {
                    for try await piece in body.prefix(3) { #expect(!piece.isEmpty) }
                } else {
                    body.cancel()
                }
            }
            try await setup.origin.server.wait { $0.connectionCount == 0 && $0.totalConnections == 2 }
        }
    }

    @Test func aSourceThatFailsIsTheError() async throws {
        struct Broken: Error {}
        try await Tunnelled.with({ _ in .echo }) { setup in
            let pieces = AsyncThrowingStream<Data, any Error> { stream in
                stream.yield(Data("tea".utf8))
                stream.finish(throwing: Broken())
            }
            let error = await urlError {
                _ = try await setup.tunnel.upload(for: setup.request("/", "POST"), from: pieces)
            }
            #expect(error?.code == .requestBodyStreamExhausted && error?.userInfo[NSUnderlyingErrorKey] is Broken)
            try await setup.server.waitForCancel()
            #expect(await setup.origin.server.journal.requestCount == 0)
        }
    }

    /// It waited for a link beyond every timeout.
    @Test func anUploadThatFindsNoLinkTimesOut() async throws {
        try await Tunnelled.with({ _ in .echo }) { setup in
            await setup.client.suspend()
            var request = setup.request("/", "POST")
            request.timeoutInterval = 0.05
            let (pieces, source) = AsyncStream<Data>.makeStream()
            source.finish()
            let error = await urlError { [request] in _ = try await setup.tunnel.upload(for: request, from: pieces) }
            #expect(error?.code == .timedOut)
        }
    }

    /// It went to the gateway without its body.
    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .preferLink(hedgeAfter: .seconds(3600))])
    func aFileThatCannotBeReadIsAnError(policy: HTTPTunnel.Policy) async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("trunkline-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: directory) }
        try await Tunnelled.with({ _ in .echo }, policy: policy) { setup in
            let error = await urlError {
                _ = try await setup.tunnel.upload(for: setup.request("/", "POST"), fromFile: directory)
            }
            #expect(error?.code == .cannotOpenFile)
            #expect(setup.gateway.statistics.requests == 0)
        }
    }

    @Test func twoHundredAtOnceKeepApart() async throws {
        try await Tunnelled.with({ .reply(Bytes($0.target)) }) { setup in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<200 {
                    group.addTask {
                        let (data, _) = try await setup.tunnel.data(for: setup.request("/\(number)"))
                        return data == Data("/\(number)".utf8)
                    }
                }
                for try await isRight in group { #expect(isRight) }
            }
            await setup.gatewayIsIdle()
            #expect(setup.tunnel.statistics.link == 200 && setup.gateway.statistics.answered == 200)
        }
    }
}
