// Frames whose first line says how many bytes follow: memcached's text protocol in twelve lines.

import Trunkline
import TrunklineTesting

let codec = CountedPayloadCodec(payloadEnd: "\r\n", maximumFrameSize: 1024 * 1024) { head in
    // VALUE <key> <flags> <bytes>
    head.hasPrefix("VALUE ") ? .count(inWord: 3, of: head) : .absent
}
.requests { head in
    // set <key> <flags> <seconds> <bytes>
    head.hasPrefix("set ") ? .count(inWord: 4, of: head) : .absent
}
.reading { frame in
    if frame.head.hasPrefix("VALUE ") { frame.kind = .part }
    if frame.head == "ERROR" || frame.head.hasPrefix("CLIENT_ERROR ") { frame.isErrorResponse = true }
}

/// Stores a value.
struct Store: TypedRequest {
    static let type: UInt32 = 0
    let key: Bytes
    let value: Bytes
    func encode() -> Bytes { value }
    func prepare(_ request: inout Request) { request.head = "set " + key + " 0 0 \(value.count)" }
    static func decode(_ response: Response) -> Bool { response.head == "STORED" }
}

// A server for this example.
let server = try await LoopbackServer.start(speaking: codec) { request in
    let words = request.head.parts(separatedBy: " ")
    switch words[0] {
    case "set": return .reply(Frame(.response, head: "STORED"))
    case "get":
        let value = Frame(.part, head: "VALUE " + words[1] + " 0 14", body: "ends with \r\n\r\n")
        return .sequence([.part(value), .reply(Frame(.response, head: "END"))])
    default: return .reply(Frame(.response, isErrorResponse: true, head: "ERROR"))
    }
}

try await withClient(to: server.endpoint, speaking: codec) { client in
    let isStored = try await client.send(Store(key: "greeting", value: "ends with \r\n\r\n"))
    precondition(isStored)

    // The values are parts of the reply, each with its own head.
    for try await frame in client.stream(Request(head: "get greeting")) {
        print("\(String(frame.head)): \(frame.body.count) bytes")
    }

    // A key that contains another command is not sent.
    do throws(ClientError) {
        _ = try await client.send(Store(key: "a 0 0 0\r\n\r\nflush_all\r\nset b", value: ""))
    } catch {
        print("\(error.code), fate \(error.fate): \(error.cause.map { "\($0)" } ?? "")")
    }
}
await server.stop()
print("CountedPayload: done")
