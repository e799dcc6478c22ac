// A server that is a child process, spoken to over its standard input and output: as editors start language servers, and
// assistants start tools of the Model Context Protocol. The server of this example is the same program with an argument.

import Foundation
import Trunkline
import TrunklineFoundation

// The server: a line of JSON for each request, and one for each response. What it writes to standard error is logged.
struct Call: Decodable {
    var id: Int?
    var method: String
    var params: [String: [Int]]?
}

if CommandLine.arguments.dropFirst().first == "serve" {
    FileHandle.standardError.write(Data("serving\n".utf8))
    while let line = readLine() {
        guard let call = try? JSONDecoder().decode(Call.self, from: Data(line.utf8)), let id = call.id else { continue }
        if call.method == "crash" { exit(3) }
        let sum = call.params?["numbers"]?.reduce(0, +) ?? 0
        FileHandle.standardOutput.write(Data("{\"jsonrpc\":\"2.0\",\"id\":\(id),\"result\":\(sum)}\n".utf8))
    }
    exit(0)
}

// 1. The client starts the program when it needs a link. It looks for a name without a slash in `PATH`.
let program = Bundle.main.executablePath ?? CommandLine.arguments[0]
let options = ClientOptions { options in
    options.logging = ClientLogging { record in
        if record.event == "process.output" { print("log: \(record.fields.last.map { "\($0.value)" } ?? "")") }
    }
    options.reconnecting.policy = Backoff(base: .milliseconds(20))
}
let tool = Endpoint.command(program, ["serve"], environment: ["TOOL_MODE": "example"])
let client = Client(to: tool, speaking: JSONRPCCodec.modelContext, options: options)
let sum = JSONRPCRequest("sum", ["numbers": [1, 2, 3]], replyingWith: Int.self)
print("1. \(try await client.send(sum))")

// 2. If the process ends, the requests in flight fail, with the exit. Requests that were not written wait for the next one.
do throws(ClientError) {
    _ = try await client.send(JSONRPCRequest("crash", replyingWith: Int.self))
} catch {
    let exit = (error.cause as? TransportError)?.exit
    print("2. \(error.code), fate \(error.fate): \(exit.map { "\($0)" } ?? "?")")
}

// 3. The reconnect policy starts the program again.
print("3. \(try await client.send(sum))")

// 4. Closing closes the standard input, and returns when the process has ended.
await client.close()
print("ChildProcess: done")
