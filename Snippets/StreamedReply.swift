// A reply in parts: read as it comes, given up early, or had in one piece.

import Trunkline
import TrunklineTesting

/// The twelve-byte header, in which the top bit of a response's type says that more of the reply follows.
let layout = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles(ping: 0x1, push: .types(0x2...0x400), cancel: 0x401, part: .bit(31), serials: 50...)

/// Asks for rows; every part of the reply is one.
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

// Every part as it comes, the response last. Reading pauses while the loop is busy with a part.
for try await row in try client.stream(Rows()) { print(row) }

/// Counts three of the parts of a reply that has no end. Leaving the loop tells the server to stop.
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

// `send` joins the bodies.
let whole = try await client.send(Request(type: 0x410, body: "rows"))
print("in one piece: \(whole.body.count) bytes")

await client.close()
await server.stop()
print("StreamedReply: done")
