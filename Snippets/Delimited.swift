// Lines of text, pipelined: `DelimitedCodec` finds the frames, and a closure sets their kinds.

import Trunkline
import TrunklineTesting

let codec = DelimitedCodec(delimiter: "\r\n", maximumFrameSize: 512)
    .heartbeat(ping: "PING", pong: "PONG")
    .reading { frame in
        if frame.body.hasPrefix("-") { frame.isErrorResponse = true }
        if frame.body.hasPrefix("MSG ") { frame.kind = .push }
    }

// A server for this example.
let server = try await LoopbackServer.start(speaking: codec) { request in
    let words = request.body.parts(separatedBy: " ")
    switch words[0] {
    case "ECHO": return .reply("+" + words[1])
    case "SAY": return .sequence([.push(Frame(.push, body: "MSG " + words[1])), .reply("+OK")])
    default: return .reply("-unknown command")
    }
}

try await withClient(to: server.endpoint, speaking: codec) { client in
    // All requests in one write. The responses are matched in order.
    let replies = await client.send(all: ["ECHO one", "SHOUT", "ECHO two"].map { Request(body: Bytes($0)) })
    for reply in replies {
        switch reply {
        case .success(let frame): print(String(frame.body.dropFirst()))
        case .failure(let error): print("\(error.code): \(error.response.map { String($0.body) } ?? "")")
        }
    }
    precondition(replies.count == 3 && (try? replies[2].get().body) == "+two")

    // Pushes arrive between the responses.
    let pushes = client.pushes()
    _ = try await client.send(Request(body: "SAY hello"))
    for await push in pushes.messages.prefix(1) { print("pushed: \(String(push.body.dropFirst(4)))") }

    // A request that contains the delimiter would be two frames, so it is not sent.
    do throws(ClientError) {
        _ = try await client.send(Request(body: "ECHO a\r\nECHO b"))
    } catch {
        print("\(error.code), fate \(error.fate): \(error.cause.map { "\($0)" } ?? "")")
    }
}
await server.stop()
print("Delimited: done")
