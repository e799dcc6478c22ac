// Caching responses for later callers, and coalescing equal requests.

import Trunkline
import TrunklineTesting

// The server takes 100 ms for every response.
let server = try await LoopbackServer.start(speaking: .standard) { request in
    .after(.milliseconds(100), .reply("one euro is 1.08 dollars"))
}
let client = Client(to: server.endpoint, speaking: .standard)
let cached = CachingSender(client)
let getRates = Request(type: 0x402, body: "EUR")

// 1. A thousand callers at once: the server receives one request.
await withTaskGroup(of: Void.self) { group in
    for _ in 0..<1000 {
        group.addTask { _ = try? await cached.send(getRates, cache: .for(.seconds(60))) }
    }
}
print("1. requests that the server received: \(await server.journal.requestCount)")

// 2. A response that is fresh enough is returned at once.
let rates = try await cached.send(getRates, cache: .for(.seconds(60)))
print("2. \(String(rates.body)); requests: \(await server.journal.requestCount)")

// 3. One policy always sends a request; another never does.
_ = try await cached.send(getRates, cache: .reloadIgnoringCache)
print("3. after a reload, requests: \(await server.journal.requestCount)")
do {
    _ = try await cached.send(Request(type: 0x402, body: "USD"), cache: .returnCacheElseFail)
} catch {
    print("   for a response that was never cached: \(error.code), fate \(error.fate)")
}

// 4. A caller that cancels does not affect the others. The cancel frame is sent when the last one cancels.
let slow = Request(type: 0x402, body: "slow")
await server.script(.noReply)
let shares = cached.metrics.shares
let impatient = Task { try await cached.send(slow, cache: .for(.seconds(60)), timeout: .seconds(30)) }
let patient = Task { try await cached.send(slow, cache: .for(.seconds(60)), timeout: .seconds(30)) }
try await server.waitForRequest { $0.body == "slow" }
// Wait until both calls share the request.
while cached.metrics.shares == shares { try await Task.sleep(for: .milliseconds(1)) }
impatient.cancel()
_ = await impatient.result
print("4. one has cancelled, cancel frames: \(await server.journal.cancels.count)")
patient.cancel()
_ = await patient.result
try await server.waitForCancel()
print("   both have cancelled, cancel frames: \(await server.journal.cancels.count)")

// 5. A custom cache key, and removing a response that has changed on the server.
let user = CachePolicy.for(.seconds(60)).keyed(by: "user 7")
_ = try await cached.send(Request(type: 0x402, body: "user 7, asked at 12:00"), cache: user)
_ = try await cached.send(Request(type: 0x402, body: "user 7, asked at 12:01"), cache: user)
cached.removeCachedResponse(for: "user 7")
_ = try await cached.send(Request(type: 0x402, body: "user 7, asked at 12:02"), cache: user)
print("5. of three calls, requests: \(await server.journal.requests.count { String($0.body).hasPrefix("user 7") })")

// 6. The server is down: a stale response may be better than none.
await server.stop()
let old = try await cached.send(getRates, cache: .staleIfUnavailable, timeout: .milliseconds(200))
print("6. \(String(old.body))")

let counts = cached.metrics
print("hits: \(counts.hits), stale: \(counts.staleHits), responses kept: \(counts.count)")
await client.closeNow()
print("CachedRequests: done")
