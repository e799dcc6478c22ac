import Foundation
import Trunkline
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// How long a test waits for an event that must happen. Long enough for a busy machine.
let patience = Duration.seconds(60)

/// An HTTP/1.1 server on a port of this machine, for requests of a `URLSession`.
struct Origin {
    let server: LoopbackServer

    /// `http://127.0.0.1:port`
    var root: String { "http://\(server.endpoint)" }

    func url(_ path: String) -> URL {
        guard let url = URL(string: root + path) else { fatalError("\(path) is not a valid path") }
        return url
    }

    /// Starts a server for `body`, and stops it afterwards in every case.
    nonisolated(nonsending) static func with(
        _ handler: @escaping @Sendable (HTTP1Request) -> Reaction,
        _ body: nonisolated(nonsending) (Origin) async throws -> Void
    ) async throws {
        var codec = HTTP1Codec()
        codec.maximumBodySize = 1 << 30
        try await withLoopbackServer(
            speaking: codec,
            handler: { frame in
                guard let request = try? HTTP1Request(frame) else { return .close }
                return handler(request)
            },
            { server in try await body(Origin(server: server)) }
        )
    }
}

extension Reaction {
    /// A response with fields.
    static func response(_ status: Int, _ headers: HTTP1Headers = HTTP1Headers(), _ body: Bytes = Bytes()) -> Reaction {
        guard let frame = try? HTTP1Response(status, reason: "R", headers: headers, body: body).frame() else {
            return .close
        }
        return .reply(frame)
    }
}

/// Pseudorandom bytes that depend on `seed`. They repeat with a period that is no size of a piece, so that millions of
/// bytes take little time.
func pattern(_ count: Int, seed: UInt64 = 1) -> Data {
    var state = seed
    let block = Data(
        (0..<min(count, 10_007)).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 33)
        }
    )
    var all = Data(capacity: count)
    while all.count < count { all += block.prefix(count - all.count) }
    return all
}

/// The URLError that `body` throws; `nil` if it throws another error or none.
nonisolated(nonsending) func urlError(_ body: nonisolated(nonsending) () async throws -> Void) async -> URLError? {
    do {
        try await body()
        return nil
    } catch {
        return error as? URLError
    }
}
