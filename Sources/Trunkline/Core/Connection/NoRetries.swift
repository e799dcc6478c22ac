/// Does not replace a link that failed or was lost. The next request connects anew.
public struct NoRetries: ReconnectPolicy, Hashable {
    init() {}

    /// Gives up.
    public func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision { .giveUp }
}

extension ReconnectPolicy where Self == NoRetries {
    /// Does not replace a link that failed or was lost. The next request connects anew.
    public static var never: NoRetries { NoRetries() }
}
