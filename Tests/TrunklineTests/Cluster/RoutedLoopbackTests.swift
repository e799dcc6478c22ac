import Testing
import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// Streams and uploads in code that takes any `RequestSender`, on real threads, where the task that hands a request to a
/// client and its reader run at the same time.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct RoutedLoopbackTests {}

extension RoutedLoopbackTests {
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

    /// Makes a call whose time for each part is very short, in nanoseconds. Returns its error.
    private static func call(_ number: Int, of sender: some RequestSender, within longest: Int) async -> ClientError? {
        var random = SeededGenerator(seed: UInt64(number))
        let partTimeout = Timeout.after(.nanoseconds(Int.random(in: 1...longest, using: &random)))
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

    /// Compares the fates of many calls with what the server has received, until some were not sent and some were. How
    /// short their times must be for that depends on the machine.
    private func check(_ sender: some RequestSender, _ ledger: Ledger, from first: Int) async {
        var (notSent, received, longest) = (0, 0, 400_000)
        for round in 0..<8 where notSent == 0 || received == 0 {
            let numbers = first + round * 4000..<first + (round + 1) * 4000
            let failures = await failures(sender, ledger, numbers, within: longest)
            notSent += failures.count { $0.fate == .notSent }
            received += numbers.count { ledger.count(of: $0) > 0 }
            longest = notSent == 0 ? max(1, longest / 8) : min(longest * 8, 100_000_000)
        }
        #expect(notSent > 0, "\(type(of: sender)): no call has failed before it was sent")
        #expect(received > 0, "\(type(of: sender)): no call was sent")
    }

    /// Makes calls, and compares their fates with what the server has received. Returns their errors.
    private func failures(
        _ sender: some RequestSender,
        _ ledger: Ledger,
        _ numbers: Range<Int>,
        within longest: Int
    ) async -> [ClientError] {
        let failures = await withTaskGroup(of: [(Int, ClientError)].self) { group in
            for caller in 0..<40 {
                group.addTask {
                    var failures: [(Int, ClientError)] = []
                    for number in stride(from: numbers.lowerBound + caller, to: numbers.upperBound, by: 40) {
                        let error = await Self.call(number, of: sender, within: longest)
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
            let isTrue =
                switch error.fate {
                case .notSent: executed == 0
                case .unknown: true
                case .answered: executed > 0 && error.code == .cancelled
                }
            #expect(isTrue, "\(type(of: sender)): call \(number), received \(executed) times, ended with \(error)")
        }
        return failures.map(\.1)
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
            await check(Wrapper(client: client), ledger, from: 100_000)
            let found = Discovery.static([ClusterEndpoint(server.endpoint)])
            let cluster = Cluster(discovering: found, speaking: .standard, options: quickOptions())
            try await cluster.connect()
            await check(cluster, ledger, from: 200_000)
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
