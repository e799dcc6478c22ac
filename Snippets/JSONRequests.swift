// JSON requests and responses: the request body is Encodable, the response is Decodable.

import Foundation
import Trunkline
import TrunklineFoundation
import TrunklineTesting

struct Search: Codable, Sendable {
    var namePrefix: String
}

struct Person: Codable, Sendable {
    var fullName: String
    var born: Int
}

// A server for this example. It knows one person. For other names, it returns one with an invalid year.
let server = try await LoopbackServer.start(speaking: .standard) { frame in
    switch (frame.type, String(frame.body)) {
    case (0x402, #"{"namePrefix":"Ada"}"#): .reply(#"[{"fullName":"Ada Lovelace","born":1815}]"#)
    case (0x412, #"{"name_prefix":"Ada"}"#): .reply(#"[{"full_name":"Ada Lovelace","born":1815}]"#)
    default: .reply(#"[{"fullName":"Nobody","born":"long ago"}]"#)
    }
}
let client = Client(to: server.endpoint, speaking: .standard)

// 1. A request of type 0x402, encoded with Foundation's defaults and sorted keys.
let people = try await client.send(JSONRequest(Search(namePrefix: "Ada"), replyingWith: [Person].self))
for person in people { print("1. \(person.fullName), \(person.born)") }

// 2. Another type, and snake-case keys. Like every typed request, it can be cached.
extension JSONRequest {
    static func snakeCase(_ body: Body, replyingWith reply: Reply.Type) -> JSONRequest {
        var request = JSONRequest(body, replyingWith: reply)
        request.type = 0x412
        request.encoder.keyEncodingStrategy = .convertToSnakeCase
        request.decoder.keyDecodingStrategy = .convertFromSnakeCase
        return request
    }
}
let cached = CachingSender(client)
for _ in 1...2 {
    let search = JSONRequest.snakeCase(Search(namePrefix: "Ada"), replyingWith: [Person].self)
    let people = try await cached.send(search, cache: .for(.seconds(60)))
    print("2. \(people.map(\.fullName).joined(separator: ", "))")
}

// 3. If a response cannot be decoded, the error has the coding path and an excerpt.
do throws(ClientError) {
    _ = try await client.send(JSONRequest(Search(namePrefix: "N"), replyingWith: [Person].self))
} catch {
    let cause = error.cause as? JSONDecodingError
    print("3. \(error.code), fate \(error.fate), at \(cause?.codingPath.joined(separator: ".") ?? "?")")
    print("   \(cause.map { String($0.excerpt) } ?? "")")
}

await client.close()
await server.stop()
print("JSONRequests: done")
