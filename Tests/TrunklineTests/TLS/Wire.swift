import Foundation
import Trunkline
import TrunklineTesting

/// What the tests of behaviour run over: plaintext, or TLS with `TRUNKLINE_TLS` set. The same tests, the same assertions.
enum Wire {
    static let isSecured = ProcessInfo.processInfo.environment["TRUNKLINE_TLS"] != nil

    private static let authority = Result { () throws(TransportError) in try TestAuthority() }

    /// The same server, for the names that the tests have for it.
    static func server(_ options: LoopbackServer.Options, overTLS: Bool = isSecured) throws -> LoopbackServer.Options {
        guard overTLS, options.tls == nil else { return options }
        let identity = try authority.get().identity(forNames: ["127.0.0.1", "localhost", "db"])
        return LoopbackServer.Options {
            $0 = options
            $0.tls = .init(identity)
        }
    }

    /// The same client, which believes that server.
    static func client(_ options: ClientOptions, overTLS: Bool = isSecured) throws -> ClientOptions {
        guard overTLS else { return options }
        let root = try authority.get().root
        return ClientOptions {
            $0 = options
            $0.tls.roots = .only(root)
            $0.tls.serverName = "db"
        }
    }

    /// The same endpoint.
    static func endpoint(_ endpoint: Endpoint, overTLS: Bool = isSecured) -> Endpoint {
        overTLS ? endpoint.secured() : endpoint
    }
}
