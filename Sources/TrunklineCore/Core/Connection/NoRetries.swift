/// The policy for options without one.
package struct NoRetries: ReconnectPolicy {
    package init() {}

    package func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision { .giveUp }
}
