// Verified TLS. The server presents a certificate for its name, issued by a root that the client trusts, and the client
// presents its own certificate. If verification fails, no request is sent.
import Trunkline
import TrunklineTesting

// Certificates for this run only. In production they come from your certification authority; by default the client
// trusts the system's roots.
let authority = try TestAuthority()
// An identity is two PEM texts: `TLSIdentity(certificates: .file("server.pem"), privateKey: .file("server.key"))`.
let identity = try authority.identity(for: "127.0.0.1")
let server = try await LoopbackServer.start(
    speaking: .standard,
    options: LoopbackServer.Options { $0.tls = .init(identity) { $0.clientRoots = authority.root } }
)
let worker = try authority.identity(for: "worker-7", usage: .client)

// snippet.show
var options = ClientOptions()
options.tls.roots = .only(authority.root)
options.tls.identity = worker
let client = Client(to: server.endpoint, speaking: .standard, options: options)  // "tls://127.0.0.1:…"

print("answered: \(try await client.send(Request(type: 0x410, body: "hello")).body == "hello")")
print("over \(await client.diagnostics.tlsSession?.version ?? "plaintext")")
await client.close()

// A server whose certificate is not trusted is refused before a byte of a request is sent.
let stranger = Client(to: server.endpoint, speaking: .standard)
do {
    _ = try await stranger.send(Request(type: 0x410, body: "secret"))
} catch {
    print("\(error.code): \((error.cause as? TransportError)?.code == .tls(.untrusted) ? "untrusted" : "\(error)")")
}
// snippet.hide

await stranger.close()
await server.stop()
print("SecureConnection: done")
