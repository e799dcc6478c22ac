// A tour: connect, send concurrent requests, receive pushes, cancel, time out, close.

import Trunkline
import TrunklineLoopback

/// A typed request encodes its own body and decodes its response.
struct Add: TypedRequest {
    let a: Int, b: Int
    static let type: UInt32 = 0x410
    func encode() -> Bytes { Bytes("\(a)+\(b)") }
    static func decode(_ response: Response) throws -> Int {
        String(response.body).split(separator: "+").compactMap { Int($0) }.reduce(0, +)
    }
}

// A server for this example: it echoes every request, except type 0x411, which it never answers.
let server = try await LoopbackServer.start(speaking: .standard) { $0.type == 0x411 ? .noReply : .echo }

// One client, one connection, many requests. `connect()` is optional: the first request connects, too.
let client = Client(to: server.endpoint, speaking: .standard)
try await client.connect()
print("connected")

// Concurrent requests share the connection. Each gets its own response.
async let first = client.send(Request(type: 0x402, body: "one"))
async let second = client.send(Request(type: 0x402, body: "two"))
let (one, two) = try await (first, second)
print("echoes: \(String(one.body)), \(String(two.body))")

// A typed request returns the decoded value.
print("2 + 3 = \(try await client.send(Add(a: 2, b: 3)))")

// Pushes are an AsyncSequence. The stream buffers from now on.
let news = client.pushes(ofType: 0x2).messages.prefix(2)
_ = try await client.send(Request(type: 0x402))  // once answered, the stream is registered
for text: Bytes in ["good", "better"] { try await server.push(Frame(.push, type: 0x2, body: text)) }
for await message in news { print("pushed: \(String(message.body))") }

// Cancelling a request sends a cancel frame to the server.
let pending = client.start(Request(type: 0x411))
let asked = try await server.waitForRequest { $0.type == 0x411 }
pending.cancel()
let cancel = try await server.waitForCancel(of: asked.serial)
print("the server received the cancellation of this request: \(cancel.serial == asked.serial)")

// Every error says what became of its request.
do {
    _ = try await client.send(Request(type: 0x411), timeout: .milliseconds(100))
} catch {
    print("timed out: \(error.code == .timedOut); fate of the request: \(error.fate)")
}

// Closing waits for the requests in flight, then closes the connection.
await client.close()
try await server.wait { $0.connectionCount == 0 }
await server.stop()
print("QuickStart: done")
