/// The limits of the duration of a simulation.
///
/// They count from the beginning of each ``SimulatedNetwork/run(limits:_:)``.
public struct SimulationLimits: Sendable, Hashable {
    /// The virtual time after which the run fails with ``SimulationError/stillRunning(_:)``. Default one day.
    public var virtualTime: Duration = .seconds(86_400)
    /// The number of jobs, timers, packets and turns after which the run fails with
    /// ``SimulationError/stillRunning(_:)``. Default five million.
    public var steps = 5_000_000
    var settling: Duration = .seconds(10)
    /// The *real* time to wait for another thread before a deadlock is reported.
    var grace: Duration = .milliseconds(100)

    /// Creates limits with the defaults.
    public init() {}
}
