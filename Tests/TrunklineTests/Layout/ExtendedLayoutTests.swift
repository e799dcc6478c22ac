import Testing
import Trunkline
import TrunklineTesting

@Suite(.tags(.realThreads), .enabled(if: CryptoLibrary.system != nil, "libcrypto is not installed"))
struct ExtendedLayoutTests {}

extension ExtendedLayoutTests {
    /// Type 0x402, version 1, serial 0x401, content type JSON, SHA-256 of the body, length 8, the body.
    private static let request = hex(
        """
        00000402 00000001 00000401 00000001
        04cab47fb3803dfee9011486bf511276d8bc199342115e160b59528f1cfa55d7
        00000008 7b226d73223a317d
        """
    )
    /// Type 0x1, version 1, serial 1, content type bytes, SHA-256 of the empty body, length 0.
    private static let ping = hex(
        """
        00000001 00000001 00000001 00000000
        e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
        00000000
        """
    )

    @Test func requestHasItsVersionContentTypeAndDigest() throws {
        var frame = Frame(.request, type: 0x402, serial: 0x401, body: #"{"ms":1}"#)
        frame["contentType"] = 1
        #expect(try FrameLayout.extended.encoded(frame) == Self.request)
        let seen = try #require(FrameLayout.extended.serverSide().decoded(Self.request).first)
        #expect(seen.kind == .request && seen.type == 0x402 && seen.serial == 0x401 && seen.body == frame.body)
        #expect(seen["version"] == 1 && seen["contentType"] == 1)
    }

    @Test func emptyFramesHaveTheDigestOfAnEmptyBody() throws {
        #expect(try FrameLayout.extended.encoded(Frame(.ping, serial: 1)) == Self.ping)
        let seen = try FrameLayout.extended.decoded(Self.ping)
        #expect(seen.map(\.kind) == [.ping] && seen[0]["version"] == 1 && seen[0]["contentType"] == 0)
    }

    @Test func typesAndSerialsAreThoseOfTheStandardLayout() throws {
        let layout = try FrameLayout.extended
        #expect(layout.matching == FrameLayout.standard.matching)
        #expect(layout.cancelFrame(for: 77, type: 0x402) == Frame(.cancel, type: 0x401, serial: 77))
        var push = Self.ping
        push[3] = 2
        #expect(try layout.decoded(push).map(\.kind) == [.push])
    }

    @Test func everyCorruptedByteOfDigestOrBodyIsAMismatch() throws {
        for index in Array(16..<48) + Array(52..<60) {
            var corrupted = Self.request
            corrupted[index] ^= 1
            let error = #expect(throws: FrameError.self) { try FrameLayout.extended.decoded(corrupted) }
            #expect(error?.code == .checksumMismatch)
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func aClientAndAServerUseTheLayout() async throws {
        try await withServer(speaking: try .extended) { server in
            let options = quickOptions()
            let answer = try await withClient(to: server.endpoint, speaking: try .extended, options: options) {
                client in
                var request = Request(type: 0x410, body: "hello")
                request["contentType"] = 1
                return try await client.send(request)
            }
            #expect(answer.body == "hello" && answer["version"] == 1 && answer["contentType"] == 1)
        }
    }
}
