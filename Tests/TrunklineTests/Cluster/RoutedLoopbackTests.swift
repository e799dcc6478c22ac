import Testing
import TrunklineTesting

@testable import Trunkline

/// Streams and uploads in code that takes any `RequestSender`, on real threads, where the task that hands a request to a
/// client and its reader run at the same time.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct RoutedLoopbackTests {
    /// A sender that has only what every sender must have.
    private struct Wrapper: RequestSender {
        let client: Client

        func perform<Value: Sendable>(
            timeout: Timeout,
            options: CallOptions,
            _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> Value
        ) async throws(ClientError) -> Value {
            await Task.yield()
            return try await body(client, timeout, options)
        }

        func pushes(_ selection: PushSelection, buffering: PushBuffering) -> PushStream {
            client.pushes(selection, buffering: buffering)
        }
    }

    /// Makes a call whose time for each part is very short. Returns the code and the fate of its error.
    private static func call(_ number: Int, of sender: some RequestSender, seed: UInt64) async -> ClientError? {
        var random = SeededGenerator(seed: seed)
        let partTimeout = Timeout.after(.microseconds(Int.random(in: 1...400, using: &random)))
        let (isUpload, isCancelled) = (number % 3 == 0, number % 5 == 0)
        let task = Task { () -> ClientError? in
            let body = Bytes("\(number) ")
            let replies =
                isUpload
                ? sender.open(piece(body), partTimeout: partTimeout).responses
                : sender.stream(ask(body), partTimeout: partTimeout)
            do throws(ClientError) {
                var isOver = false
                for try await response in replies { isOver = !response.isPart }
                return isOver ? nil : ClientError(.protocolViolation, .answered, "the stream ended without an error")
            } catch {
                return error
            }
        }
        if isCancelled {
            for _ in 0..<Int.random(in: 0...5, using: &random) { await Task.yield() }
            task.cancel()
        }
        return await task.value
    }

    /// Compares the fates of many calls with what the server has received.
    private func check(_ sender: some RequestSender, _ ledger: Ledger, from first: Int) async {
        let count = 4000
        let failures = await withTaskGroup(of: [(Int, ClientError)].self) { group in
            for caller in 0..<40 {
                group.addTask {
                    var failures: [(Int, ClientError)] = []
                    for number in stride(from: first + caller, to: first + count, by: 40) {
                        let error = await Self.call(number, of: sender, seed: UInt64(number))
                        if let error { failures.append((number, error)) }
                    }
                    return failures
                }
            }
            return await group.reduce(into: []) { $0 += $1 }
        }
        // Whatever was written by now is received before this.
        _ = try? await sender.send(ask(Bytes("last")))
        for (number, error) in failures {
            let executed = ledger.count(of: number)
            let isTrue = error.fate == .notSent ? executed == 0 : error.fate == .unknown || error.code == .cancelled
            #expect(isTrue, "\(type(of: sender)): call \(number), received \(executed) times, ended with \(error)")
        }
    }

    /// `notSent` was the end of a request that was written a moment later: 433 of 1,935 with a cluster.
    @Test func theFateOfAStreamWithAVeryShortTimeIsExact() async throws {
        let ledger = Ledger()
        let reaction: LoopbackServer.Handler = { request in
            ledger.note(request)
            return request.kind == .part ? .perform { try await join($0) } : .echo
        }
        try await withServerAndClient(handler: reaction) { server, client in
            await check(client, ledger, from: 0)
            await check(Wrapper(client: client), ledger, from: 10_000)
            let found = Discovery.static([ClusterEndpoint(server.endpoint)])
            let cluster = Cluster(discovering: found, speaking: .standard, options: quickOptions())
            try await cluster.connect()
            await check(cluster, ledger, from: 20_000)
            await cluster.closeNow()
        }
    }

    /// The implementations of `start`, `stream` and `open` for a sender that has only `perform` and `pushes`.
    @Test func aSenderThatHasOnlyPerformAndPushesHasEveryCall() async throws {
        @Sendable func ask(_ sender: some RequestSender) async throws -> [String] {
            let request = Request(type: 0x410, body: "hello")
            var bodies = [String(try await sender.send(request).body)]
            bodies += try await sender.send(all: [request]).map { String(try $0.get().body) }
            bodies.append(String(try await sender.start(request).value.body))
            bodies += await words(of: sender.stream(request))
            let upload = sender.open(piece("hel"))
            try await upload.finish(whole("lo"))
            bodies += await words(of: upload.responses)
            bodies.append(String(try await sender.subscribe(request).response?.body ?? ""))
            try await sender.post(request)
            try await sender.enqueue(request)
            return bodies
        }
        let reaction: LoopbackServer.Handler = { $0.kind == .part ? .perform { try await join($0) } : .echo }
        try await withServerAndClient(handler: reaction) { _, client in
            let bodies = try await ask(Wrapper(client: client))
            #expect(bodies == Array(repeating: "hello", count: 6))
        }
    }
}
