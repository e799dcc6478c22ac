// A request that is sent in pieces, as fast as the server reads them, while its reply arrives in parts.

import Trunkline
import TrunklineTesting

let server = try await LoopbackServer.start(speaking: .standard) { _ in
    // Sends the size of each further piece as a part of the reply, and the total size at the end.
    .perform { exchange in
        var size = exchange.request.body.count
        while let piece = try await exchange.next() {
            size += piece.body.count
            if piece.kind != .part { break }
            try await exchange.part("\(piece.body.count) bytes")
        }
        try await exchange.reply(Frame(.response, type: 0x403, body: "\(size) bytes in total"))
    }
}
let client = Client(to: server.endpoint, speaking: .standard)

let chunks: [Bytes] = ["ada, 1815", "alan, 1912", "grace, 1906"]

/// Sends an upload. Every piece except the last has type 0x404.
func upload() async throws {
    let upload = client.open(Request(type: 0x404, body: "name, born"))
    for chunk in chunks {
        // Returns when the kernel has accepted the piece: a slow server slows this loop down.
        try await upload.send(Request(type: 0x404, body: chunk))
    }
    try await upload.finish(Request(type: 0x403, body: "end"))
    for try await response in upload.responses { print(String(response.body)) }
}

try await upload()

await client.close()
await server.stop()
print("PiecewiseUpload: done")
