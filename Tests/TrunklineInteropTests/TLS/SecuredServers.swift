import Foundation
import Trunkline
import TrunklineTesting

/// A certificate authority, and the identities of a server and of a client, as files in the directory of a server.
struct Credentials {
    let authority: TestAuthority
    let client: TLSIdentity
    let directory: String

    var root: String { directory + "/root.pem" }
    var certificate: String { directory + "/server.pem" }
    var key: String { directory + "/server.key" }

    /// Creates the files in the directory of `socketPath`.
    init(besides socketPath: String, validFor names: [String] = ["127.0.0.1", "localhost"]) throws {
        directory = URL(fileURLWithPath: socketPath).deletingLastPathComponent().path
        authority = try TestAuthority()
        client = try authority.identity(for: "client", usage: .client)
        let server = try authority.identity(forNames: names)
        try authority.root.write(toFile: directory + "/root.pem")
        try server.certificates.write(toFile: directory + "/server.pem")
        try server.privateKey.write(toFile: directory + "/server.key")
    }

    /// The options of a client that trusts the authority.
    func options(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
        ClientOptions { options in
            options.tls.roots = .only(authority.root)
            // These tests do not depend on time.
            options.connecting.timeout = .seconds(60)
            options.handshake.timeout = .seconds(60)
            options.requests.timeout = .seconds(500)
            change(&options)
        }
    }
}
