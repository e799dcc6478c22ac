import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// How much a gateway does at once, and for one request.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct GatewayLimitTests {
    @Test func limitsHold() async throws {
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

    @Test func aPlaceIsFreeWhenTheAnswerIsThere() async throws {
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
            #expect(setup.gateway.statistics.answered == 100 && setup.gateway.statistics.underWay == 0)
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
            #expect(setup.gateway.statistics.failed == 20 && setup.gateway.statistics.refused == 0)
        }
    }

    @Test func thoseWhoAreRefusedTakeNoPlace() async throws {
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
            #expect(setup.gateway.statistics.refused == 50)
        }
    }

    @Test func anAnswerThatIsTooLongIsRefusedAtItsHead() async throws {
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

    @Test func aReaderWhoLeavesTooMuchIsToldSo() async throws {
        let options = HTTPGateway.Options { $0.maximumSpool = 1_000_000 }
        try await Tunnelled.with({ _ in .endlessParts(Bytes(pattern(50_000))) }, gateway: options) { setup in
            let (body, _) = try await setup.tunnel.bytes(for: setup.request("/"))
            // The origin is let go although nobody reads.
            try await setup.origin.server.wait { $0.totalConnections == 1 && $0.connectionCount == 0 }
            var count = 0
            let error = await urlError { for try await piece in body { count += piece.count } }
            #expect(error?.code == .dataLengthExceedsMaximum && count >= 1_000_000)
            #expect(setup.gateway.statistics.failed == 1)
        }
    }
}
