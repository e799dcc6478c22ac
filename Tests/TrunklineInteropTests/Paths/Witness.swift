import Trunkline

/// Callers of one client that send one request after the other, and a record of what they observe.
final class Witness: Sendable {
    /// A request and its response.
    struct Call {
        let began, ended: ContinuousClock.Instant
        var duration: Duration { ended - began }
    }

    struct Seen {
        var calls: [Call] = []
        var failures: [ClientError] = []
        var states: [(state: ConnectionState, at: ContinuousClock.Instant)] = []
        var reports: [DisconnectReport] = []
    }

    let client: Client
    private let callers: Int
    private let pause: Duration
    private let retry: RetryPolicy
    private let timeout: Timeout
    private let record = Lock(Seen())
    private let isOver = Lock(false)

    /// - Parameters:
    ///   - callers: The number of callers.
    ///   - pause: How long each caller waits after a response.
    init(
        _ client: Client,
        callers: Int = 1,
        pause: Duration = .milliseconds(2),
        retry: RetryPolicy = .default,
        timeout: Timeout = .after(.seconds(60))
    ) {
        (self.client, self.callers, self.pause) = (client, callers, pause)
        (self.retry, self.timeout) = (retry, timeout)
    }

    var seen: Seen { record.withLock { $0 } }
    var count: Int { record.withLock { $0.calls.count } }
    /// The number of links that the client has had.
    var links: Int { get async { await client.metrics.connection.links } }

    // MARK: Requests

    /// Runs `body` while all `witnesses` send requests, and closes their clients afterwards.
    static func observe(
        _ witnesses: [Witness],
        while body: nonisolated(nonsending) () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup { group in
            for witness in witnesses {
                let (states, reports) = (witness.client.states, witness.client.disconnects)
                group.addTask {
                    for await state in states {
                        let now = ContinuousClock.now
                        witness.record.withLock { $0.states.append((state, now)) }
                    }
                }
                group.addTask { for await report in reports { witness.record.withLock { $0.reports.append(report) } } }
                group.addTask { await witness.runCallers() }
            }
            defer { for witness in witnesses { witness.isOver.withLock { $0 = true } } }
            for witness in witnesses { try await witness.waitForAnswers(20) }
            try await body()
        }
    }

    private func runCallers() async {
        await withTaskGroup { group in
            for _ in 0..<callers { group.addTask { await self.runCaller() } }
        }
        await client.close()
    }

    private func runCaller() async {
        var mine = Seen()
        while !isOver.withLock({ $0 }) {
            let began = ContinuousClock.now
            do throws(ClientError) {
                _ = try await client.send(
                    Request(type: 0x410, body: "hello"),
                    timeout: timeout,
                    options: CallOptions(retry: retry)
                )
                mine.calls.append(Call(began: began, ended: .now))
            } catch {
                mine.failures.append(error)
            }
            record.withLock {
                $0.calls += mine.calls
                $0.failures += mine.failures
            }
            mine = Seen()
            if pause > .zero { try? await Task.sleep(for: pause) }
        }
    }

    // MARK: Waiting

    /// Waits until each caller has, on average, received `more` further responses.
    func waitForAnswers(_ more: Int) async throws {
        let goal = count + more * callers
        while count < goal { try await Task.sleep(for: .milliseconds(1)) }
    }

    func wait(until isSo: (Witness) async -> Bool) async throws {
        while !(await isSo(self)) { try await Task.sleep(for: .milliseconds(1)) }
    }

    func waitForLinks(_ links: Int) async throws {
        try await wait { await $0.links >= links }
    }

    // MARK: Results

    /// The time from `change` to the response that ended the silence. The silence is the longest gap between responses
    /// that began before the next link was ready, or before the change if the link stayed.
    func timeToNextAnswer(after change: ContinuousClock.Instant) -> Duration {
        let seen = seen
        let ready = seen.states.first { $0.at > change && $0.state.isReady }?.at ?? change
        let ends = seen.calls.map(\.ended).sorted()
        var (longest, answer) = (Duration.zero, change)
        var last = ends.last { $0 <= change } ?? change
        for end in ends where end > change && last <= ready {
            if end - last > longest { (longest, answer) = (end - last, end) }
            last = end
        }
        return answer - change
    }

    /// The durations of the requests in flight at any time from `start` to `end`, ascending.
    func durations(from start: ContinuousClock.Instant, to end: ContinuousClock.Instant) -> [Duration] {
        seen.calls.filter { $0.ended >= start && $0.began <= end }.map(\.duration).sorted()
    }

    /// The states since `change`, each with the time since then.
    func trace(since change: ContinuousClock.Instant) -> String {
        seen.states.map { "\(milliseconds($0.at - change)): \($0.state)" }.joined(separator: "\n    ")
    }
}

/// A time, such as `1.5 ms`.
func milliseconds(_ duration: Duration) -> String {
    let tenths = Int((duration / .microseconds(100)).rounded())
    return "\(tenths < 0 ? "-" : "")\(abs(tenths) / 10).\(abs(tenths) % 10) ms"
}

/// The median, the 99th percentile and the maximum of sorted durations.
func percentiles(_ sorted: [Duration]) -> String {
    guard let last = sorted.last else { return "no requests" }
    let (p50, p99) = (sorted[sorted.count / 2], sorted[min(sorted.count - 1, sorted.count * 99 / 100)])
    return "p50 \(milliseconds(p50)), p99 \(milliseconds(p99)), max \(milliseconds(last)) (\(sorted.count) requests)"
}
