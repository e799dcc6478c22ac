/// The answer of a simulated network to lookups of a name in one address family.
///
/// See ``SimulatedNetwork/setResolution(of:ipv6:ipv4:)``.
@nonexhaustive
public enum NameAnswer: Sendable, Hashable {
    /// The addresses of the name, after a delay drawn from ``NetworkConditions/resolutionDelay``.
    case usual
    /// The addresses of the name, after exactly this time.
    case after(Duration)
    /// A failure, after exactly this time.
    case failure(after: Duration)
    /// No answer.
    case never
}
