// The server side of HTTP over the link: a gateway asks origins for its clients, those on its list and no others.

import Foundation
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// An origin is any server of HTTP. This one says what it was asked.
let origin = try await LoopbackServer.start(speaking: HTTP1Codec()) { frame in
    guard let request = try? HTTP1Request(frame) else { return .close }
    return .reply(Bytes("\(request.method) \(request.target), \(request.body.count) bytes"))
}
let root = "http://\(origin.endpoint)"

// The gateway. An address on its list may be one of this machine; a name may lead there only if the list says so.
guard let ours = HTTPOrigin(parsing: root) else { fatalError("\(root) is no origin") }
let gateway = HTTPGateway(
    allowing: [ours, "https://api.example.com"],
    options: HTTPGateway.Options { $0.maximumRequestBody = 1024 }
)

// It is what the server does about HTTP; about everything else it does what it always did.
let server = try await LoopbackServer.start(speaking: .standard) { frame in
    gateway.reaction(to: frame) ?? .echo
}

// A client of the gateway, which here goes no other way.
let client = Client(to: server.endpoint, speaking: .standard)
let tunnel = HTTPTunnel(client, options: HTTPTunnel.Options { $0.policy = .linkOnly })

/// Asks, and prints the answer and whose it is: what the gateway says itself has a field that says why.
func ask(_ address: String, _ method: String = "GET", body: Data? = nil) async throws {
    guard let url = URL(string: address) else { return print("\(address) is no URL") }
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
// Not on the list, whoever is there.
try await ask("http://127.0.0.1:1/")
try await ask("http://metadata.internal/token")
// More than it takes.
try await ask("\(root)/users", "PUT", body: Data(count: 2000))

// The same link carries what it always did.
print("echo: \(String(try await client.send(Request(type: 0x410, body: "tea")).body))")
print("asked of the gateway: \(gateway.statistics.requests), of the origin: \(await origin.journal.requestCount)")

await client.close()
await server.stop()
await origin.stop()
print("Gateway: done")
