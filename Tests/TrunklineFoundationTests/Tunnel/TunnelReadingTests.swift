import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Readers of the body of a response: several at once, or one that cancels it.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct TunnelReadingTests {}

extension TunnelReadingTests {
    /// A reader that was too late for the last piece used to get the error that the connection was lost.
    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func severalReadersShareABody(policy: HTTPTunnel.Policy) async throws {
        let content = pattern(400_000)
        let handler: @Sendable (HTTP1Request) -> Reaction = {
            $0.target == "/parts" ? .parts([Bytes(content)], then: .reply("")) : .reply(Bytes(content))
        }
        try await Tunnelled.with(handler, policy: policy) { setup in
            for round in 0..<60 {
                let path = round.isMultiple(of: 2) ? "/parts" : "/whole"
                let (body, _) = try await setup.tunnel.bytes(for: setup.request(path))
                let count = try await withThrowingTaskGroup(of: Int.self) { group in
                    for _ in 0..<4 {
                        group.addTask { try await body.reduce(0) { $0 + $1.count } }
                    }
                    return try await group.reduce(0, +)
                }
                #expect(count == content.count)
            }
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func severalReadersGetTheErrorOfATruncatedBody(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ _ in .sequence([.part("tea"), .close]) }, policy: policy) { setup in
            let (body, _) = try await setup.tunnel.bytes(for: setup.request("/"))
            await withTaskGroup(of: URLError?.self) { group in
                for _ in 0..<4 {
                    group.addTask { await urlError { for try await _ in body {} } }
                }
                for await error in group { #expect(error?.code == .networkConnectionLost) }
            }
        }
    }

    /// Over the link, the body used to be at its end, and so seemed complete.
    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func aCancelledBodyIsNotComplete(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with(
            { $0.target == "/endless" ? .endlessParts(Bytes(pattern(10_000))) : .reply("tea") },
            policy: policy
        ) { setup in
            for path in ["/endless", "/"] {
                let (body, _) = try await setup.tunnel.bytes(for: setup.request(path))
                body.cancel()
                let error = await urlError { for try await _ in body {} }
                #expect(error?.code == .cancelled, "\(path)")
                #expect(error?.failingURL == setup.origin.url(path))
            }
        }
    }

    /// A window update was lost with the cancelled task that should have sent it, so the next reader had a smaller
    /// window.
    @Test func aCancelledReaderLeavesTheWindowToTheNext() async throws {
        let half = TunnelWire.windows.lowerBound / 2
        let options = HTTPTunnel.Options { $0.window = 0 }
        let windows = AsyncStream<Int>.makeStream()
        let atGateway = Reaction.perform { exchange in
            try await exchange.part(Bytes("HTTP/1.1 200 OK\r\n\r\n" + String(repeating: "a", count: half)))
            try await exchange.part(Bytes(pattern(half)))
            if let frame = try await exchange.next() { windows.continuation.yield(try TunnelWire.window(in: frame)) }
            try await exchange.reply(Frame(.response, type: TunnelWire.messageType))
        }
        try await Tunnelled.with({ _ in .echo }, options: options, atGateway: { _ in atGateway }) { setup in
            let (body, _) = try await setup.tunnel.bytes(for: setup.request("/"))
            let reading = Task {
                unsafe withUnsafeCurrentTask { task in unsafe task?.cancel() }
                var iterator = body.makeAsyncIterator()
                return try await iterator.next()?.count
            }
            #expect(try await reading.value == half)
            #expect(try await body.reduce(0) { $0 + $1.count } == half)
            #expect(await windows.stream.first { _ in true } == 2 * half)
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly, .preferLink(hedgeAfter: .seconds(3600))])
    func errorsHaveTheURLThatFailed(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with(
            {
                switch $0.target {
                case "/moved": .response(302, ["Location": refusingURL.absoluteString])
                case "/cut": .sequence([.part("tea"), .close])
                default: .close
                }
            },
            policy: policy
        ) { setup in
            for (url, expected) in [
                (refusingURL, refusingURL), (setup.origin.url("/moved"), refusingURL),
                (setup.origin.url("/"), setup.origin.url("/")), (setup.origin.url("/cut"), setup.origin.url("/cut")),
            ] {
                let error = await urlError { _ = try await setup.tunnel.data(from: url) }
                #expect(error?.failingURL == expected, "\(url)")
            }
        }
    }
}
