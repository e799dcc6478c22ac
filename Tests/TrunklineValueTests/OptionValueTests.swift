import Testing
import Trunkline
import TrunklineDiagnostics
import TrunklineTesting

/// A client works or refuses its calls with an error, and closes, whatever the values of its options are.
@Suite(.tags(.simulated), .timeLimit(.minutes(5)))
struct OptionValueTests {}

extension OptionValueTests {
    @Test(arguments: OptionValueTests.cases)
    func noValueOfAnOptionTraps(_ option: ValueCase) async throws {
        try await option.use()
    }

    /// All options have their least values, or all have their greatest.
    @Test func noCombinationOfTheEndsTraps() async throws {
        for isGreatest in [false, true] {
            var options = ClientOptions.withEverything
            for change in allToTheirEnds { change(&options, isGreatest) }
            try await useClient(options)
        }
    }
}

/// Sets an option to the first or to the last of its extreme values.
private let allToTheirEnds: [@Sendable (inout ClientOptions, _ isGreatest: Bool) -> Void] = {
    func end<Value: Extreme>(
        _ path: any WritableKeyPath<ClientOptions, Value> & Sendable
    ) -> @Sendable (inout ClientOptions, Bool) -> Void {
        { options, isGreatest in
            let values = Value.extremes
            options[keyPath: path] = isGreatest ? values[values.count - 1] : values[0]
        }
    }
    return [
        end(\.connecting.timeout), end(\.connecting.attemptDelay), end(\.connecting.resolutionDelay),
        end(\.connecting.userTimeout), end(\.reconnecting.stableAfter), end(\.reconnecting.maximumRetryAfter),
        end(\.failover.drainTimeout),
        end(\.failover.halfLife), end(\.failover.maximumLinkAge), end(\.failover.returnsToPreferredAfter),
        end(\.handshake.timeout), end(\.liveness.interval), end(\.liveness.deadline), end(\.liveness.probeAfter),
        end(\.liveness.speakAfter), end(\.liveness.minimumRate), end(\.requests.timeout),
        end(\.requests.streamTimeout), end(\.requests.quarantine), end(\.requests.cancellingTimeout),
        end(\.requests.drainTimeout),
        end(\.requests.maximumInFlight), end(\.requests.maximumWaiting), end(\.requests.maximumWaitingBytes),
        end(\.requests.maximumReplySize), end(\.requests.maximumReassemblyBytes),
        end(\.diagnosis.probeTimeout), end(\.outbound.highWatermark),
        end(\.outbound.lowWatermark), end(\.inbound.maximumHeld), end(\.inbound.maximumUndecoded),
    ]
}()

extension OptionValueTests {
    static let cases = links + requests + others

    private static let links = [
        option("ClientOptions.Connecting.attemptDelay: Duration", \.connecting.attemptDelay),
        option("ClientOptions.Connecting.resolutionDelay: Duration", \.connecting.resolutionDelay),
        option("ClientOptions.Connecting.timeout: Duration", \.connecting.timeout),
        option("ClientOptions.Connecting.userTimeout: Duration?", \.connecting.userTimeout),
        option("ClientOptions.Reconnecting.maximumAttempts: Int?", \.reconnecting.maximumAttempts),
        option("ClientOptions.Reconnecting.maximumRetryAfter: Duration", \.reconnecting.maximumRetryAfter),
        option("ClientOptions.Reconnecting.refusalPause: Duration", \.reconnecting.refusalPause),
        option("ClientOptions.Reconnecting.stableAfter: Duration", \.reconnecting.stableAfter),
        option("ClientOptions.Handshake.maximumInFlight: Int", \.handshake.maximumInFlight),
        option("ClientOptions.Handshake.timeout: Duration", \.handshake.timeout),
        option("ClientOptions.Failover.drainTimeout: Duration", \.failover.drainTimeout),
        option("ClientOptions.Failover.halfLife: Duration", \.failover.halfLife),
        option("ClientOptions.Failover.maximumLinkAge: Duration?", \.failover.maximumLinkAge),
        option("ClientOptions.Failover.returnsToPreferredAfter: Duration?", \.failover.returnsToPreferredAfter),
        option("ClientOptions.Failover.ErrorRate.minimumRequests: Int", \.failover.errorRate.value.minimumRequests),
        option("ClientOptions.Failover.ErrorRate.share: Double", \.failover.errorRate.value.share),
        option("ClientOptions.Failover.ErrorRate.window: Duration", \.failover.errorRate.value.window),
        option("ClientOptions.Liveness.deadline: Duration", \.liveness.deadline),
        option("ClientOptions.Liveness.interval: Duration", \.liveness.interval),
        option("ClientOptions.Liveness.maximumStalls: Int?", \.liveness.maximumStalls),
        option("ClientOptions.Liveness.minimumRate: Int?", \.liveness.minimumRate),
        option("ClientOptions.Liveness.probeAfter: Duration?", \.liveness.probeAfter),
        option("ClientOptions.Liveness.speakAfter: Duration?", \.liveness.speakAfter),
        option("ClientOptions.Diagnosis.probeTimeout: Duration", \.diagnosis.probeTimeout),
        ValueCase("ClientOptions.Liveness.adaptiveInterval: ClosedRange<Duration>?") {
            for lower in Duration.extremes {
                for upper in Duration.extremes where upper >= lower {
                    try await useClient { $0.liveness.adaptiveInterval = lower...upper }
                }
            }
        },
    ]

    private static let requests = [
        option("ClientOptions.Requests.cancellingTimeout: Duration", \.requests.cancellingTimeout),
        option("ClientOptions.Requests.drainTimeout: Duration", \.requests.drainTimeout),
        option("ClientOptions.Requests.maximumInFlight: Int", \.requests.maximumInFlight),
        option("ClientOptions.Requests.maximumReassemblyBytes: Int", \.requests.maximumReassemblyBytes),
        option("ClientOptions.Requests.maximumReplySize: Int", \.requests.maximumReplySize),
        option("ClientOptions.Requests.maximumWaiting: Int", \.requests.maximumWaiting),
        option("ClientOptions.Requests.maximumWaitingBytes: Int", \.requests.maximumWaitingBytes),
        option("ClientOptions.Requests.quarantine: Duration", \.requests.quarantine),
        option("ClientOptions.Requests.streamTimeout: Duration?", \.requests.streamTimeout),
        option("ClientOptions.Requests.timeout: Duration?", \.requests.timeout),
        option("RetryBudget.initial: Int", \.requests.retryBudget.value.initial),
        option("RetryBudget.maximumSaved: Int", \.requests.retryBudget.value.maximumSaved),
        option("RetryBudget.perSecond: Double", \.requests.retryBudget.value.perSecond),
        option("RetryBudget.share: Double", \.requests.retryBudget.value.share),
        option("ClientOptions.Outbound.highWatermark: Int", \.outbound.highWatermark),
        option("ClientOptions.Outbound.lowWatermark: Int", \.outbound.lowWatermark),
        option("ClientOptions.Inbound.maximumHeld: Int", \.inbound.maximumHeld),
        option("ClientOptions.Inbound.maximumUndecoded: Int", \.inbound.maximumUndecoded),
        ValueCase("RetryPolicy.idempotent(tries: Int)") {
            for attempts in Int.extremes {
                let backoff = Backoff(base: .milliseconds(1))
                try await useClient { $0.requests.retry = .idempotent(tries: attempts, backoff: backoff) }
            }
        },
    ]

    private static let others = [
        option("ClientLogging.summaryInterval: Duration", \.logging.value.summaryInterval),
        option("ClientLogging.certificateError: Duration", \.logging.value.certificateError),
        option("ClientLogging.certificateWarning: Duration", \.logging.value.certificateWarning),
        option("RecorderOptions.maximumContentBytes: Int", \.recorder.value.maximumContentBytes),
        ValueCase("RecorderOptions.ring(bytes: Int)") {
            // 1 GiB would really be allocated.
            for bytes in Int.extremes where bytes < 1 << 20 {
                try await useClient { $0.recorder = .ring(bytes: bytes) }
            }
            #expect(RecorderOptions.ring(bytes: .max).byteCount == 1 << 30)
        },
        ValueCase("RecorderOptions.dumpsAutomatically(atMostEvery: Duration)") {
            for interval in Duration.extremes {
                try await useClient {
                    $0.recorder?.dumpsAutomatically(on: [.reset, .halfOpen], atMostEvery: interval) { _, _ in }
                }
            }
        },
        ValueCase("RecorderOptions.Bodies.types(_: Set<UInt32>)") {
            try await useClient { $0.recorder?.bodies = .types(Set(UInt32.extremes)) }
        },
        ValueCase("EventDelivery.queued(capacity: Int)") {
            for capacity in Int.extremes {
                try await useClient { $0.observers = [Listener(delivery: .queued(capacity: capacity))] }
            }
        },
        ValueCase(
            "Backoff.init(minimum: Duration, base: Duration, factor: Double, cap: Duration)",
            "Backoff.minimum: Duration",
            "Backoff.base: Duration",
            "Backoff.factor: Double",
            "Backoff.cap: Duration"
        ) {
            for duration in Duration.extremes {
                for policy in [Backoff(minimum: duration), Backoff(base: duration), Backoff(cap: duration)] {
                    try await useClient {
                        $0.reconnecting.policy = policy
                        $0.requests.retry = .idempotent(backoff: policy)
                    }
                }
            }
            for factor in Double.extremes { try await useClient { $0.reconnecting.policy = Backoff(factor: factor) } }
            var backoff = Backoff(base: Duration.longest, cap: Duration.longest)
            for factor in Double.extremes {
                backoff.factor = factor
                for round in Int.extremes {
                    for random in Double.extremes {
                        let failure = ReconnectFailure(round: round, failedAttempts: round, cause: .refused)
                        guard case .retry(let delay) = backoff.decision(for: failure, random: { random }) else {
                            Issue.record("\(backoff) gave up")
                            continue
                        }
                        #expect(delay >= .zero)
                    }
                }
            }
        },
        ValueCase("ReconnectDecision.retry(after: Duration)") {
            for delay in Duration.extremes {
                try await useClient { $0.reconnecting.policy = Constant(delay: delay) }
            }
        },
        ValueCase("HandshakeRefusal.init(retryAfter: Duration?)", "HandshakeRefusal.retryAfter: Duration?") {
            for delay in Duration.extremes {
                var refusal = HandshakeRefusal("later", isPermanent: false)
                refusal.retryAfter = delay
                let other = HandshakeRefusal("later", isPermanent: false, retryAfter: delay)
                for refusal in [refusal, other] {
                    try await useClient { $0.handshake.perform = { _ in throw refusal } }
                }
            }
        },
        ValueCase("ConnectionOptions.drainTimeout: Duration") {
            for timeout in Duration.extremes {
                try await SimulatedNetwork(seed: 1).runWithServer { network in
                    let options = ConnectionOptions { $0.drainTimeout = timeout }
                    let codec = FrameLayout.standard
                    let connection = Connection(to: "db:7000", speaking: codec, options: options, on: network.loops)
                    try await connection.write(Frame(.request, type: 0x410))
                    await connection.close()
                }
            }
        },
    ]

    private static func option<Value: Extreme>(
        _ name: String,
        _ path: any WritableKeyPath<ClientOptions, Value> & Sendable
    ) -> ValueCase {
        ValueCase(name) {
            for value in Value.extremes {
                try await useClient { $0[keyPath: path] = value }
            }
        }
    }
}

extension Optional {
    /// The value of an option that is on.
    var value: Wrapped {
        get { if let self { self } else { fatalError("the option is off") } }
        set { self = newValue }
    }
}

extension ClientOptions {
    /// Options with everything on that `useClient` can exercise.
    static var withEverything: ClientOptions {
        ClientOptions { options in
            options.logging = ClientLogging(level: .debug) { _ in }
            options.recorder = .ring(bytes: 1 << 16)
            options.recorder?.bodies = .all
            options.observers = [Listener(delivery: .queued())]
            options.handshake.perform = { _ = try await $0.send(Request(type: 0x410, body: "login")) }
            options.diagnosis.probe = { _ in true }
        }
    }
}

private struct Listener: ClientObserver {
    let delivery: EventDelivery

    func observe(_ events: [ClientEvent]) { for event in events { _ = "\(event)" } }
}

private struct Constant: ReconnectPolicy {
    let delay: Duration

    func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision { .retry(after: delay) }
}
