import Trunkline

/// Tells when nothing has moved for some time.
final class ProgressWatch: Sendable {
    private let limit: Duration
    private let last = Lock(ContinuousClock.now)

    /// - Parameter limit: At most a hundred years: clocks trap far beyond.
    init(within limit: Duration) { self.limit = limit }

    /// Something has moved.
    func note() { last.withLock { $0 = .now } }

    /// Returns when nothing has moved for so long, and throws when its task is cancelled.
    func stall() async throws {
        while true {
            let due = last.withLock { $0 }.advanced(by: limit)
            guard due > .now else { return }
            try await Task.sleep(until: due, clock: .continuous)
        }
    }
}
