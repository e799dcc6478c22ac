/// How long a simulation may go on. A limit counts from the beginning of each `run`.
public struct SimulationLimits: Sendable, Hashable {
    /// Virtual time until `SimulationError.stillRunning`; a day by default.
    public var virtualTime: Duration = .seconds(86_400)
    /// Jobs, timers, packets and turns until `SimulationError.stillRunning`; five million by default.
    public var steps = 5_000_000
    /// Virtual time for which the simulation goes on after its body has returned, so that what was closed can close;
    /// it ends earlier when nothing is left to do. Ten seconds by default.
    package var settling: Duration = .seconds(10)
    /// *Real* time to wait for a thread outside before a deadlock is called one; 100 ms by default. A body that waits
    /// for longer outside the loop (`Task.sleep(for: .seconds(1))`) is reported as deadlocked.
    package var grace: Duration = .milliseconds(100)

    /// The defaults.
    public init() {}
}
