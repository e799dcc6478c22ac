@testable import TrunklineCore
@testable import TrunklineIO

/// What the tests of the machine share.
protocol ReconnectTesting {}

extension ReconnectTesting {
    var now: Instant { Instant(nanoseconds: 1_000) }

    func machine(
        _ endpoints: [Endpoint] = ["a:1", "b:1"],
        _ change: (inout ReconnectMachine.Policy) -> Void = { _ in }
    ) -> ReconnectMachine {
        var policy = ReconnectMachine.Policy()
        policy.reconnect = Backoff(minimum: .seconds(1), cap: .seconds(1))
        change(&policy)
        return ReconnectMachine(endpoints: endpoints, policy: policy, seed: 1)
    }

    /// The attempt that `action` starts.
    func attempt(_ action: ReconnectMachine.Action?) throws -> ReconnectMachine.Attempt {
        if case .drain(_, let next)? = action { return try attempt(next) }
        guard case .connect(let attempt)? = action else {
            throw FrameError(.malformed, "\(String(describing: action))")
        }
        return attempt
    }

    /// The end of the wait that `action` starts.
    func wait(_ action: ReconnectMachine.Action?) throws -> Instant {
        if case .drain(_, let next)? = action { return try wait(next) }
        guard case .wait(let until)? = action else { throw FrameError(.malformed, "\(String(describing: action))") }
        return until
    }

    func after(_ seconds: Double) -> Instant { now.advanced(by: .seconds(seconds)) }

    /// The name of a state.
    func describe(_ state: ReconnectMachine.State) -> String {
        switch state {
        case .idle: "idle"
        case .connecting: "connecting"
        case .ready: "ready"
        case .waiting: "waiting"
        case .noNetwork: "noNetwork"
        case .suspended: "suspended"
        case .closed: "closed"
        }
    }
}
