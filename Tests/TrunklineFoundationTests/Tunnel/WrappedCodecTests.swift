import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineLoopback

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Codecs other than `.standard` with a tunnel.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct WrappedCodecTests {}

extension WrappedCodecTests {
    /// Forwards everything to `.standard` on both sides, except window updates and cancel frames if a property says so.
    private struct Wrapper: FrameCodec, HeartbeatCodec, CancellingCodec, WindowedCodec, ServerSideCodec {
        var base: any FrameCodec = FrameLayout.standard
        var forwardsWindows = true
        var forwardsCancellation = true

        var matching: ResponseMatching { base.matching }

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }

        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try base.encode(frame, into: &output)
        }

        func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
            forwardsCancellation ? (base as? any CancellingCodec)?.cancelFrame(for: serial, type: type) : nil
        }
        func isWindowUpdate(_ frame: Frame) -> Bool {
            forwardsWindows && (base as? any WindowedCodec)?.isWindowUpdate(frame) == true
        }
        func ping(number: UInt64) -> Frame? { (base as? any HeartbeatCodec)?.ping(number: number) }
        func pong(answering ping: Frame) -> Frame? { (base as? any HeartbeatCodec)?.pong(answering: ping) }
        var pongsLookLikePings: Bool { (base as? any HeartbeatCodec)?.pongsLookLikePings == true }
        func serverSide() -> any FrameCodec {
            Wrapper(base: (base as? any ServerSideCodec)?.serverSide() ?? base, forwardsWindows: forwardsWindows)
        }
    }

    /// Another layout with the types that a tunnel needs.
    private static let layout = FrameLayout {
        Field.length(UInt32.self, counting: .body)
        Field.serial(UInt16.self)
        Field.type(UInt16.self)
        Field.body
    }
    .roles {
        $0.cancel = 0x401
        $0.part = 0x404
        $0.window = 0x405
    }

    private func expectUploadWithManyWindows(_ codec: some FrameCodec) async throws {
        let options = HTTPTunnel.Options { $0.window = 64 * 1024 }
        try await Tunnelled.with({ .reply($0.body) }, speaking: codec, options: options) { setup in
            let content = pattern(500_000)
            let (data, response) = try await setup.tunnel.upload(for: setup.request("/", "POST"), from: content)
            #expect(data == content && response.route == .link)
        }
    }

    @Test func aCodecThatForwardsEverythingCarriesManyWindows() async throws {
        try await expectUploadWithManyWindows(Wrapper())
    }

    @Test func aLayoutWithTheRolesCarriesManyWindows() async throws {
        try await expectUploadWithManyWindows(Self.layout)
    }

    /// A window update used to be taken for the end of its request, and the parts behind it became requests.
    @Test func theRemainingPartsOfARefusedUploadAreNotRequests() async throws {
        let small = HTTPGateway.Options { $0.maximumRequestBody = 1000 }
        try await Tunnelled.with({ _ in .echo }, speaking: Wrapper(), gateway: small) { setup in
            for count in 1...5 {
                let request = setup.request("/", "POST")
                let (_, response) = try await setup.tunnel.upload(for: request, from: pattern(1_000_000))
                #expect((response as? HTTPURLResponse)?.statusCode == 413)
                _ = try await setup.tunnel.data(for: setup.request("/"))
                #expect(setup.gateway.metrics.requests == 2 * count)
                // The server learned of the end, and waits for no more parts.
                while await setup.server.exchangeCount > 0 { try await Task.sleep(for: .milliseconds(1)) }
            }
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .preferLink(hedgeAfter: .seconds(3600))])
    func aCodecWithoutWindowUpdatesOrACancelFrameIsAnError(policy: HTTPTunnel.Policy) async throws {
        let codecs = [
            ("WindowedCodec.isWindowUpdate", Wrapper(forwardsWindows: false)),
            ("CancellingCodec.cancelFrame", Wrapper(forwardsCancellation: false)),
        ]
        for (function, codec) in codecs {
            try await Tunnelled.with({ _ in .echo }, speaking: codec, policy: policy) { setup in
                let error = await urlError {
                    _ = try await setup.tunnel.upload(for: setup.request("/", "POST"), from: pattern(500_000))
                }
                #expect(error?.code == .cannotLoadFromNetwork)
                #expect(error.map { "\($0.userInfo)".contains(function) } == true)
                #expect(await setup.server.journal.requestCount == 0)
                #expect(await setup.origin.server.totalConnections == 0)
            }
        }
    }
}
