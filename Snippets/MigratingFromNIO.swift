// The client of the article Migrating from a NIO handler, as it is after the migration.

import Trunkline
import TrunklineTesting

// Was: MessageDecoder, and the part of RequestHandler that writes the header.
let messages = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles { $0.requests = 1... }

// Was: RequestHandler with its dictionary of promises, and ClientBootstrap.
struct MessageClient {
    let client: Client

    init(endpoint: Endpoint) { client = Client(to: endpoint, speaking: messages) }

    func send(type: UInt32, body: Bytes) async throws(ClientError) -> Bytes {
        try await client.send(Request(type: type, body: body)).body
    }
}

let server = try await LoopbackServer.start(speaking: messages)
let messageClient = MessageClient(endpoint: server.endpoint)
print("echo: \(String(try await messageClient.send(type: 7, body: "hello")))")
await messageClient.client.close()
await server.stop()
print("MigratingFromNIO: done")
