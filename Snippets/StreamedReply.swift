// A reply in parts: read as it comes, given up early, or had in one piece.

import Trunkline
import TrunklineTesting

/// The twelve-byte header, in which the top bit of a response's type says that more of the reply follows.
struct PartsCodec: FrameCodec {
    var side: any FrameCodec = FrameLayout.standard
    var matching: ResponseMatching { side.matching }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard var frame = try side.decode(&input) else { return nil }
        if frame.kind == .response, frame.type & 0x8000_0000 != 0 { frame.kind = .part }
        return frame
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        var frame = frame
        if frame.kind == .part { frame.type |= 0x8000_0000 }
        try side.encode(frame, into: &output)
    }

    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { side.cancelFrame(for: serial, type: type) }
    func serverSide() -> any FrameCodec { PartsCodec(side: side.serverSide()) }
}

/// Asks for rows; every part of the reply is one.
struct Rows: TypedRequest {
    static let type: UInt32 = 0x410
    func encode() -> Bytes { "rows" }
    static func decode(_ response: Frame) -> String { String(response.body) }
}

let rows: [Bytes] = ["ada, 1815", "alan, 1912", "grace, 1906"]
let server = try await LoopbackServer.start(speaking: PartsCodec()) { request in
    request.body == "rows" ? .parts(rows, then: .reply("3 rows")) : .endlessParts("tick")
}
let client = Client(to: server.endpoint, speaking: PartsCodec())

// Every part as it comes, the response last. Reading pauses while the loop is busy with a part.
for try await row in try client.stream(Rows()) { print(row) }

// Leaving the loop tells the server to stop.
var ticks = 0
for try await part in client.stream(Request(type: 0x411, body: "ticks"), partTimeout: .seconds(2)) {
    ticks += part.kind == .part ? 1 : 0
    if ticks == 3 { break }
}
try await server.wait { $0.cancelCount == 1 }
print("\(ticks) ticks, then cancelled")

// `send` joins the bodies.
let whole = try await client.send(Request(type: 0x410, body: "rows"))
print("in one piece: \(whole.body.count) bytes")

await client.close()
await server.stop()
print("StreamedReply: done")
