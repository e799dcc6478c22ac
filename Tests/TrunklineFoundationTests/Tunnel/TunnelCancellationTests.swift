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

/// Requests that are cancelled by their task, by the reader of the response, or by the source of the body.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct TunnelCancellationTests {}

extension TunnelCancellationTests {
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
                try await setup.server.waitForRequests(1, within: patience)
            } else {
                try await setup.origin.server.waitForRequests(1, within: patience)
            }
            asking.cancel()
            let error = await urlError { try await asking.value }
            #expect(error?.code == .cancelled)
            try await setup.server.waitForCancel(within: patience)
            // The gateway sends its request once it has the whole body.
            let count = path == "/upload" ? 0 : 1
            try await setup.origin.server.wait(within: patience) {
                $0.connectionCount == 0 && $0.totalConnections == count
            }
        }
    }

    @Test func aDeallocatedBodyIsCancelled() async throws {
        try await Tunnelled.with({ _ in .endlessParts(Bytes(pattern(10_000))) }) { setup in
            for index in 0..<2 {
                let (body, _) = try await setup.tunnel.bytes(for: setup.request("/"))
                if index == 1 {
                    for try await piece in body.prefix(3) { #expect(!piece.isEmpty) }
                } else {
                    body.cancel()
                }
            }
            try await setup.origin.server.wait(within: patience) { $0.connectionCount == 0 && $0.totalConnections == 2 }
        }
    }

    @Test func theErrorOfASourceIsTheUnderlyingError() async throws {
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
            try await setup.server.waitForCancel(within: patience)
            #expect(await setup.origin.server.journal.requestCount == 0)
        }
    }
}
