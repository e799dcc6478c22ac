// Names of earlier versions, so that the compiler says where to look. None of them can be called.

extension ClusterOptions {
    /// Replaced by `BalancingPolicy`.
    @available(*, unavailable, message: "use any BalancingPolicy, LeastLoaded or RoundRobin")
    public typealias Balancing = any BalancingPolicy
}
