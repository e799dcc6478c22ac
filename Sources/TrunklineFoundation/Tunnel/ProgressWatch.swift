import TrunklineCore

final class ProgressWatch: Sendable {
    private let limit: Duration
    private let last = Lock(ContinuousClock.now)

    /// - Parameter limit: At most a hundred years: clocks trap on much larger values.
    init(within limit: Duration) { self.limit = limit }

    func note() { last.withLock { $0 = .now } }

    /// Returns after `limit` without progress.
    func stall() async throws {
        while true {
            let due = last.withLock { $0 }.advanced(by: limit)
            guard due > .now else { return }
            try await Task.sleep(until: due, clock: .continuous)
        }
    }
}
