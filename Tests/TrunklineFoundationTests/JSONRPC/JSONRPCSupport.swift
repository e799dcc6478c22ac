import Synchronization
import Testing
import Trunkline
import TrunklineFoundation

@testable import TrunklineTesting

/// Runs `body` with a server and a client in a simulated network, which speak JSON-RPC.
///
/// - Parameters:
///   - codec: The codec of both sides.
///   - options: The options of the client.
///   - answer: The reaction to a message of the client.
///   - body: Runs in virtual time.
func simulateJSONRPC(
    speaking codec: JSONRPCCodec,
    options: ClientOptions = ClientOptions(),
    _ answer: @escaping @Sendable (JSONRPCCall, Frame) -> Reaction = { _, _ in .echo },
    _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, Client) async throws -> Void
) throws {
    let network = SimulatedNetwork(seed: 1)
    try network.runBlocking {
        let server = try await network.startServer(at: "a:80", speaking: codec) { frame in
            JSONRPCCall(frame).map { answer($0, frame) } ?? .noReply
        }
        let client = Client(to: "a:80", speaking: codec, options: options, on: network.loops)
        try await body(network, server, client)
        await client.close()
        #expect(await client.diagnostics.audit() == [])
        await server.stop()
    }
    #expect(network.openLinks == 0)
}

/// Runs `body` while `client` answers calls of the server.
func whileServing(
    _ client: Client,
    maximumConcurrent: Int = 64,
    maximumWaiting: Int = 1024,
    pause: @escaping @Sendable () async throws -> Void,
    _ handler: @escaping @Sendable (JSONRPCCall) async throws -> (any Encodable & Sendable)?,
    _ body: nonisolated(nonsending) () async throws -> Void
) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
            try await JSONRPCCall.serve(
                client,
                maximumConcurrent: maximumConcurrent,
                maximumWaiting: maximumWaiting,
                handler
            )
        }
        while await client.metrics.serving.maximumConcurrent == 0 { try await pause() }
        try await body()
        group.cancelAll()
        try await group.waitForAll()
    }
}

/// The error of a call.
func rejection<Value>(
    _ body: nonisolated(nonsending) () async throws(ClientError) -> Value,
    sourceLocation: SourceLocation = #_sourceLocation
) async -> ClientError? {
    do throws(ClientError) {
        _ = try await body()
        Issue.record("no error was thrown", sourceLocation: sourceLocation)
        return nil
    } catch {
        return error
    }
}

extension Frame {
    /// A request of a server.
    static func call(_ method: Bytes, _ params: Bytes = "", serial: SerialNumber = 1) -> Frame {
        var frame = Frame(.request, serial: serial, body: params)
        frame[bytes: "method"] = method
        return frame
    }

    /// A notification of a server.
    static func notification(_ method: Bytes, _ params: Bytes = "") -> Frame {
        var frame = Frame(.push, body: params)
        frame[bytes: "method"] = method
        return frame
    }
}

extension Reaction {
    static func failure(_ error: JSONRPCError) -> Reaction { .reply(error.response) }
}

/// The lines of a log.
final class LogLines: Sendable {
    private let lines = Mutex<[String]>([])

    var text: String { lines.withLock { $0.joined(separator: "\n") } }
    func append(_ line: String) { lines.withLock { $0.append(line) } }
}
