// A custom wire format, declared as a layout. The client and the test server both use it.

import Trunkline
import TrunklineTesting

let acme = FrameLayout {
    Field.constant([0xCA, 0xFE])
    Field.type(UInt16.self)
    Field.serial(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
    Field.checksum(.adler32, over: .body)
}
.roles {
    $0.ping = 0
    $0.push = 1
    $0.cancel = 2
    $0.serials = 50...
}

/// The bytes of `frame` in hexadecimal.
func bytes(of frame: Frame) throws -> String {
    var output = SendBuffer()
    try acme.encode(frame, into: &output)
    return output.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(separator: " ")
}

let server = try await LoopbackServer.start(speaking: acme) { request in
    request.body == "ping pong" ? .sequence([.push(Frame(.push, type: 1, body: "pong")), .echo]) : .echo
}
try await withClient(to: server.endpoint, speaking: acme) { client in
    let pushes = client.pushes()
    let reply = try await client.send(Request(type: 7, body: "ping pong"))
    print("request: \(try bytes(of: Frame(.request, type: 7, serial: reply.serial, body: "ping pong")))")
    print("reply:   \(reply)")
    for await push in pushes.messages.prefix(1) { print("push:    \(push)") }

    let pending = client.start(Request(type: 7))
    _ = try await pending.value
    print("cancel:  \(try bytes(of: Frame(.cancel, serial: 51)))")

    // Bytes that do not match the layout end the link, and the error says why.
    await server.script(.garbage([0xCA, 0xFF, 0, 7]))
    do {
        _ = try await client.send(Request(type: 7))
    } catch let error as ClientError {
        print("garbage: \(error.code), fate \(error.fate); \(error.cause.map { "\($0)" } ?? "")")
    }
    let again = try await client.send(Request(type: 7, body: "a new link"))
    print("again:   \(String(again.body))")
}
await server.stop()
print("CustomLayout: done")
