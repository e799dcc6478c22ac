/// Why a simulation ended before its body did.
@nonexhaustive
public enum SimulationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The body waits, and nothing is left that could wake it: no job, no timer, no packet. The text says what is
    /// known of the moment.
    case deadlock(String)
    /// Something reached the simulation from another thread: a task ran on Swift's global executor (`Task.detached`,
    /// `Task {}` outside the loop, `Task.sleep`) or a callback of the operating system came back. What followed would
    /// have depended on real time.
    case leftTheLoop(String)
    /// The body was still running when a limit of `SimulationLimits` was reached.
    case stillRunning(String)

    /// What happened, for people.
    public var description: String {
        switch self {
        case .deadlock(let text): "The simulation is deadlocked: \(text)"
        case .leftTheLoop(let text): "The simulation was left: \(text)"
        case .stillRunning(let text): "The simulation did not end: \(text)"
        }
    }
}
