// A reply in parts: streamed as it arrives, cancelled early, or joined into one response.

import Trunkline
import TrunklineTesting

/// A twelve-byte header. If the highest bit of a response's type is set, more of the reply follows.
let layout = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles {
    $0.ping = 0x1
    $0.push = .types(0x2...0x400)
    $0.cancel = 0x401
    $0.part = .bit(31)
    $0.serials = 50...
}

/// Requests rows. Every part of the reply is one row.
struct Rows: TypedRequest {
    static let type: UInt32 = 0x410
    func encode() -> Bytes { "rows" }
    static func decode(_ response: Response) -> String { String(response.body) }
}

let rows: [Bytes] = ["ada, 1815", "alan, 1912", "grace, 1906"]
let server = try await LoopbackServer.start(speaking: layout) { request in
    request.body == "rows" ? .parts(rows, then: .reply("3 rows")) : .endlessParts("tick")
}
let client = Client(to: server.endpoint, speaking: layout)

// The parts as they arrive, and the response last. If too many parts are unread, the client stops reading from the link.
for try await row in try client.stream(Rows()) { print(row) }

/// Reads three parts of a reply that has no end. Leaving the loop cancels the request on the server.
func countTicks() async throws -> Int {
    var ticks = 0
    for try await part in client.stream(Request(type: 0x411, body: "ticks"), partTimeout: .seconds(2))
    where part.isPart {
        ticks += 1
        if ticks == 3 { break }
    }
    return ticks
}

let ticks = try await countTicks()
try await server.wait { $0.cancels.count == 1 }
print("\(ticks) ticks, then cancelled")

// `send` joins the bodies of the parts.
let whole = try await client.send(Request(type: 0x410, body: "rows"))
print("joined: \(whole.body.count) bytes")

await client.close()
await server.stop()
print("StreamedReply: done")
