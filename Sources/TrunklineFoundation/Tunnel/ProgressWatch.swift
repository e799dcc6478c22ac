import TrunklineCore

/// Detects that there was no progress for a given time.
final class ProgressWatch: Sendable {
    private let limit: Duration
    private let last = Lock(ContinuousClock.now)

    /// Creates a watch that starts now.
    ///
    /// - Parameter limit: At most a hundred years: clocks trap on much larger values.
    init(within limit: Duration) { self.limit = limit }

    /// Notes progress.
    func note() { last.withLock { $0 = .now } }

    /// Returns when there was no progress for the limit. Throws when the task is cancelled.
    func stall() async throws {
        while true {
            let due = last.withLock { $0 }.advanced(by: limit)
            guard due > .now else { return }
            try await Task.sleep(until: due, clock: .continuous)
        }
    }
}
