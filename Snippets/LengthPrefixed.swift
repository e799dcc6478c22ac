// A length, then a body with a serial number: `LengthPrefixedCodec`, and typed requests that leave room for the serial.

import Trunkline
import TrunklineTesting

// Length (4 bytes, big-endian), then a body: serial (8), verb (1), text.
let codec = LengthPrefixedCodec(UInt32.self, maximumFrameSize: 64 * 1024)
    .serial(at: 0, UInt64.self)
    .type(at: 8, UInt8.self)
    .heartbeat(ping: "ping", pong: "pong")

/// The codec writes the serial number and the type over the first nine bytes of the body.
struct Reversed: TypedRequest {
    static let type: UInt32 = 1
    let text: String
    func encode() -> Bytes { Bytes(repeating: 0, count: 9) + Bytes(text) }
    static func decode(_ response: Response) -> String { String(response.body.dropFirst(9)) }
}

// A server for this example. It delays the long responses, so that others overtake them.
let server = try await LoopbackServer.start(speaking: codec) { request in
    let text = String(request.body.dropFirst(9))
    let reply = Bytes(repeating: 0, count: 9) + Bytes(String(text.reversed()))
    return text.utf8.count > 3 ? .after(.milliseconds(20), .reply(reply)) : .reply(reply)
}

try await withClient(to: server.endpoint, speaking: codec) { client in
    async let slow = client.send(Reversed(text: "trunkline"))
    async let quick = client.send(Reversed(text: "abc"))
    let (first, second) = try await (slow, quick)
    print(first, second)
    precondition(first == "enilknurt" && second == "cba")

    // On the wire: the length of the body, the serial number, the verb and the text.
    var (output, encoder) = (SendBuffer(), codec)
    try encoder.encode(Frame(.request, type: 1, serial: 7, body: Reversed(text: "abc").encode()), into: &output)
    print(output.bytes)
    precondition(output.bytes == [0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 7, 1] + Array("abc".utf8))

    // A request that is too large is refused before a byte of it is written.
    do throws(ClientError) {
        _ = try await client.send(Reversed(text: String(repeating: "x", count: 65_536)))
    } catch {
        print("\(error.code), fate \(error.fate): \(error.cause.map { "\($0)" } ?? "")")
    }
}
await server.stop()
print("LengthPrefixed: done")
