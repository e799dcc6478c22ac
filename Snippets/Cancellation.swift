// Giving a request up has three outcomes: it was not sent, the server is told, or it was answered already.

import Trunkline
import TrunklineTesting

// The server answers what it is asked, but for the request "slow", for which it takes an hour.
let server = try await LoopbackServer.start(speaking: .standard) { request in
    request.body == "slow" ? .after(.seconds(3600), .echo) : .echo
}
let client = Client(to: server.endpoint, speaking: .standard)

/// How a request ended.
func outcome(of pending: PendingRequest<Response>) async -> String {
    do {
        return "answered: \(String(try await pending.value.body))"
    } catch {
        return "\(error.code), fate \(error.fate)"
    }
}

// 1. Cancelled before a byte of it is written: nothing is sent, and it is safe to send it again.
await server.stopAccepting()
let unsent = client.start(Request(type: 0x402, body: "unsent"))
unsent.cancel()
print("1. without a link: \(await outcome(of: unsent))")
try await server.resumeAccepting()

// 2. Cancelled when the server has it: the caller goes on at once, and a cancel frame follows.
let slow = client.start(Request(type: 0x402, body: "slow"))
try await server.waitForRequest { $0.body == "slow" }
slow.cancel()
print("2. at the server: \(await outcome(of: slow))")
let cancel = try await server.waitForCancel()
print("   a cancel frame came for the same serial: \(cancel.serial == slow.serial)")

// 3. Cancelled when it was answered: nothing happens.
let quick = client.start(Request(type: 0x402, body: "quick"))
_ = try await quick.value
quick.cancel()
print("3. after the answer: \(await outcome(of: quick))")

// The same by cancelling a task; here a deadline over two calls at once does it.
do {
    try await withTimeout(.milliseconds(100)) {
        async let a = client.send(Request(type: 0x402, body: "slow"))
        async let b = client.send(Request(type: 0x402, body: "slow"))
        _ = try await (a, b)
    }
} catch let error as ClientError {
    print("one deadline over two calls: \(error.code), fate \(error.fate)")
}
let journal = try await server.wait { $0.cancels.count == 3 }
print("cancel frames in all: \(journal.cancels.count)")

await client.close()
await server.stop()
print("Cancellation: done")
