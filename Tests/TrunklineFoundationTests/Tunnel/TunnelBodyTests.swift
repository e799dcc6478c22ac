import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Bodies over a link, in both directions.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct TunnelBodyTests {}

extension TunnelBodyTests {
    @Test(arguments: [0, 1, 16_383, 16_384, 65_536, 65_537, 5_000_000])
    func contentOfEverySizeArrivesComplete(count: Int) async throws {
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
    func bodiesAreSentComplete(policy: HTTPTunnel.Policy, count: Int) async throws {
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

    @Test func aSlowReaderDoesNotDelayOthers() async throws {
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
}
