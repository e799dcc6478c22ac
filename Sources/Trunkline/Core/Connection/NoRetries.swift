/// Does not replace a link that failed or was lost: where options have no policy.
package struct NoRetries: ReconnectPolicy {
    package init() {}

    package func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision { .giveUp }
}
