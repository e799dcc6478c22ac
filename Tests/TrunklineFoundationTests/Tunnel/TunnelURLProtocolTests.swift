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

/// A plain `URLSession`, with a tunnel and without: the responses are the same.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct TunnelURLProtocolTests {}

extension TunnelURLProtocolTests {
    private func fetch(_ request: URLRequest, in session: URLSession) async throws -> (Data, HTTPURLResponse) {
        let (data, response) = try await session.data(for: request)
        return (data, try #require(response as? HTTPURLResponse))
    }

    /// A session whose requests to the origin of `setup` go through its tunnel.
    private nonisolated(nonsending) func withSession(
        of setup: Tunnelled,
        _ change: (URLSessionConfiguration) -> Void = { _ in },
        _ body: nonisolated(nonsending) (URLSession) async throws -> Void
    ) async throws {
        let root = setup.origin.root
        let registration = TunnelURLProtocol.register(setup.tunnel) {
            $0.url?.absoluteString.hasPrefix(root) ?? false
        }
        defer { registration.unregister() }
        let configuration = URLSessionConfiguration.ephemeral
        configuration.protocolClasses = [TunnelURLProtocol.self]
        configuration.urlCache = nil
        change(configuration)
        try await body(URLSession(configuration: configuration))
    }

    @Test func responsesAreThoseOfAPlainSession() async throws {
        let content = Bytes(pattern(500_000))
        try await Tunnelled.with({ request in
            switch request.target {
            case "/large": .response(200, ["Content-Type": "image/png", "ETag": "\"a\""], content)
            case "/moved": .response(302, ["Location": "/large"])
            case "/none": .response(404, ["X-A": "1, 2"], "none")
            case "/fresh": .response(304, ["ETag": "\"a\""])
            default: .reply(Bytes("\(request.method) \(String(request.body)) \(request.headers["X-A"] ?? "")"))
            }
        }) { setup in
            let direct = URLSession(configuration: .ephemeral)
            try await withSession(of: setup) { tunnelled in
                for (path, method) in [
                    ("/large", "GET"), ("/large", "HEAD"), ("/moved", "GET"), ("/none", "GET"), ("/fresh", "GET"),
                    ("/", "DELETE"),
                    ("/", "POST"), ("/", "PUT"),
                ] {
                    var request = setup.request(path, method, ["X-A": "tea"])
                    if method == "POST" || method == "PUT" { request.httpBody = Data("milk".utf8) }
                    let (data, response) = try await fetch(request, in: direct)
                    let (sameData, same) = try await fetch(request, in: tunnelled)
                    #expect(data == sameData && response.statusCode == same.statusCode && response.url == same.url)
                    #expect(
                        response.mimeType == same.mimeType
                            && response.expectedContentLength == same.expectedContentLength
                    )
                    let fields = response.allHeaderFields as? [String: String]
                    #expect(fields == same.allHeaderFields as? [String: String], "\(method) \(path)")
                }
            }
            #expect(setup.tunnel.metrics.link == 9)
        }
    }

    @Test func cancellingATaskReachesTheOrigin() async throws {
        try await Tunnelled.with({ _ in .noReply }) { setup in
            try await withSession(of: setup) { session in
                let asking = Task { () async throws -> Void in _ = try await session.data(for: setup.request("/")) }
                try await setup.origin.server.waitForRequests(1, within: patience)
                asking.cancel()
                let error = await urlError { try await asking.value }
                #expect(error?.code == .cancelled)
                try await setup.server.waitForCancel(within: patience)
                try await setup.origin.server.wait(within: patience) { $0.connectionCount == 0 }
            }
        }
    }

    private enum End: Sendable {
        case answered(Data)
        case failed(URLError.Code?)
    }

    private func ask(_ request: URLRequest, _ session: URLSession, in group: inout TaskGroup<End>) -> URLSessionTask {
        let (ends, end) = AsyncStream<End>.makeStream()
        let task = session.dataTask(with: request) { data, _, error in
            end.yield(data.map { .answered($0) } ?? .failed((error as? URLError)?.code))
            end.finish()
        }
        group.addTask {
            var last = End.failed(nil)
            for await one in ends { last = one }
            return last
        }
        return task
    }

    /// The session received the response on one thread while it removed the task on another: it trapped, or lost the
    /// task.
    @Test func cancellingAsTheResponseArrivesIsSafe() async throws {
        try await Tunnelled.with({ _ in .reply("tea") }) { setup in
            try await withSession(of: setup) { session in
                await withTaskGroup(of: End.self) { group in
                    for _ in 0..<40 {
                        let before = setup.tunnel.metrics.link
                        let tasks = (0..<10).map { _ in ask(setup.request("/"), session, in: &group) }
                        for task in tasks { task.resume() }
                        while setup.tunnel.metrics.link == before { await Task.yield() }
                        for task in tasks { task.cancel() }
                    }
                    for await end in group {
                        switch end {
                        case .answered(let data): #expect(data == Data("tea".utf8))
                        case .failed(let code): #expect(code == .cancelled)
                        }
                    }
                }
            }
        }
    }

    /// Each call to `resume()` used to start the request again.
    @Test func aTaskThatIsResumedTwiceSendsOneRequest() async throws {
        let gate = AsyncStream<Void>.makeStream()
        let late = Reaction.perform { exchange in
            for await _ in gate.stream { break }
            try await exchange.reply("tea")
        }
        try await Tunnelled.with({ _ in late }) { setup in
            try await withSession(of: setup) { session in
                await withTaskGroup(of: End.self) { group in
                    let task = ask(setup.request("/", "POST"), session, in: &group)
                    for _ in 0..<3 { task.resume() }
                    try? await setup.origin.server.waitForRequests(1, within: patience)
                    for _ in 0..<3 {
                        task.suspend()
                        task.resume()
                    }
                    gate.continuation.yield()
                    guard case .answered(let data)? = await group.next() else {
                        Issue.record("the task has no response")
                        return
                    }
                    #expect(data == Data("tea".utf8))
                }
                #expect(await setup.origin.server.journal.requestCount == 1)
            }
        }
    }

    #if canImport(FoundationNetworking)
        /// An upload used to go out without its body, and a download ended the process.
        @Test func unsupportedTasksAreRefused() async throws {
            try await Tunnelled.with({ .reply($0.body) }) { setup in
                try await withSession(of: setup) { session in
                    let post = setup.request("/", "POST")
                    let upload = await urlError { _ = try await session.upload(for: post, from: Data("tea".utf8)) }
                    #expect(upload?.code == .unsupportedURL)
                    let download = await urlError { _ = try await session.download(for: setup.request("/")) }
                    #expect(download?.code == .unsupportedURL)
                    #expect(setup.tunnel.metrics.requests == 0)
                    #expect(await setup.origin.server.totalConnections == 0)
                }
            }
        }

        /// The cookies that a session adds to every request used to be taken for the caller's own, and overrode the
        /// tunnel's.
        @Test func theTunnelsCookiesReplaceTheSessions() async throws {
            func storage(_ value: String, _ setup: Tunnelled) throws -> HTTPCookieStorage? {
                let storage = URLSessionConfiguration.ephemeral.httpCookieStorage
                let properties: [HTTPCookiePropertyKey: Any] = [
                    .name: "a", .value: value, .path: "/", .domain: "127.0.0.1",
                ]
                storage?.setCookie(try #require(HTTPCookie(properties: properties)))
                return storage
            }
            var options = HTTPTunnel.Options()
            options.cookieStorage = URLSessionConfiguration.ephemeral.httpCookieStorage
            try await Tunnelled.with({ .reply(Bytes($0.headers["Cookie"] ?? "none")) }, options: options) { setup in
                let old = try storage("old", setup)
                try await withSession(of: setup, { $0.httpCookieStorage = old }) { session in
                    let (without, _) = try await session.data(for: setup.request("/"))
                    #expect(without == Data("none".utf8))
                    let new = try #require(try storage("new", setup)?.cookies?.first)
                    options.cookieStorage?.setCookie(new)
                    let (with, _) = try await session.data(for: setup.request("/"))
                    #expect(with == Data("a=new".utf8))
                }
            }
        }
    #endif
}
