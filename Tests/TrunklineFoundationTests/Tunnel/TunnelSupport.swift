import Foundation
import Trunkline
import TrunklineFoundation
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineGateway

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A URL that refuses connections, on a port that no test uses. A port that was free a moment ago may be in use by
/// another test.
let refusingURL: URL = {
    guard let url = URL(string: "http://127.0.0.1:1/") else { fatalError("invalid URL") }
    return url
}()

/// For busy machines.
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

    /// Starts all of them for `body`, and stops them afterwards in every case.
    ///
    /// - Parameters:
    ///   - others: More origins that the gateway may send requests to.
    ///   - atGateway: The reaction of the gateway's server in place of the gateway; `nil` for the gateway's own.
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
            let urls = allows ? [origin.url("/"), refusingURL] + others : []
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
