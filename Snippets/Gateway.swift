// The server side of HTTP over the link: a gateway forwards requests to origins, but only to those on its list.

import Foundation
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// An origin is any HTTP server. This one returns a description of the request.
let origin = try await LoopbackServer.start(speaking: HTTP1Codec()) { frame in
    guard let request = try? HTTP1Request(frame) else { return .close }
    return .reply(Bytes("\(request.method) \(request.target), \(request.body.count) bytes"))
}
let root = "http://\(origin.endpoint)"

// The gateway. An IP address on its list may belong to this machine. A host name may resolve to this machine only if
// the list allows it.
guard let ours = HTTPOrigin(parsing: root) else { fatalError("invalid origin: \(root)") }
let gateway = HTTPGateway(
    allowing: [ours, "https://api.example.com"],
    options: HTTPGateway.Options { $0.maximumRequestBody = 1024 }
)

// The gateway handles HTTP requests. The server handles all others itself.
let server = try await LoopbackServer.start(speaking: .standard) { frame in
    gateway.reaction(to: frame) ?? .echo
}

// A client of the gateway. With this policy it never sends requests directly.
let client = Client(to: server.endpoint, speaking: .standard)
let tunnel = HTTPTunnel(client, options: HTTPTunnel.Options { $0.policy = .linkOnly })

/// Sends a request and prints the response. Responses that the gateway itself creates have a field with the reason.
func ask(_ address: String, _ method: String = "GET", body: Data? = nil) async throws {
    guard let url = URL(string: address) else { return print("invalid URL: \(address)") }
    var request = URLRequest(url: url)
    (request.httpMethod, request.httpBody) = (method, body)
    let (data, response) = try await tunnel.data(for: request)
    guard let response = response as? HTTPURLResponse else { return }
    let text = String(decoding: data, as: UTF8.self)
    if let reason = response.value(forHTTPHeaderField: "Trunkline-Gateway") {
        print("the gateway, \(reason): \(response.statusCode)")
    } else {
        print("the origin: \(response.statusCode), \(text)")
    }
}

try await ask("\(root)/users/7")
try await ask("\(root)/users", "POST", body: Data("ada".utf8))
// These are not on the list, whether or not a server listens there.
try await ask("http://127.0.0.1:1/")
try await ask("http://metadata.internal/token")
// A body that is larger than the gateway accepts.
try await ask("\(root)/users", "PUT", body: Data(count: 2000))

// The same link also carries other requests.
print("echo: \(String(try await client.send(Request(type: 0x410, body: "tea")).body))")
print("requests to the gateway: \(gateway.metrics.requests), to the origin: \(await origin.journal.requestCount)")

await client.close()
await server.stop()
await origin.stop()
print("Gateway: done")
