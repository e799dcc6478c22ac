import Synchronization
import Testing
import Trunkline
import TrunklineTesting

/// Options for fast tests, with a very short back-off. Deadlines are long: on a busy machine, a task may wait for seconds
/// until it runs.
func quickOptions(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
    ClientOptions { options in
        options = Wire.client(options)
        options.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(20))
        options.connecting.timeout = patience
        options.handshake.timeout = patience
        options.requests.timeout = patience + patience
        change(&options)
    }
}

/// Runs `body` with a server and a client of it.
func withServerAndClient(
    speaking codec: some FrameCodec = FrameLayout.standard,
    options: LoopbackServer.Options = LoopbackServer.Options(),
    clientOptions: ClientOptions = quickOptions(),
    overTLS: Bool = Wire.isSecured,
    handler: @escaping LoopbackServer.Handler = { _ in .echo },
    _ body: nonisolated(nonsending) (LoopbackServer, Client) async throws -> Void
) async throws {
    let clientOptions = Wire.client(clientOptions, overTLS: overTLS)
    let options = Wire.server(options, overTLS: overTLS)
    try await withLoopbackServer(speaking: codec, options: options, handler: handler) { server in
        try await withClient(to: server.endpoint, speaking: codec, options: clientOptions) { client in
            try await body(server, client)
        }
    }
}

/// Runs `body` with a server and a connection to it without a client.
func withServerAndConnection(
    speaking layout: FrameLayout = .standard,
    overTLS: Bool = Wire.isSecured,
    handler: @escaping LoopbackServer.Handler = { _ in .echo },
    _ body: nonisolated(nonsending) (LoopbackServer, Connection) async throws -> Void
) async throws {
    let options = Wire.client(quickOptions(), overTLS: overTLS)
    let serverOptions = Wire.server(LoopbackServer.Options(), overTLS: overTLS)
    try await withLoopbackServer(speaking: layout, options: serverOptions, handler: handler) { server in
        let connection = Connection(to: server.endpoint, speaking: layout, options: ConnectionOptions(options))
        do {
            try await body(server, connection)
        } catch {
            await connection.closeNow()
            throw error
        }
        await connection.closeNow()
    }
}

/// The error that `body` throws.
func failure<Value>(
    _ body: nonisolated(nonsending) () async throws(ClientError) -> Value,
    sourceLocation: SourceLocation = #_sourceLocation
) async -> ClientError? {
    do throws(ClientError) {
        let value = try await body()
        Issue.record("no error, but \(value)", sourceLocation: sourceLocation)
        return nil
    } catch {
        return error
    }
}

/// Sends bodies as they are and takes everything that it receives for pushes: a client that ignores the protocol.
struct RawCodec: FrameCodec {
    var matching: ResponseMatching { .inOrder }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        input.readBytes(input.count).map { Frame(.push, body: $0) }
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        output.append(frame.body)
    }
}

/// A layout with a status, and with bytes that must have a given value.
let strictLayout = FrameLayout {
    Field.constant([0xCA, 0xFE])
    Field.type(UInt16.self)
    Field.serial(UInt32.self)
    Field.status(UInt16.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
    Field.checksum(.adler32, over: .body)
}
.roles {
    $0.ping = 0
    $0.push = 1
    $0.cancel = 2
    $0.success = 200
    $0.serials = 50...
}
