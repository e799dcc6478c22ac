// HTTP/1.1 over one long-lived connection: requests are pipelined, and responses arrive in order.

import Trunkline
import TrunklineHTTP
import TrunklineTesting

let codec = HTTP1Codec(host: "users.internal")

// A server for this example.
let server = try await LoopbackServer.start(speaking: codec) { frame in
    guard let request = try? HTTP1Request(frame) else { return .close }
    // The codec turns bytes into responses, and parts into chunks. Below, a response with its own header fields.
    if request.target == "/log" { return .parts(["up\n", "ready\n"], every: .milliseconds(1), then: .reply("down\n")) }
    var response = HTTP1Response(404, reason: "Not Found")
    switch (request.method, request.target) {
    case (.get, "/users/7"), (.head, "/users/7"):
        response = HTTP1Response(200, headers: ["Content-Type": "text/plain"], body: "Ada")
    case (.post, "/users"): response = HTTP1Response(201, headers: ["Location": "/users/\(request.body.count)"])
    case (.get, "/bye"): response = HTTP1Response(200, headers: ["Connection": "close"], body: "bye")
    default: break
    }
    guard let answer = try? response.frame() else { return .close }
    return response.headers["Connection"] == "close" ? .sequence([.reply(answer), .close]) : .reply(answer)
}

try await withClient(to: server.endpoint, speaking: codec) { client in
    let user = try await client.send(HTTP1Request(.get, "/users/7"))
    print(user.status, String(user.body), user.headers["content-type"] ?? "")

    let head = try await client.send(HTTP1Request(.head, "/users/7"))
    print(head.status, "\(head.headers["content-length"] ?? "no") bytes, \(head.body.count) of them here")

    let created = try await client.send(HTTP1Request(.post, "/users", body: "Charles"))
    print(created.status, created.headers["Location"] ?? "")

    // The server ends the connection after a response. The next request uses a new one.
    let bye = try await client.send(HTTP1Request(.get, "/bye"))
    let missing = try await client.send(HTTP1Request(.get, "/users/8"))
    print(String(bye.body), missing.status, missing.reason)

    // A streamed response: first the head, then content as it arrives.
    var log = Bytes()
    let reply = HTTP1ReplyStream(client.stream(try Request(HTTP1Request(.get, "/log"))))
    for try await part in reply {
        switch part {
        case .head(let response): print(response.status, response.headers)
        case .content(let bytes): log += bytes
        case .trailers: break
        }
    }
    print(log.parts(separatedBy: "\n").count - 1, "lines of the log")

    // A value that would inject a header field or another request is never sent.
    do throws(ClientError) {
        _ = try await client.send(HTTP1Request(.get, "/", headers: ["X": "a\r\nEvil: b"]))
    } catch {
        print("\(error.code), fate \(error.fate): \(error.cause.map { "\($0)" } ?? "")")
    }
}
await server.stop()
print("HTTP1: done")
