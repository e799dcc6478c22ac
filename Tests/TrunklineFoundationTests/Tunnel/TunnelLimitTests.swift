import Foundation
import Testing
import Trunkline
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineFoundation
@testable import TrunklineGateway

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Responses that are too long to be held in memory, and what errors reveal of URLs.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct TunnelLimitTests {}

extension TunnelLimitTests {
    private static let options = HTTPTunnel.Options { $0.maximumBodySize = 100_000 }

    private static func handler(_ request: HTTP1Request) -> Reaction {
        switch request.target {
        case "/endless": .endlessParts(Bytes(pattern(10_000)))
        case "/long": .response(200, [:], Bytes(pattern(100_001)))
        case "/fits": .reply(Bytes(pattern(100_000)))
        default: .reply("tea")
        }
    }

    /// 1.7 GB were collected in 6 s from an origin that does not stop.
    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly, .preferLink(hedgeAfter: .seconds(3600))])
    func aResponseThatIsTooLongIsNotCollected(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ Self.handler($0) }, policy: policy, options: Self.options) { setup in
            for path in ["/endless", "/long"] {
                for method in ["GET", "POST"] {
                    let request = setup.request(path, method)
                    let error = await urlError {
                        if method == "GET" {
                            _ = try await setup.tunnel.data(for: request)
                        } else {
                            _ = try await setup.tunnel.upload(for: request, from: Data("milk".utf8))
                        }
                    }
                    #expect(error?.code == .dataLengthExceedsMaximum, "\(path) \(String(describing: error))")
                    #expect(error?.failingURL == setup.origin.url(path))
                    let cause = try #require(error?.userInfo[NSUnderlyingErrorKey] as? ClientError)
                    #expect(cause.code == .overloaded && cause.fate == .answered)
                    #expect(cause.message.contains("100000 bytes"))
                }
            }
            // The request is cancelled, and the origin notices it.
            try await setup.origin.server.wait(within: patience) { $0.connectionCount <= 2 }
            #expect(try await setup.tunnel.data(for: setup.request("/fits")).0.count == 100_000)
            let head = try await setup.tunnel.data(for: setup.request("/long", "HEAD"))
            #expect(head.0.isEmpty)
        }
    }

    @Test func streamsHaveNoLimit() async throws {
        try await Tunnelled.with({ Self.handler($0) }, options: Self.options) { setup in
            let (body, _) = try await setup.tunnel.bytes(for: setup.request("/long"))
            #expect(try await body.reduce(0) { $0 + $1.count } == 100_001)
            let (file, _) = try await setup.tunnel.download(for: setup.request("/long"))
            #expect(try Data(contentsOf: file).count == 100_001)
            try FileManager.default.removeItem(at: file)
        }
    }

    #if canImport(FoundationNetworking)
        @Test func aSessionOnLinuxGetsTheSameError() async throws {
            try await Tunnelled.with({ Self.handler($0) }, options: Self.options) { setup in
                let root = setup.origin.root
                let registration = TunnelURLProtocol.register(setup.tunnel) {
                    $0.url?.absoluteString.hasPrefix(root) ?? false
                }
                defer { registration.unregister() }
                let configuration = URLSessionConfiguration.ephemeral
                configuration.protocolClasses = [TunnelURLProtocol.self]
                configuration.urlCache = nil
                let session = URLSession(configuration: configuration)
                let error = await urlError { _ = try await session.data(for: setup.request("/endless")) }
                #expect(error?.code == .dataLengthExceedsMaximum)
                let (data, _) = try await session.data(for: setup.request("/fits"))
                #expect(data.count == 100_000)
                session.invalidateAndCancel()
            }
        }
    #endif

    /// The URL of an error goes into logs, and used to contain the password.
    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func errorsAndResponsesShowNoPassword(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with(
            {
                switch $0.target {
                case "/cut": .sequence([.part("tea"), .close])
                case "/moved": .response(302, ["Location": "ftp://zaphod:s3cret@127.0.0.1/"])
                default: .reply(Bytes($0.headers["Authorization"] ?? "none"))
                }
            },
            policy: policy
        ) { setup in
            func url(_ path: String) throws -> URL {
                let plain = setup.origin.url(path).absoluteString
                return try #require(URL(string: plain.replacing("//", with: "//zaphod:s3cret@")))
            }
            for path in ["/cut", "/moved"] {
                let error = await urlError { _ = try await setup.tunnel.data(from: try url(path)) }
                let text = String(describing: error) + "\(error?.userInfo ?? [:])"
                #expect(error != nil && !text.contains("s3cret") && !text.contains("zaphod"), "\(text)")
            }
            let ftp = try #require(URL(string: "ftp://zaphod:s3cret@127.0.0.1/"))
            let error = await urlError { _ = try await setup.tunnel.data(from: ftp) }
            #expect(error?.failingURL?.absoluteString == "ftp://127.0.0.1/")
            let (data, response) = try await setup.tunnel.data(from: try url("/"))
            let credentials = Data("zaphod:s3cret".utf8).base64EncodedString()
            #expect(String(decoding: data, as: UTF8.self) == "Basic \(credentials)")
            #expect(response.url == setup.origin.url("/"))
        }
    }

    @Test func noRequestIsSentToAHostWithAZeroByte() async throws {
        try await Tunnelled.with({ _ in .echo }, policy: .directOnly) { setup in
            let port = try #require(setup.origin.url("/").port)
            for host in ["127.0.0.1%00.trusted.example", "127.0.0.1%0A", "127.0.0.1%E2%80%AE"] {
                guard let url = URL(string: "http://\(host):\(port)/") else { continue }
                let error = await urlError { _ = try await setup.tunnel.data(from: url) }
                #expect(error?.code == .badURL, "\(host)")
                #expect(HTTPOrigin(of: url) == nil)
            }
            #expect(await setup.origin.server.journal.totalConnections == 0)
        }
    }

    /// The file used to be opened by its path for every attempt. It may have become another file meanwhile: one of
    /// another length, or a FIFO.
    @Test func everyAttemptSendsTheFileThatWasChecked() async throws {
        let path = NSTemporaryDirectory() + "body-\(UInt64.random(in: 0 ... .max))"
        try createFile(at: path, with: Array("checked".utf8))
        defer { unsafe unlink(path) }
        let body = try await TunnelBody.file(at: URL(fileURLWithPath: path))
        try #require(unsafe unlink(path) == 0 && mkfifo(path, 0o600) == 0)
        #expect(body.count == 7)
        for _ in 0..<2 {
            let sent = Lock(Data())
            try await body.forEachPiece { piece in sent.withLock { $0 += piece } }
            #expect(sent.withLock { $0 } == Data("checked".utf8))
        }
    }

    /// Opening a FIFO waits until a process writes to it.
    @Test func aFIFOIsNotABody() async throws {
        let path = NSTemporaryDirectory() + "fifo-\(UInt64.random(in: 0 ... .max))"
        try #require(unsafe mkfifo(path, 0o600) == 0)
        defer { unsafe unlink(path) }
        try await Tunnelled.with({ _ in .echo }) { setup in
            for (file, code) in [
                (path, URLError.Code.cannotOpenFile), ("/dev/zero", .cannotOpenFile), (path + "x", .fileDoesNotExist),
            ] {
                let error = await urlError {
                    let url = URL(fileURLWithPath: file)
                    _ = try await setup.tunnel.upload(for: setup.request("/", "POST"), fromFile: url)
                }
                #expect(error?.code == code, "\(file)")
            }
        }
    }
}
