import Foundation
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Where nobody listens, on a port that no test is given; one that was free a moment ago may be another test's by now.
let nobody: URL = {
    guard let url = URL(string: "http://127.0.0.1:1/") else { fatalError("no URL") }
    return url
}()

/// For machines that have much else to do.
let patientOptions = ClientOptions { $0.requests.timeout = .seconds(200) }

/// An origin, a gateway in front of it, and a tunnel to the gateway.
struct Tunnelled {
    let origin: Origin
    let gateway: HTTPGateway
    let server: LoopbackServer
    let client: Client
    let tunnel: HTTPTunnel

    func request(_ path: String, _ method: String = "GET", _ fields: [String: String] = [:]) -> URLRequest {
        var request = URLRequest(url: origin.url(path))
        request.httpMethod = method
        request.timeoutInterval = 200
        for (name, value) in fields { request.setValue(value, forHTTPHeaderField: name) }
        return request
    }

    /// Begins all of them and ends them on every way out.
    ///
    /// - Parameters:
    ///   - others: Origins that the gateway may ask too.
    ///   - atGateway: What the gateway's server does in place of the gateway; `nil` for what that does.
    nonisolated(nonsending) static func with(
        _ handler: @escaping @Sendable (HTTP1Request) -> Reaction,
        speaking codec: some FrameCodec = FrameLayout.standard,
        policy: HTTPTunnel.Policy = .linkOnly,
        options: HTTPTunnel.Options = HTTPTunnel.Options(),
        gateway gatewayOptions: HTTPGateway.Options = HTTPGateway.Options(),
        client clientOptions: ClientOptions = patientOptions,
        allows: Bool = true,
        others: [URL] = [],
        atGateway: (@Sendable (Frame) -> Reaction?)? = nil,
        _ body: nonisolated(nonsending) (Tunnelled) async throws -> Void
    ) async throws {
        var options = options
        options.policy = policy
        try await Origin.with(handler) { origin in
            let urls = allows ? [origin.url("/"), nobody] + others : []
            let allowed = urls.compactMap { HTTPOrigin(of: $0) }
            let gateway = HTTPGateway(allowing: allowed, options: gatewayOptions)
            try await withLoopbackServer(
                speaking: codec,
                handler: { atGateway?($0) ?? gateway.handler($0) },
                { server in
                    try await withClient(to: server.endpoint, speaking: codec, options: clientOptions) { client in
                        try await client.connect()
                        let tunnel = HTTPTunnel(client, options: options)
                        try await body(
                            Tunnelled(origin: origin, gateway: gateway, server: server, client: client, tunnel: tunnel)
                        )
                    }
                }
            )
        }
    }
}
