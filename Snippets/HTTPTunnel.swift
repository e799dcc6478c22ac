// HTTP requests that use the long-lived connection, and are sent directly while it is down.

import Foundation
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// An origin, and a gateway that may forward requests to it: see the snippet Gateway.
let origin = try await LoopbackServer.start(speaking: HTTP1Codec()) { frame in
    guard let request = try? HTTP1Request(frame) else { return .close }
    switch request.target {
    case "/log": return .parts(["up\n", "ready\n"], every: .milliseconds(1), then: .reply("down\n"))
    default: return .reply(Bytes("\(request.method) \(request.target), \(request.body.count) bytes"))
    }
}
let root = "http://\(origin.endpoint)"
guard let ours = HTTPOrigin(parsing: root), let user = URL(string: "\(root)/users/7"),
    let log = URL(string: "\(root)/log")
else {
    fatalError("invalid origin: \(root)")
}
let gateway = HTTPGateway(allowing: [ours])
let server = try await LoopbackServer.start(speaking: .standard, handler: gateway.handler)

var post = URLRequest(url: user)
post.httpMethod = "POST"

/// Prints a response and its route.
func show(_ name: String, _ answer: (Data, URLResponse)) {
    let (data, response) = answer
    print("\(name): \(String(decoding: data, as: UTF8.self)) \(response.route == .link ? "[link]" : "[direct]")")
}

let client = Client(to: server.endpoint, speaking: .standard)
try await client.connect()
let tunnel = HTTPTunnel(client)

// 1. The same calls as with a URLSession.
let (data, response) = try await tunnel.data(from: user)
show("1. data", (data, response))
show("   upload", try await tunnel.upload(for: post, from: Data("ada".utf8)))

// 2. Response bodies as they arrive, and request bodies in pieces.
let (body, _) = try await tunnel.bytes(for: URLRequest(url: log))
var size = 0
for try await piece in body { size += piece.count }
print("2. bytes: \(size)")
let pieces = AsyncStream<Data> { stream in
    for name in ["ada, ", "alan, ", "grace"] { stream.yield(Data(name.utf8)) }
    stream.finish()
}
show("   upload in pieces", try await tunnel.upload(for: post, from: pieces))

// 3. The gateway is down: the same calls are sent directly.
await server.kill()
show("3. data", try await tunnel.data(from: user))
show("   upload", try await tunnel.upload(for: post, from: Data("ada".utf8)))

// 4. A policy may prefer an error to the direct route.
do {
    var request = URLRequest(url: user)
    request.timeoutInterval = 0.1
    _ = try await tunnel.data(for: request, policy: .linkOnly)
} catch {
    print("4. link only: \(error.code == .timedOut ? "timed out" : "\(error)")")
}

// 5. The gateway is back, and the requests use the link again.
try await server.resumeAccepting()
try await client.connect()
show("5. data", try await tunnel.data(from: user))

let counts = tunnel.metrics
print("\(counts.link) over the link, \(counts.direct) directly, of which \(counts.fallbacks) because there was no link")

await client.close()
await server.stop()
await origin.stop()
print("HTTPTunnel: done")
