import TrunklineCore

/// What a request came to.
typealias Outcome = Result<Frame, ClientError>

/// Who waits for a request. It leaves the request table once, and is told once.
enum Waiter: Sendable {
    /// A caller in `send` or `post`.
    case caller(Suspension<Outcome>)
    /// One of the requests of a `send(all:)`.
    case batch(Batch, index: Int)
    /// A handle given out by `start`.
    case handle(PendingRequest)

    func resume(_ outcome: Outcome) {
        switch self {
        case .caller(let suspension): suspension.resume(returning: outcome)
        case .batch(let batch, let index): batch.complete(index, outcome)
        case .handle(let request): request.complete(outcome)
        }
    }
}

/// The results of one `send(all:)`, gathered until the last is there; one suspension for all of them.
///
/// Sendable although it is not checked: after it is made it is touched on its client's loop only, where requests
/// complete.
final class Batch: @unchecked Sendable {
    private let suspension: Suspension<[Outcome]>
    private var outcomes: [Outcome?]
    private var missing: Int

    init(count: Int, _ suspension: Suspension<[Outcome]>) {
        self.suspension = suspension
        outcomes = Array(repeating: nil, count: count)
        missing = count
    }

    func complete(_ index: Int, _ outcome: Outcome) {
        guard outcomes[index] == nil else { return }
        outcomes[index] = outcome
        missing -= 1
        if missing == 0 { suspension.resume(returning: outcomes.compactMap { $0 }) }
    }
}
