// JSON-RPC 2.0 in both directions: a client of a language server. The server is part of this example.

import Foundation
import Trunkline
import TrunklineFoundation
import TrunklineTesting

// The calls of the protocol, each in one place.
struct Position: Codable, Sendable {
    var line: Int
    var character: Int
}

struct Hover: Codable, Sendable {
    var contents: String
}

extension TypedRequest where Self == JSONRPCRequest<Position, Hover?> {
    static func hover(_ position: Position) -> Self { Self("textDocument/hover", position) }
}

struct Diagnostics: Codable, Sendable {
    var uri: String
    var messages: [String]
}

struct Edit: Codable, Sendable {
    var label: String
}

// A server for this example. It publishes diagnostics when a file is opened, and to execute a command, it calls the client.
let server = try await LoopbackServer.start(speaking: JSONRPCCodec.languageServer) { frame in
    guard let call = JSONRPCCall(frame) else { return .close }
    switch call.method {
    case "textDocument/hover": return .reply(#"{"contents":"func f()"}"#)
    case "textDocument/didOpen":
        var diagnostics = Frame(.push, body: #"{"uri":"file:///a.swift","messages":["unused variable"]}"#)
        diagnostics[bytes: "method"] = "textDocument/publishDiagnostics"
        return .push(diagnostics)
    case "workspace/executeCommand":
        var edit = Frame(.request, serial: 1, body: #"{"label":"Fix it"}"#)
        edit[bytes: "method"] = "workspace/applyEdit"
        return .perform { [edit] exchange in
            let answer = try await server.request(edit)
            try await exchange.reply(Frame(.response, body: answer.body))
        }
    case "initialize", "shutdown", "exit": return frame.serial == 0 ? .noReply : .reply("{}")
    default: return .reply(JSONRPCError(.methodNotFound, "no method \(call.method)").response)
    }
}

// 1. Every link begins with the handshake of the protocol.
let options = ClientOptions { options in
    options.handshake.perform = { link in
        _ = try await link.send(JSONRPCRequest("initialize", ["processId": 1], replyingWith: JSONRPCVoid.self))
        try await link.post(Request(JSONRPCNotification("initialized")))
    }
}
let client = Client(to: server.endpoint, speaking: JSONRPCCodec.languageServer, options: options)

// 2. A request with typed parameters and a typed result.
let hover = try await client.send(.hover(Position(line: 3, character: 7)))
print("2. \(hover?.contents ?? "nothing")")

// 3. Notifications in both directions. Pushes are selected by their method.
let diagnostics = client.pushes(forKey: "textDocument/publishDiagnostics").messages
try await client.post(Request(JSONRPCNotification("textDocument/didOpen", ["uri": "file:///a.swift"])))
for await message in diagnostics.prefix(1) {
    guard let call = JSONRPCCall(message) else { continue }
    print("3. \(try call.params(as: Diagnostics.self).messages)")
}

// 4. Requests of the server are answered by a handler.
let serving = Task {
    try await JSONRPCCall.serve(client) { call in
        switch call.method {
        case "workspace/applyEdit":
            print("4. apply: \(try call.params(as: Edit.self).label)")
            return ["applied": true]
        default: return nil  // the server receives -32601, Method not found
        }
    }
}
while await client.metrics.serving.maximumConcurrent == 0 { await Task.yield() }  // until the handler is in place
let command = JSONRPCRequest("workspace/executeCommand", ["command": "fix"], replyingWith: [String: Bool].self)
print("4. \(try await client.send(command))")

// 5. An error of the server.
do throws(ClientError) {
    _ = try await client.send(JSONRPCRequest("no/such/method", replyingWith: JSONRPCVoid.self))
} catch {
    let failure = JSONRPCError(error)
    print("5. \(error.code): \(failure?.message ?? "?"), \(failure?.code == .methodNotFound)")
}

// 6. LSP wants `shutdown` before the end. `close` sends `exit`.
_ = try await client.send(JSONRPCRequest("shutdown", replyingWith: JSONRPCVoid.self))
await client.close()
try await serving.value
await server.stop()
print("JSONRPC: done")
