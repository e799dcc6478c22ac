import Foundation
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Small GET requests through a gateway beside the origin, and directly by URLSession; round trip 50 ms.
struct TunnelBench {
    private static let roundTrip = Duration.milliseconds(50)

    private enum Way: String, CaseIterable {
        case tunnel = "tunnel"
        case kept = "direct"
        case new = "direct, new"
    }

    private let count: Int

    init(isQuick: Bool) { count = isQuick ? 200 : 1000 }

    func run() async throws -> String {
        try await ChildProcess.withServer("serve-gateway") { try await table($0) }
    }

    private func table(_ ports: String) async throws -> String {
        let ports = ports.split(separator: " ").compactMap { UInt16($0) }
        guard ports.count == 3 else { throw BenchError("the gateway did not start") }
        let widths = [12, 10, 9, 9, 9, 9]
        var lines = [
            machineDescription(),
            "\(count) GETs of 100 bytes, round trip 50 ms, no TLS; in one process, one row after another",
            "  tunnel       HTTPTunnel, one established link",
            "  direct       URLSession with its defaults: at most six kept connections to a host, none at the start",
            "  direct, new  the same with a new connection for each request, as after a pause",
            "", aligned(["", "in flight", "req/s", "p50 ms", "p99 ms", "CPU µs"], widths),
        ]
        for inFlight in [1, 16, 256] {
            for way in Way.allCases {
                // One request at a time takes long and varies little.
                let count = inFlight == 1 ? count / 10 : count
                let result = try await measured(way, count, inFlight, ports)
                lines.append(aligned([way.rawValue, "\(inFlight)"] + result, widths))
            }
        }
        return lines.joined(separator: "\n")
    }

    private func measured(_ way: Way, _ count: Int, _ inFlight: Int, _ ports: [UInt16]) async throws -> [String] {
        let client = Client(to: .host("127.0.0.1", port: ports[0]), speaking: .standard)
        let tunnel = HTTPTunnel(client, options: HTTPTunnel.Options { $0.policy = .linkOnly })
        let session = URLSession(configuration: .ephemeral)
        var request = URLRequest(url: try Self.url(way == .tunnel ? ports[2] : ports[1]))
        if way == .new { request.setValue("close", forHTTPHeaderField: "Connection") }
        if way == .tunnel { try await client.connect() }

        let (before, start) = (Usage.now, ContinuousClock.now)
        let times = try await withThrowingTaskGroup(of: [Duration].self) { [request] group in
            for caller in 0..<inFlight {
                group.addTask {
                    var times: [Duration] = []
                    for _ in stride(from: caller, to: count, by: inFlight) {
                        let began = ContinuousClock.now
                        let (data, _) =
                            way == .tunnel
                            ? try await tunnel.data(for: request) : try await session.data(for: request)
                        guard data.count == 100 else { throw BenchError("received \(data.count) bytes instead of 100") }
                        times.append(.now - began)
                    }
                    return times
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }.sorted()
        }
        let took = ContinuousClock.now - start
        let after = Usage.now
        let cost = Double(after.user + after.system - before.user - before.system) / Double(count)
        await client.close()
        session.invalidateAndCancel()
        return [
            decimal(Double(count) / (took / .seconds(1)), places: 0),
            decimal(times[times.count / 2] / .milliseconds(1), places: 1),
            decimal(times[min(times.count - 1, times.count * 99 / 100)] / .milliseconds(1), places: 1),
            decimal(cost, places: 0),
        ]
    }

    private static func url(_ port: UInt16) throws -> URL {
        guard let url = URL(string: "http://127.0.0.1:\(port)/") else { throw BenchError("no URL for port \(port)") }
        return url
    }

    /// Prints three ports: the relays to the gateway and to the origin, and the origin.
    static func serve() async throws {
        let body = Bytes([UInt8](repeating: 7, count: 100))
        let origin = try await LoopbackServer.start(speaking: HTTP1Codec(host: "127.0.0.1")) { request in
            let asksToClose = (try? HTTP1Request(request))?.headers["Connection"] == "close"
            let response = HTTP1Response(200, headers: asksToClose ? ["Connection": "close"] : [:], body: body)
            guard let frame = try? response.frame() else { return .close }
            return asksToClose ? .sequence([.reply(frame), .close]) : .reply(frame)
        }
        guard case .host(_, let originPort) = origin.endpoint.target else { throw BenchError("the origin has no port") }
        guard let allowed = HTTPOrigin(parsing: "http://127.0.0.1:\(originPort)", allowingPrivateAddresses: true) else {
            throw BenchError("no origin for port \(originPort)")
        }
        let gateway = HTTPGateway(allowing: [allowed])
        let server = try await LoopbackServer.start(speaking: .standard, handler: gateway.handler)
        guard case .host(_, let gatewayPort) = server.endpoint.target else {
            throw BenchError("the gateway has no port")
        }
        let loop = EventLoops(count: 1).next()
        let ways = [gatewayPort, originPort].map { DelayRelay(to: $0, delay: roundTrip / 2, on: loop) }
        print(try await ways[0].start(), try await ways[1].start(), originPort)
        fflush(nil)
        while readLine() != nil {}
        withExtendedLifetime((origin, server, ways)) {}
    }
}
