import Synchronization
import Testing
import Trunkline
import TrunklineTesting

/// One-way messages from many threads.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct OneWayLoopbackTests {}

extension OneWayLoopbackTests {
    /// The numbers that a server received, by the caller that sent them.
    private final class Ledger: Sendable {
        private let numbers = Mutex<[Int: [Int]]>([:])

        func note(_ body: Bytes) {
            let words = String(body).split(separator: " ").compactMap { Int($0) }
            guard words.count == 2 else { return }
            numbers.withLock { $0[words[0], default: []].append(words[1]) }
        }

        var all: [Int: [Int]] { numbers.withLock { $0 } }
    }

    @Test func messagesFromManyThreadsArriveOnceAndInOrder() async throws {
        let ledger = Ledger()
        let handler: LoopbackServer.Handler = { request in
            if request.body == "end" { return .echo }
            ledger.note(request.body)
            return .noReply
        }
        // Little room, so that callers wait for room most of the time.
        let options = quickOptions {
            $0.outbound.highWatermark = 16_384
            $0.outbound.lowWatermark = 4096
        }
        try await withServerAndClient(clientOptions: options, handler: handler) { _, client in
            let (callers, count) = (8, 1000)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<callers {
                    group.addTask {
                        for number in 0..<count {
                            let request = ask("\(caller) \(number)")
                            if number % 2 == 0, (try? client.tryEnqueue(request)) != nil { continue }
                            try await client.enqueue(request)
                        }
                    }
                }
                try await group.waitForAll()
            }
            try await expectEcho("end", by: client)
            #expect(await client.metrics.failedMessages == 0)
            let all = ledger.all
            for caller in 0..<callers { #expect(all[caller] == Array(0..<count)) }
        }
    }
}
