/// Chooses the server of each request of a cluster that has no key.
///
/// ``LeastLoaded`` and ``RoundRobin`` are the policies of this package. For other rules, conform your own type:
///
/// ```swift
/// struct FewestInFlight: BalancingPolicy {
///     func pick(
///         from candidates: BalancingCandidates,
///         using generator: inout some RandomNumberGenerator
///     ) -> BalancingCandidates.Server? {
///         candidates.lazy.filter(\.isAvailable).min { $0.inFlight < $1.inFlight }
///     }
/// }
/// ```
///
/// A policy that needs a value for each list of servers, such as a schedule, makes it in ``prepared(for:)``.
///
/// The cluster applies these rules itself, whatever the policy:
/// - Requests with a key go to the server of the key, by consistent hashing.
/// - With a ``ClusterOptions/zone``, the cluster draws for each request whether it stays in the zone. The candidates
///   are the servers of this zone, or those of the others.
/// - An ejected server is no candidate. The request that probes whether it works again goes to it without a choice.
/// - With only one server to choose from, the policy is not asked. It may be asked with one candidate, the only one of
///   its zone.
public protocol BalancingPolicy: Sendable {
    /// Returns the policy for a new list of servers.
    ///
    /// The cluster calls this on its event loop, on the value that it has used until now, whenever a server comes,
    /// goes, is ejected or returns, and when its weight or slow start changes. At first that is the value of
    /// ``ClusterOptions/balancing``. What should outlast a list is kept by the returned value, such as the turn of a
    /// round robin. This method must return quickly, must not block, and must not use its cluster. Default: returns the
    /// policy itself.
    ///
    /// - Parameter candidates: The servers of all zones; possibly none. ``BalancingCandidates/Server/position`` is the
    ///   number of a server in this list, also in later calls of ``pick(from:using:)``.
    func prepared(for candidates: BalancingCandidates) -> Self

    /// Chooses a server for a request.
    ///
    /// The cluster calls this on the thread of the caller, or on its own event loop, on many threads at the same time:
    /// once for each try of a request, for each further copy of a hedged request, for each group of a batch, and for
    /// each subscription and its moves. If another thread takes the last place of the server at the same moment, it
    /// calls this again. No lock is held. This method must return quickly, must not block, and must not use its
    /// cluster.
    ///
    /// If the result is `nil` or a server that may not be chosen (``BalancingCandidates/Server/isAvailable``), the
    /// cluster draws two servers that may be chosen, in proportion to the weights, and takes the less loaded one. If
    /// none may be chosen, the request waits or fails as usual.
    ///
    /// - Parameters:
    ///   - candidates: The servers to choose from, at least one. Valid during this call.
    ///   - generator: Draws random numbers. Use no other source of randomness, so that simulations are reproducible.
    /// - Returns: One of `candidates`, or of ``BalancingCandidates/all``.
    func pick(
        from candidates: BalancingCandidates,
        using generator: inout some RandomNumberGenerator
    ) -> BalancingCandidates.Server?
}

extension BalancingPolicy {
    /// Returns the policy itself.
    public func prepared(for candidates: BalancingCandidates) -> Self { self }
}
