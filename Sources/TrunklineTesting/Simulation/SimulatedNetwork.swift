public import TrunklineCore

/// A simulated network in virtual time.
///
/// Clients, servers and the links between them run on one thread, in an order drawn from a seed. A minute of waiting
/// takes no real time, and the same seed repeats a run exactly.
///
/// Pass ``loops`` to clients, start servers with ``startServer(at:speaking:options:handler:)``, and do both in the body
/// of ``run(limits:_:)``:
///
/// ```swift
/// let network = SimulatedNetwork(seed: 7)
/// try await network.run {
///     let server = try await network.startServer(at: "db:7000", speaking: .standard)
///     let client = Client(to: "db:7000", speaking: .standard, on: network.loops)
///     network.partition("db")
///     try await network.clock.sleep(for: .seconds(60))
///     network.heal()
///     …
/// }
/// ```
///
/// The body and everything that it starts must stay on the simulation:
///
/// - Child tasks (`async let`, task groups) and actors without a custom executor stay on it.
/// - `Task {}` and `Task.detached` leave it, unless they are given `executorPreference: network.executor`.
///
/// <doc:TestingYourCode> shows tests with a simulated network. <doc:SimulatingNetworks> describes everything that a
/// test can change in one.
public final class SimulatedNetwork: Sendable {
    let loop: SimulatedEventLoop
    private let runs = RunQueue()

    let seed: UInt64

    /// Creates a network without hosts, at virtual time zero.
    ///
    /// - Parameters:
    ///   - seed: Determines everything that is random: delays, fragmentation, the order of tasks, and the random
    ///     choices of clients.
    ///   - conditions: The conditions of all links. Default: a good local network.
    public init(seed: UInt64, conditions: NetworkConditions = NetworkConditions()) {
        self.seed = seed
        loop = SimulatedEventLoop(seed: seed, conditions: conditions)
    }

    /// The event loops of this network, for clients and servers.
    public var loops: EventLoops { EventLoops(loop) }

    /// The executor of this network, for tasks that would not inherit it.
    public var executor: any TaskExecutor { loop }

    /// The network's virtual time.
    public var clock: SimulatedClock { SimulatedClock(loop: loop) }

    /// Runs `body` on a new thread, until it returns and everything that it started has settled.
    ///
    /// A network can run several bodies, one after the other; virtual time continues where it stopped. Nothing happens
    /// between runs: a client of this network that is used outside `run` waits forever. Cancelling the calling task
    /// does not end the run.
    ///
    /// If the simulation cannot continue, for example at a limit or in a deadlock, the body's task is cancelled and
    /// abandoned, and the call throws.
    ///
    /// - Parameters:
    ///   - limits: The limits of this run. Default: one day of virtual time and five million steps.
    ///   - body: The code to run in the network.
    /// - Returns: The value that `body` returns.
    /// - Throws: The errors of `body`, or a ``SimulationError``. `TransportError` if no thread can be started. After
    ///   ``SimulationError/leftTheLoop(_:)`` the network cannot be used again.
    public func run<Value: Sendable>(
        limits: SimulationLimits = SimulationLimits(),
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        await runs.begin()
        defer { runs.end() }
        let body = SimulatedBody(on: loop, body)
        return try await withCheckedThrowingContinuation { continuation in
            let code = startThread(named: "simulation") {
                continuation.resume(with: Result { try self.loop.run(limits, body) })
            }
            if code != 0 {
                body.cancel()
                continuation.resume(throwing: TransportError(.system, errno: code, "cannot start a simulation thread"))
            }
        }
    }

    package func runBlocking<Value: Sendable>(
        limits: SimulationLimits = SimulationLimits(),
        _ body: @escaping @Sendable () async throws -> Value
    ) throws -> Value {
        try loop.run(limits, SimulatedBody(on: loop, body))
    }

    package var openLinks: Int { loop.confined { loop.network.openLinks } }

    var linksMade: Int { loop.confined { Int(loop.network.linksMade) } }

    var bytesDelivered: Int { loop.confined { loop.network.bytesDelivered } }

    /// A hash of every event since the beginning, with its virtual time.
    ///
    /// Two runs of the same code with the same seed have the same fingerprint. If they differ, something in the test is
    /// not deterministic.
    public var fingerprint: UInt64 { loop.confined { loop.network.trace.fingerprint } }

    /// Whether ``trace`` records events. Default `false`.
    public var recordsTrace: Bool {
        get { loop.confined { loop.network.trace.isRecording } }
        set { loop.confined { loop.network.trace.isRecording = newValue } }
    }

    /// The events that happened while ``recordsTrace`` was `true`, one per line: the virtual time in seconds, the
    /// event, the number of the link, an amount (usually bytes), and details.
    public var trace: [String] { loop.confined { loop.network.trace.lines } }
}
