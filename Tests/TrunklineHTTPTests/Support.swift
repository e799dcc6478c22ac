import Foundation
import Testing
import Trunkline
import TrunklineTesting

/// How long tests wait for a condition before they give up. The machine may be busy.
let patience = Duration.seconds(60)

/// Plaintext, or TLS with `TRUNKLINE_TLS` set, as in `TrunklineTests`.
enum Wire {
    private static let isSecured = ProcessInfo.processInfo.environment["TRUNKLINE_TLS"] != nil

    private static let (root, identity) = {
        do throws(TransportError) {
            let authority = try TestAuthority()
            return (authority.root, try authority.identity(for: "db"))
        } catch {
            fatalError("there is no TLS to test: \(error)")
        }
    }()

    static func server() -> LoopbackServer.Options {
        LoopbackServer.Options { if isSecured { $0.tls = .init(identity) } }
    }

    static func client(_ options: ClientOptions) -> ClientOptions {
        ClientOptions {
            $0 = options
            guard isSecured else { return }
            $0.tls.roots = .only(root)
            $0.tls.serverName = "db"
        }
    }

    static func endpoint(_ endpoint: Endpoint) -> Endpoint { isSecured ? endpoint.secured() : endpoint }
}

/// Runs `body` with a server and a client connected to it.
func withServerAndClient(
    speaking codec: some FrameCodec,
    handler: @escaping LoopbackServer.Handler,
    _ body: nonisolated(nonsending) (LoopbackServer, Client) async throws -> Void
) async throws {
    let options = ClientOptions {
        $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(20))
        $0.connecting.timeout = .seconds(60)
        $0.requests.timeout = .seconds(120)
    }
    try await withLoopbackServer(speaking: codec, options: Wire.server(), handler: handler) { server in
        try await withClient(to: server.endpoint, speaking: codec, options: Wire.client(options)) { client in
            try await body(server, client)
        }
    }
}

/// The error that `body` throws.
func failure<Value>(
    _ body: nonisolated(nonsending) () async throws(ClientError) -> Value,
    sourceLocation: SourceLocation = #_sourceLocation
) async -> ClientError? {
    do throws(ClientError) {
        let value = try await body()
        Issue.record("no error was thrown; the result is \(value)", sourceLocation: sourceLocation)
        return nil
    } catch {
        return error
    }
}

/// The error of a failed request; success is recorded as an issue.
func failure(
    of handle: PendingRequest<Response>,
    sourceLocation: SourceLocation = #_sourceLocation
) async -> ClientError? {
    await failure({ () throws(ClientError) in try await handle.value }, sourceLocation: sourceLocation)
}
