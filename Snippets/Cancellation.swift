// Cancelling a request has three outcomes: it is never sent, the server receives a cancel frame, or it was already
// answered.

import Trunkline
import TrunklineTesting

// The server answers every request at once, except "slow", for which it takes an hour.
let server = try await LoopbackServer.start(speaking: .standard) { request in
    request.body == "slow" ? .after(.seconds(3600), .echo) : .echo
}
let client = Client(to: server.endpoint, speaking: .standard)

/// The outcome of a request.
func outcome(of pending: PendingRequest<Response>) async -> String {
    do {
        return "answered: \(String(try await pending.value.body))"
    } catch {
        return "\(error.code), fate \(error.fate)"
    }
}

// 1. Cancelled before a byte of it is written: nothing is sent, so it is safe to send it again.
await server.stopAccepting()
let unsent = client.start(Request(type: 0x402, body: "unsent"))
unsent.cancel()
print("1. without a link: \(await outcome(of: unsent))")
try await server.resumeAccepting()

// 2. Cancelled after the server received it: the caller resumes at once, and a cancel frame is sent.
let slow = client.start(Request(type: 0x402, body: "slow"))
try await server.waitForRequest { $0.body == "slow" }
slow.cancel()
print("2. in flight: \(await outcome(of: slow))")
let cancel = try await server.waitForCancel()
print("   the server received a cancel frame with the same serial: \(cancel.serial == slow.serial)")

// 3. Cancelled after it was answered: nothing happens.
let quick = client.start(Request(type: 0x402, body: "quick"))
_ = try await quick.value
quick.cancel()
print("3. after the answer: \(await outcome(of: quick))")

// Cancelling the calling task has the same effect. Here a deadline over two concurrent calls cancels them.
do {
    try await withTimeout(.seconds(1)) {
        async let a = client.send(Request(type: 0x402, body: "slow"))
        async let b = client.send(Request(type: 0x402, body: "slow"))
        _ = try await (a, b)
    }
} catch let error as ClientError {
    print("one deadline over two calls: \(error.code), fate \(error.fate)")
}
let journal = try await server.wait { $0.cancels.count == 3 }
print("cancel frames in total: \(journal.cancels.count)")

await client.close()
await server.stop()
print("Cancellation: done")
