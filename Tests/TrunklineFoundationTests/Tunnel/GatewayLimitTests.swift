import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineGateway
@testable import TrunklineIO
@testable import TrunklineLoopback

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// How much a gateway does at once, and for one request.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct GatewayLimitTests {}

extension GatewayLimitTests {
    @Test func limitsAreEnforced() async throws {
        let options = HTTPGateway.Options { options in
            (options.maximumRequestBody, options.maximumResponseBody, options.maximumConcurrency) = (1000, 100_000, 1)
        }
        try await Tunnelled.with(
            { $0.target == "/slow" ? .noReply : .reply(Bytes(pattern(200_000))) },
            gateway: options
        ) { setup in
            let (_, large) = try await setup.tunnel.upload(for: setup.request("/", "POST"), from: Data(count: 1001))
            #expect((large as? HTTPURLResponse)?.statusCode == 413)
            let pieces = AsyncStream<Data> { stream in
                for _ in 0..<20 { stream.yield(Data(count: 100)) }
                stream.finish()
            }
            let (_, streamed) = try await setup.tunnel.upload(for: setup.request("/", "POST"), from: pieces)
            #expect((streamed as? HTTPURLResponse)?.statusCode == 413)
            let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/")) }
            #expect(error?.code == .dataLengthExceedsMaximum)
            async let slow = urlError { _ = try await setup.tunnel.data(for: setup.request("/slow")) }
            try await setup.origin.server.waitForRequests(2)
            let (_, busy) = try await setup.tunnel.data(for: setup.request("/"))
            #expect((busy as? HTTPURLResponse)?.statusCode == 503)
            await setup.origin.server.stop()
            #expect(await slow?.code != nil)
        }
    }

    // MARK: Places

    @Test func aPlaceIsFreeAfterTheResponse() async throws {
        let options = HTTPGateway.Options { $0.maximumConcurrency = 1 }
        try await Tunnelled.with(
            { .reply($0.target == "/large" ? Bytes(pattern(100_000)) : "tea") },
            gateway: options
        ) { setup in
            for number in 0..<100 {
                let path = number.isMultiple(of: 2) ? "/large" : "/small"
                let (_, response) = try await setup.tunnel.data(for: setup.request(path))
                #expect((response as? HTTPURLResponse)?.statusCode == 200)
            }
            #expect(setup.gateway.metrics.answered == 100 && setup.gateway.metrics.underWay == 0)
        }
    }

    @Test func aPlaceIsFreeWhenItsRequestIsCancelled() async throws {
        let options = HTTPGateway.Options { $0.maximumConcurrency = 1 }
        try await Tunnelled.with({ $0.target == "/slow" ? .noReply : .reply("tea") }, gateway: options) { setup in
            for round in 1...20 {
                let asking = Task { () async throws -> Void in
                    _ = try await setup.tunnel.data(for: setup.request("/slow"))
                }
                try await setup.origin.server.waitForRequests(2 * round - 1)
                asking.cancel()
                let error = await urlError { try await asking.value }
                #expect(error?.code == .cancelled)
                let (_, response) = try await setup.tunnel.data(for: setup.request("/"))
                #expect((response as? HTTPURLResponse)?.statusCode == 200)
            }
            #expect(setup.gateway.metrics.failed == 20 && setup.gateway.metrics.refused == 0)
        }
    }

    @Test func refusedRequestsTakeNoPlace() async throws {
        let options = HTTPGateway.Options { $0.maximumConcurrency = 1 }
        try await Tunnelled.with({ $0.target == "/slow" ? .noReply : .reply("tea") }, gateway: options) { setup in
            let asking = Task { () async throws -> Void in
                _ = try await setup.tunnel.data(for: setup.request("/slow"))
            }
            try await setup.origin.server.waitForRequests(1)
            try await withThrowingTaskGroup(of: Int?.self) { group in
                for _ in 0..<50 {
                    group.addTask {
                        let (_, response) = try await setup.tunnel.data(for: setup.request("/"))
                        return (response as? HTTPURLResponse)?.statusCode
                    }
                }
                for try await status in group { #expect(status == 503) }
            }
            asking.cancel()
            _ = await asking.result
            let (_, response) = try await setup.tunnel.data(for: setup.request("/"))
            #expect((response as? HTTPURLResponse)?.statusCode == 200)
            #expect(setup.gateway.metrics.refused == 50)
        }
    }

    @Test func aResponseThatIsTooLongIsRefusedAtItsHead() async throws {
        let options = HTTPGateway.Options { $0.maximumResponseBody = 1000 }
        try await Tunnelled.with({ .reply(Bytes(pattern($0.target == "/long" ? 1001 : 1000))) }, gateway: options) {
            setup in
            let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/long")) }
            #expect(error?.code == .dataLengthExceedsMaximum)
            let (_, head) = try await setup.tunnel.data(for: setup.request("/long", "HEAD"))
            #expect((head as? HTTPURLResponse)?.value(forHTTPHeaderField: "Content-Length") == "1001")
            let (data, _) = try await setup.tunnel.data(for: setup.request("/"))
            #expect(data == pattern(1000))
        }
    }

    @Test func aReaderThatFallsTooFarBehindGetsAnError() async throws {
        let options = HTTPGateway.Options { $0.maximumSpool = 1_000_000 }
        try await Tunnelled.with({ _ in .endlessParts(Bytes(pattern(50_000))) }, gateway: options) { setup in
            let (body, _) = try await setup.tunnel.bytes(for: setup.request("/"))
            // The connection to the origin ends although no caller reads.
            try await setup.origin.server.wait(within: patience) { $0.totalConnections == 1 && $0.connectionCount == 0 }
            var count = 0
            let error = await urlError { for try await piece in body { count += piece.count } }
            #expect(error?.code == .dataLengthExceedsMaximum && count >= 1_000_000)
            #expect(setup.gateway.metrics.failed == 1)
        }
    }

    @Test func theResponseLimitIncludesUnreadBytes() async throws {
        let options = HTTPGateway.Options { $0.maximumResponseBody = 1_000_000 }
        // The client's window is so small that the gateway does not fail for having sent too much.
        let tunnel = HTTPTunnel.Options { $0.window = 64 * 1024 }
        try await Tunnelled.with({ _ in .endlessParts(Bytes(pattern(50_000))) }, options: tunnel, gateway: options) {
            setup in
            let (body, _) = try await setup.tunnel.bytes(for: setup.request("/"))
            try await setup.origin.server.wait(within: patience) { $0.totalConnections == 1 && $0.connectionCount == 0 }
            let error = await urlError { for try await _ in body {} }
            #expect(error?.code == .dataLengthExceedsMaximum)
        }
    }

    /// With chunks, the Content-Length in the head was ignored, and any number of bytes was collected.
    @Test func aResponseLongerThanItsContentLengthIsRefused() async throws {
        let lie = Reaction.garbage(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n"
        )
        try await Tunnelled.with({ _ in lie }) { setup in
            let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/")) }
            #expect(error?.code == .badServerResponse)
            try await setup.origin.server.wait(within: patience) { $0.connectionCount == 0 }
        }
    }

    // MARK: Time

    /// Exceeding the maximum duration cancels the task that waits for the origin. This used to be reported as a
    /// cancellation.
    @Test(arguments: [100, 1_000_000])
    func aResponseThatTakesTooLongTimesOut(length: Int) async throws {
        let options = HTTPGateway.Options { $0.maximumDuration = .milliseconds(300) }
        let trickle = Reaction.garbage(Bytes("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\ntea"))
        try await Tunnelled.with({ _ in trickle }, gateway: options) { setup in
            let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/")) }
            #expect(error?.code == .timedOut)
        }
    }
}

/// A gateway whose name server does not answer.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct GatewayLookupTests {}

extension GatewayLookupTests {
    /// Runs `body` with a gateway to `http://name.test`. Its resolver waits until `body` has ended.
    private nonisolated(nonsending) func withSlowNames(
        _ options: HTTPGateway.Options = HTTPGateway.Options(),
        _ body: nonisolated(nonsending) (HTTPGateway, LoopbackServer, Client, Resolver) async throws -> Void
    ) async throws {
        let gate = DispatchSemaphore(value: 0)
        let resolver = Resolver(maximumThreads: 4, maximumQueued: 100) { _, _ in
            gate.wait()
            return .success([.ipv4([127, 0, 0, 1], port: 0)])
        }
        defer { for _ in 0..<1000 { gate.signal() } }
        let gateway = HTTPGateway(allowing: ["http://name.test"], options: options, resolver: resolver)
        try await withLoopbackServer(
            speaking: .standard,
            handler: { gateway.reaction(to: $0) ?? .echo },
            { server in
                try await withClient(to: server.endpoint, speaking: .standard, options: patientOptions) { client in
                    try await body(gateway, server, client, resolver)
                }
            }
        )
    }

    /// The parts that arrived meanwhile were not taken, and after 1 MiB of them the link was no longer read.
    @Test func anUploadToASlowNameDoesNotBlockTheLink() async throws {
        try await withSlowNames { _, _, client, resolver in
            let head = "POST http://name.test/ HTTP/1.1\r\nHost: name.test\r\nTrunkline-Window: 65536\r\n\r\n"
            let frames = client.open(Request(body: Bytes(head))).responses
            let piece = Bytes(pattern(64 * 1024))
            for _ in 0..<64 { try await frames.post(Request(body: piece), isPart: true) }
            try await frames.post(Request(type: 0x403))
            let reply = try await client.send(Request(type: 0x410, body: "tea"))
            #expect(reply.body == "tea")
            // One look-up for each address family.
            while resolver.metrics.lookups < 2 { try await Task.sleep(for: .milliseconds(1)) }
            frames.cancel()
        }
    }

    /// Each cancelled request freed its place, but went on waiting for the name.
    @Test func aCancelledRequestDoesNotWaitForItsName() async throws {
        try await withSlowNames(HTTPGateway.Options { $0.maximumConcurrency = 1 }) {
            gateway,
            server,
            client,
            resolver in
            let tunnel = HTTPTunnel(client, options: HTTPTunnel.Options { $0.policy = .linkOnly })
            let url = try #require(URL(string: "http://name.test/"))
            for round in 1...20 {
                let asking = Task { () async throws -> Void in _ = try await tunnel.data(from: url) }
                try await server.waitForRequests(round)
                // One look-up for each address family, in which the later requests join.
                while resolver.metrics.lookups < 2 { try await Task.sleep(for: .milliseconds(1)) }
                asking.cancel()
                let error = await urlError { try await asking.value }
                #expect(error?.code == .cancelled)
                while await server.exchangeCount > 0 { try await Task.sleep(for: .milliseconds(1)) }
            }
            #expect(gateway.metrics.failed == 20 && gateway.metrics.underWay == 0)
            #expect(resolver.metrics.lookups == 2)
        }
    }

    @Test func aNameNotResolvedWithinTheTimeoutIsNotFound() async throws {
        try await withSlowNames(HTTPGateway.Options { $0.timeout = .seconds(1) }) { _, _, client, _ in
            let tunnel = HTTPTunnel(client, options: HTTPTunnel.Options { $0.policy = .linkOnly })
            let error = await urlError {
                _ = try await tunnel.data(from: try #require(URL(string: "http://name.test/")))
            }
            #expect(error?.code == .cannotFindHost)
        }
    }
}
