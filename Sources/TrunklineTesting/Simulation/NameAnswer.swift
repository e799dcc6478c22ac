/// How a name of a simulated network is answered when it is looked up in one of the two families.
@nonexhaustive
public enum NameAnswer: Sendable, Hashable {
    /// With what it resolves to, after the `resolutionDelay` of `NetworkConditions`.
    case usual
    /// With what it resolves to, after exactly this time.
    case after(Duration)
    /// With a failure, after exactly this time.
    case failure(after: Duration)
    /// Not at all.
    case never
}
