import Testing
import Trunkline
import TrunklineHTTP

@testable import TrunklineTesting

/// Runs `body` in virtual time with a server of HTTP/1.1 at "a:80" and a client of it. At the end no link may be open.
///
/// - Parameters:
///   - onConnect: What the server does when a link is established.
///   - answer: The reaction to a request, or `nil` to respond with the target of the request.
func simulate(
    speaking codec: some FrameCodec = HTTP1Codec(host: "h"),
    onConnect: Reaction? = nil,
    options: ClientOptions = ClientOptions(),
    _ answer: @escaping @Sendable (HTTP1Request) -> Reaction? = { _ in nil },
    _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, Client) async throws -> Void
) throws {
    let network = SimulatedNetwork(seed: 1)
    try network.runBlocking {
        var serverOptions = Wire.server()
        serverOptions.onConnect = onConnect
        let server = try await network.startServer(at: "a:80", speaking: codec, options: serverOptions) { frame in
            guard let request = try? HTTP1Request(frame) else { return .reset }
            return answer(request) ?? .reply(HTTP1Response(body: Bytes(request.target)))
        }
        let options = Wire.client(options)
        let client = Client(to: Wire.endpoint("a:80"), speaking: codec, options: options, on: network.loops)
        try await body(network, server, client)
        await client.close()
        #expect(await client.diagnostics.audit() == [])
        await server.stop()
    }
    #expect(network.openLinks == 0)
}

/// The body of the response to a GET request.
func get(_ target: String, by client: Client, retry: RetryPolicy = .default) async throws -> String {
    String(try await client.send(HTTP1Request(.get, target), options: CallOptions(retry: retry)).body)
}

extension Reaction {
    /// Replies with a response. If that cannot be encoded, the link is reset.
    static func reply(_ response: HTTP1Response) -> Reaction {
        (try? response.frame()).map { .reply($0) } ?? .reset
    }
}
