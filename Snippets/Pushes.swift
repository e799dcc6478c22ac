// Pushes: every consumer has its own bounded buffer, and what did not fit is reported by an element of the stream.

import Trunkline
import TrunklineTesting

// For any request, the server pushes the numbers 1 to 10 and then replies.
let numbers = Reaction.sequence((1...10).map { .push(Frame(.push, type: 0x2, body: Bytes("\($0)"))) })
let server = try await LoopbackServer.start(speaking: .standard) { _ in .sequence([numbers, .echo]) }
// The codec decides the key of a push. Here it is the first character of the body.
let codec = FrameLayout.standard.keyingPushes { push in push.body.isEmpty ? nil : .name(Bytes(push.body.prefix(1))) }
let client = Client(to: server.endpoint, speaking: codec)

// A stream receives pushes from its creation on. A slow consumer affects only its own stream.
let everything = client.pushes()
let latest = client.pushes(ofType: 0x2, buffering: PushBuffering(maximumCount: 3, overflow: .dropOldest))
let earliest = client.pushes(ofType: 0x2, buffering: PushBuffering(maximumCount: 3, overflow: .dropNewest))
let untilFull = client.pushes(ofType: 0x2, buffering: PushBuffering(maximumCount: 3, overflow: .finish))
let others = client.pushes(where: { (0x3...0x400).contains($0.type) })
let even = client.pushes(where: { Int(String($0.body))?.isMultiple(of: 2) == true })
let ones = client.pushes(forKey: "1")

/// Describes the elements of `stream`.
func words(_ stream: PushStream) async -> String {
    var words: [String] = []
    for await push in stream {
        switch push {
        case .message(let frame): words.append(String(frame.body))
        case .dropped(let count): words.append("(\(count) dropped)")
        case .reconnected: words.append("(reconnected)")
        @unknown default: words.append("(another event)")
        }
    }
    return words.joined(separator: " ")
}

// The reply follows the pushes, so when it arrives, they are in the buffers.
_ = try await client.send(Request(type: 0x402))

// A finished stream still returns what is in its buffer.
ones.finish()

// Each stream marks the place where the link was replaced: pushes may be missing there.
await server.disconnectAll()
try await server.wait { $0.connectionCount == 1 }
_ = try await client.send(Request(type: 0x402))

// Closing the client ends the streams. Buffered pushes can still be read.
await client.close()
print("everything:        \(await words(everything))")
print("the latest three:  \(await words(latest))")
print("the earliest three: \(await words(earliest))")
print("until it is full:  \(await words(untilFull))")
print("other types:       \(await words(others))")
print("even numbers:      \(await words(even))")
print("keyed 1:           \(await words(ones))")

await server.stop()
print("Pushes: done")
