/// The policy for options without one.
struct NoRetries: ReconnectPolicy {
    init() {}

    package func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision { .giveUp }
}
