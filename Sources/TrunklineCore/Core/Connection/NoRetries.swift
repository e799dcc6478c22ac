/// The policy for options without one: it gives up after every failed attempt and every lost link.
package struct NoRetries: ReconnectPolicy {
    package init() {}

    package func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision { .giveUp }
}
