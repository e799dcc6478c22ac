import Testing

@testable import Trunkline

/// Every input in every state, as a table.
@Suite struct ReconnectTableTests: ReconnectTesting {
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

    /// An input and its effect in each state: the action, then the new state if it differs.
    struct Row: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let input: @Sendable (inout ReconnectMachine) -> ReconnectMachine.Action?
        let expected: [String]

        init(
            _ name: String,
            _ input: @escaping @Sendable (inout ReconnectMachine) -> ReconnectMachine.Action?,
            _ expected: String...
        ) {
            testDescription = name
            self.input = input
            self.expected = expected
        }
    }

    static let rows = [
        Row(
            "linkNeeded",
            { $0.linkNeeded(at: now) },
            "connect 1 a → connecting",
            "–",
            "–",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "linkReady",
            { $0.linkReady($0.lastID, at: now) == nil ? nil : ReconnectMachine.Action.none },
            "refused",
            "– → ready",
            "refused",
            "refused",
            "refused",
            "refused",
            "refused"
        ),
        Row(
            "attemptFailed",
            { $0.attemptFailed($0.lastID, .refused, at: now) },
            "–",
            "connect 2 b",
            "–",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "attemptFailed permanently",
            { $0.attemptFailed($0.lastID, .tls, isPermanent: true, at: now) },
            "–",
            "connect 2 b",
            "–",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "attemptFailed of an earlier attempt",
            { $0.attemptFailed(99, .refused, at: now) },
            "–",
            "–",
            "–",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "linkLost",
            { $0.linkLost($0.lastID, .reset, at: now) },
            "–",
            "–",
            "wait 1 → waiting",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "linkLost after an orderly end, without demand",
            { $0.linkLost($0.lastID, .closedByServer, isOrderly: true, demand: .none, at: now) },
            "–",
            "–",
            "rest → idle",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "linkLost of an earlier link",
            { $0.linkLost(99, .reset, at: now) },
            "–",
            "–",
            "–",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "timerFired early",
            { $0.timerFired(at: now) },
            "–",
            "–",
            "–",
            "wait 1",
            "–",
            "–",
            "–"
        ),
        Row(
            "timerFired",
            { $0.timerFired(at: now.advanced(by: .seconds(1))) },
            "–",
            "–",
            "–",
            "connect 3 a → connecting",
            "–",
            "–",
            "–"
        ),
        Row(
            "reconnectNow",
            { $0.reconnectNow(at: now) },
            "connect 1 a → connecting",
            "–",
            "–",
            "connect 3 a → connecting",
            "connect 2 a → connecting",
            "–",
            "–"
        ),
        Row(
            "suspend",
            { $0.suspend(at: now) },
            "– → suspended",
            "rest → suspended",
            "close 1 → suspended",
            "rest → suspended",
            "rest → suspended",
            "–",
            "–"
        ),
        Row(
            "resume",
            { $0.resume(at: now) },
            "–",
            "–",
            "–",
            "–",
            "–",
            "connect 2 a → connecting",
            "–"
        ),
        Row(
            "switchEndpoint to the same",
            { $0.switchEndpoint(to: "a:1", at: now) },
            "–",
            "–",
            "–",
            "connect 3 a → connecting",
            "connect 2 a → connecting",
            "–",
            "–"
        ),
        Row(
            "switchEndpoint",
            { $0.switchEndpoint(to: "b:1", at: now) },
            "–",
            "connect 2 b",
            "connect 2 b",
            "connect 3 b → connecting",
            "connect 2 b → connecting",
            "–",
            "–"
        ),
        Row(
            "switchEndpoint to an unknown endpoint",
            { $0.switchEndpoint(to: "c:1", at: now) },
            "refused",
            "refused",
            "refused",
            "refused",
            "refused",
            "refused",
            "refused"
        ),
        Row(
            "leave: goAway",
            { $0.leave($0.lastID, because: .goAway, at: now) },
            "–",
            "–",
            "connect 2 b",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "leave: goAway, without demand",
            { $0.leave($0.lastID, because: .goAway, demand: .none, at: now) },
            "–",
            "–",
            "drain 1, rest → idle",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "leave: errorRate",
            { $0.leave($0.lastID, because: .errorRate, at: now) },
            "–",
            "–",
            "drain 1, connect 2 b → connecting",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "leave: lastResponse",
            { $0.leave($0.lastID, because: .lastResponse, at: now) },
            "–",
            "–",
            "drain 1, connect 2 a → connecting",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "leave: lastResponse, without demand",
            { $0.leave($0.lastID, because: .lastResponse, demand: .none, at: now) },
            "–",
            "–",
            "drain 1, rest → idle",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "leave of an earlier link",
            { $0.leave(99, because: .goAway, at: now) },
            "–",
            "–",
            "–",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "replaceEndpoints, one stays",
            { $0.replaceEndpoints(["a:1", "c:1"], at: now) },
            "–",
            "–",
            "–",
            "–",
            "connect 2 a → connecting",
            "–",
            "–"
        ),
        Row(
            "replaceEndpoints, all others",
            { $0.replaceEndpoints(["c:1"], at: now) },
            "–",
            "connect 2 c",
            "connect 2 c",
            "–",
            "connect 2 c → connecting",
            "–",
            "–"
        ),
        Row(
            "replaceEndpoints by none",
            { $0.replaceEndpoints([], at: now) },
            "–",
            "give up → idle",
            "–",
            "give up → idle",
            "give up → idle",
            "–",
            "–"
        ),
        Row(
            "attemptFailed without route",
            { $0.attemptFailed($0.lastID, .unreachable, hasRoute: false, at: now) },
            "–",
            "rest → noNetwork",
            "–",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "linkLost with its path",
            { $0.linkLost($0.lastID, .pathLost, isOurNetwork: true, at: now) },
            "–",
            "–",
            "connect 2 a → connecting",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "networkChanged",
            { $0.networkChanged(at: now) },
            "–",
            "wait 0 → waiting",
            "–",
            "wait 0",
            "wait 0 → waiting",
            "–",
            "–"
        ),
        Row(
            "networkLost",
            { $0.networkLost(at: now) },
            "–",
            "connect 2 a",
            "–",
            "connect 3 a → connecting",
            "–",
            "–",
            "–"
        ),
        Row(
            "renew",
            { $0.renew(at: now) },
            "–",
            "–",
            "connect 2 a",
            "–",
            "–",
            "–",
            "–"
        ),
        Row(
            "close",
            {
                $0.close()
                return ReconnectMachine.Action.none
            },
            "– → closed",
            "– → closed",
            "– → closed",
            "– → closed",
            "– → closed",
            "– → closed",
            "–"
        ),
    ]

    @Test(arguments: rows)
    func everyInputHasItsEffectInEveryState(_ row: Row) {
        for (state, expected) in zip(Self.states, row.expected) {
            var machine = Self.machine(in: state)
            #expect(describe(machine.state) == state)
            let action = row.input(&machine)
            var outcome = action.map(describe) ?? "refused"
            if describe(machine.state) != state { outcome += " → \(describe(machine.state))" }
            #expect(outcome == expected, "in \(state)")
        }
        #expect(row.expected.count == Self.states.count)
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
