// A client for a small key-value server, step by step.

import Trunkline
import TrunklineTesting

// The frames of the server, field by field.
let shelf = FrameLayout {
    Field.constant([0x53, 0x48])
    Field.type(UInt16.self)
    Field.serial(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles {
    $0.ping = 0
    $0.push = 1
    $0.cancel = 2
    $0.failure = 3
}

/// Reads the value of a key.
struct Get: TypedRequest {
    static let type: UInt32 = 16
    static let retry = RetryPolicy.idempotent()  // it only reads, so it may be sent again
    let key: String
    func encode() -> Bytes { Bytes(key) }
    static func decode(_ response: Response) -> String { String(response.body) }
}

/// Changes the value of a key.
struct Put: TypedRequest {
    static let type: UInt32 = 17
    let key: String, value: String
    func encode() -> Bytes { Bytes("\(key)=\(value)") }
    static func decode(_ response: Response) {}
}

// While the real server is not at hand, a test server speaks the same frames.
let server = try await LoopbackServer.start(speaking: shelf) { request in
    switch (request.type, request.body) {
    case (15, "secret"): .echo
    case (16, "color"): .reply("blue")
    case (17, _): .sequence([.reply(""), .push(Frame(.push, type: 1, body: "color"))])
    default: .reply(Frame(.response, type: 3, isErrorResponse: true, body: "unknown key"))
    }
}

// One client for the whole program.
let client = Client(
    to: server.endpoint,
    speaking: shelf,
    options: ClientOptions { options in
        options.requests.timeout = .seconds(2)
        options.handshake.perform = { link in
            do throws(ClientError) {
                _ = try await link.send(Request(type: 15, body: "secret"))
            } catch {
                guard error.code == .rejected else { throw error }
                throw HandshakeRefusal("the password was refused")
            }
        }
    }
)

// Requests. Any number of tasks may send at the same time.
print("color: \(try await client.send(Get(key: "color")))")

// Errors: what happened, and whether the server may have carried out the request.
do {
    _ = try await client.send(Get(key: "size"))
} catch {
    print("\(error.code), \(error.fate): \(error.response.map { String($0.body) } ?? "")")
}

// A deadline for one call. When it is exceeded, the server receives a cancel frame.
await server.script(.noReply)
do {
    _ = try await client.send(Get(key: "color"), timeout: .seconds(1))
} catch {
    print("\(error.code), \(error.fate)")
}

// Pushes: the stream listens from here on.
let changes = client.pushes(ofType: 1)
try await client.send(Put(key: "color", value: "green"))
for await push in changes.messages.prefix(1) { print("changed: \(String(push.body))") }

// The link is lost. The next request goes out on the next link, after the handshake.
await server.disconnectAll()
print("color: \(try await client.send(Get(key: "color")))")

await client.close()
await server.stop()
print("GettingStarted: done")
