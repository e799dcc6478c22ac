import Testing

@testable import TrunklineCore
@testable import TrunklineIO

extension ReconnectMachine {
    /// The ID of the latest attempt.
    fileprivate var lastID: SessionID { SessionID(attemptCount) }
}

/// Every input in every state, as a table.
@Suite struct ReconnectTableTests: ReconnectTesting {}

extension ReconnectTableTests {
    static let now = Instant(nanoseconds: 1_000)
    static let states = ["idle", "connecting", "ready", "waiting", "noNetwork", "suspended", "closed"]

    /// The policy waits one second between rounds. The endpoints are a, then b.
    static func machine(in state: String) -> ReconnectMachine {
        var policy = ReconnectMachine.Policy()
        policy.reconnect = Backoff(minimum: .seconds(1), cap: .seconds(1))
        var machine = ReconnectMachine(endpoints: ["a:1", "b:1"], policy: policy, seed: 1)
        if state == "idle" { return machine }
        if state == "closed" { machine.close() }
        _ = machine.linkNeeded(at: now)
        if state == "waiting" {
            _ = machine.attemptFailed(1, .refused, at: now)
            _ = machine.attemptFailed(2, .refused, at: now)
        } else if state == "noNetwork" {
            _ = machine.attemptFailed(1, .unreachable, hasRoute: false, at: now)
        } else if state != "connecting" {
            _ = machine.linkReady(1, at: now)
        }
        if state == "suspended" { _ = machine.suspend(at: now) }
        return machine
    }

    /// An input and its effect in each state: the action, then the new state if it differs. States without a label have
    /// the effect `otherwise`.
    struct Row: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let input: @Sendable (inout ReconnectMachine) -> ReconnectMachine.Action?
        /// By state.
        let expected: [String: String]

        init(
            _ name: String,
            idle: String? = nil,
            connecting: String? = nil,
            ready: String? = nil,
            waiting: String? = nil,
            noNetwork: String? = nil,
            suspended: String? = nil,
            closed: String? = nil,
            otherwise: String = "–",
            input: @escaping @Sendable (inout ReconnectMachine) -> ReconnectMachine.Action?
        ) {
            testDescription = name
            self.input = input
            expected = [
                "idle": idle ?? otherwise,
                "connecting": connecting ?? otherwise,
                "ready": ready ?? otherwise,
                "waiting": waiting ?? otherwise,
                "noNetwork": noNetwork ?? otherwise,
                "suspended": suspended ?? otherwise,
                "closed": closed ?? otherwise,
            ]
        }
    }

    static let rows = [
        Row("linkNeeded", idle: "connect 1 a → connecting") { $0.linkNeeded(at: now) },
        Row("linkReady", connecting: "– → ready", otherwise: "refused") {
            $0.linkReady($0.lastID, at: now) == nil ? nil : ReconnectMachine.Action.none
        },
        Row("attemptFailed", connecting: "connect 2 b") { $0.attemptFailed($0.lastID, .refused, at: now) },
        Row("attemptFailed permanently", connecting: "connect 2 b") {
            $0.attemptFailed($0.lastID, .tls, isPermanent: true, at: now)
        },
        Row("attemptFailed of an earlier attempt") { $0.attemptFailed(99, .refused, at: now) },
        Row("linkLost", ready: "wait 1 → waiting") { $0.linkLost($0.lastID, .reset, at: now) },
        Row("linkLost after an orderly end, without demand", ready: "rest → idle") {
            $0.linkLost($0.lastID, .closedByServer, isOrderly: true, demand: .none, at: now)
        },
        Row("linkLost of an earlier link") { $0.linkLost(99, .reset, at: now) },
        Row("timerFired early", waiting: "wait 1") { $0.timerFired(at: now) },
        Row("timerFired", waiting: "connect 3 a → connecting") { $0.timerFired(at: now.advanced(by: .seconds(1))) },
        Row(
            "reconnectNow",
            idle: "connect 1 a → connecting",
            waiting: "connect 3 a → connecting",
            noNetwork: "connect 2 a → connecting"
        ) {
            $0.reconnectNow(at: now)
        },
        Row(
            "suspend",
            idle: "– → suspended",
            connecting: "rest → suspended",
            ready: "close 1 → suspended",
            waiting: "rest → suspended",
            noNetwork: "rest → suspended"
        ) {
            $0.suspend(at: now)
        },
        Row("resume", suspended: "connect 2 a → connecting") { $0.resume(at: now) },
        Row("switchEndpoint to the same", waiting: "connect 3 a → connecting", noNetwork: "connect 2 a → connecting") {
            $0.switchEndpoint(to: "a:1", at: now)
        },
        Row(
            "switchEndpoint",
            connecting: "connect 2 b",
            ready: "connect 2 b",
            waiting: "connect 3 b → connecting",
            noNetwork: "connect 2 b → connecting"
        ) {
            $0.switchEndpoint(to: "b:1", at: now)
        },
        Row("switchEndpoint to an unknown endpoint", otherwise: "refused") { $0.switchEndpoint(to: "c:1", at: now) },
        Row("leave: goAway", ready: "connect 2 b") { $0.leave($0.lastID, because: .goAway, at: now) },
        Row("leave: goAway, without demand", ready: "drain 1, rest → idle") {
            $0.leave($0.lastID, because: .goAway, demand: .none, at: now)
        },
        Row("leave: errorRate", ready: "drain 1, connect 2 b → connecting") {
            $0.leave($0.lastID, because: .errorRate, at: now)
        },
        Row("leave: lastResponse", ready: "drain 1, connect 2 a → connecting") {
            $0.leave($0.lastID, because: .lastResponse, at: now)
        },
        Row("leave: lastResponse, without demand", ready: "drain 1, rest → idle") {
            $0.leave($0.lastID, because: .lastResponse, demand: .none, at: now)
        },
        Row("leave of an earlier link") { $0.leave(99, because: .goAway, at: now) },
        Row("replaceEndpoints, one stays", noNetwork: "connect 2 a → connecting") {
            $0.replaceEndpoints(["a:1", "c:1"], at: now)
        },
        Row(
            "replaceEndpoints, all others",
            connecting: "connect 2 c",
            ready: "connect 2 c",
            noNetwork: "connect 2 c → connecting"
        ) {
            $0.replaceEndpoints(["c:1"], at: now)
        },
        Row(
            "replaceEndpoints by none",
            connecting: "give up → idle",
            waiting: "give up → idle",
            noNetwork: "give up → idle"
        ) {
            $0.replaceEndpoints([], at: now)
        },
        Row("attemptFailed without route", connecting: "rest → noNetwork") {
            $0.attemptFailed($0.lastID, .unreachable, hasRoute: false, at: now)
        },
        Row("linkLost with its path", ready: "connect 2 a → connecting") {
            $0.linkLost($0.lastID, .pathLost, isOurNetwork: true, at: now)
        },
        Row("networkChanged", connecting: "wait 0 → waiting", waiting: "wait 0", noNetwork: "wait 0 → waiting") {
            $0.networkChanged(at: now)
        },
        Row("networkLost", connecting: "connect 2 a", waiting: "connect 3 a → connecting") { $0.networkLost(at: now) },
        Row("renew", ready: "connect 2 a") { $0.renew(because: .request, at: now) },
        Row("close", closed: "–", otherwise: "– → closed") {
            $0.close()
            return ReconnectMachine.Action.none
        },
    ]

    @Test(arguments: rows)
    func everyInputHasItsEffectInEveryState(_ row: Row) {
        for state in Self.states {
            var machine = Self.machine(in: state)
            #expect(describe(machine.state) == state)
            let action = row.input(&machine)
            var outcome = action.map(describe) ?? "refused"
            if describe(machine.state) != state { outcome += " → \(describe(machine.state))" }
            #expect(outcome == row.expected[state], "in \(state)")
        }
    }

    private func describe(_ action: ReconnectMachine.Action) -> String {
        switch action {
        case .none: "–"
        case .connect(let attempt): "connect \(attempt.id) \(attempt.endpoint.description.prefix(1))"
        case .wait(let until): "wait \(until.since(Self.now).components.seconds)"
        case .rest: "rest"
        case .close(let session): "close \(session)"
        case .drain(let session, let next): "drain \(session), \(describe(next))"
        case .giveUp: "give up"
        }
    }
}
