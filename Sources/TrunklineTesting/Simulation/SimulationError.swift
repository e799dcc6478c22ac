/// The error of a simulation that ended before its body returned.
@nonexhaustive
public enum SimulationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The body waits for something that cannot happen: no job, timer or packet is left, and no other thread posts work
    /// within 100 ms of real time. The text describes the state of the simulation.
    case deadlock(String)
    /// Work reached the simulation from another thread, so the run would depend on real time.
    ///
    /// Causes: a task ran on Swift's global executor (`Task.detached`, `Task {}` outside the loop, `Task.sleep`), or a
    /// callback came from the operating system.
    case leftTheLoop(String)
    /// The body was still running when a limit of ``SimulationLimits`` was reached.
    case stillRunning(String)

    /// A human-readable description.
    public var description: String {
        switch self {
        case .deadlock(let text): "simulation deadlocked: \(text)"
        case .leftTheLoop(let text): "code left the simulation: \(text)"
        case .stillRunning(let text): "simulation did not end: \(text)"
        }
    }
}
