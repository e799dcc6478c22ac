public import Trunkline

/// A network and the time it lives in, simulated: clients, servers and the links between them run on one thread, in
/// virtual time, in an order that a seed decides. A run takes microseconds, and the same seed repeats it exactly.
///
/// Hand `loops` to clients and servers, then `run` a body in which everything happens:
///
///     let network = SimulatedNetwork(seed: 7)
///     try await network.run {
///         let server = try await network.startServer(at: "db:7000", speaking: .standard)
///         let client = Client(to: "db:7000", speaking: .standard, on: network.loops)
///         network.partition("db")
///         try await network.clock.sleep(for: .seconds(60))
///         network.heal()
///         …
///     }
///
/// The body and all it starts must stay on the simulation: tasks of a task group and `async let` do, actors that have
/// no executor of their own do, `Task {}` and `Task.detached` do not; give those `executorPreference: network.executor`.
public final class SimulatedNetwork: Sendable {
    package let loop: SimulatedEventLoop

    /// What decides everything that is random.
    package let seed: UInt64

    /// Makes a network without hosts on which it is zero o'clock.
    public init(seed: UInt64, conditions: NetworkConditions = NetworkConditions()) {
        self.seed = seed
        loop = SimulatedEventLoop(seed: seed, conditions: conditions)
    }

    /// Where clients and servers of this network run.
    public var loops: EventLoops { EventLoops(loop) }

    /// The executor of everything on this network, for tasks that would not inherit it.
    public var executor: any TaskExecutor { loop }

    /// The network's time.
    public var clock: SimulatedClock { SimulatedClock(loop: loop) }

    /// Runs `body` until it returns and everything it set going has settled, on a thread of its own.
    ///
    /// A network can run several bodies, one after the other; time goes on where it stopped. In between nothing happens:
    /// a client of this network that is used outside `run` waits for ever. When the simulation cannot go on, the body's
    /// task is cancelled and left behind.
    ///
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, or a `SimulationError`. After `SimulationError.leftTheLoop` the network cannot be
    ///   used again.
    public func run<Value: Sendable>(
        limits: SimulationLimits = SimulationLimits(),
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            let code = startThread(named: "simulation") {
                continuation.resume(with: Result { try self.runBlocking(limits: limits, body) })
            }
            if code != 0 {
                continuation.resume(throwing: TransportError(.system, errno: code, "the system has no thread left"))
            }
        }
    }

    /// As `run`, on the calling thread, which it blocks: for code that is not asynchronous.
    package func runBlocking<Value: Sendable>(
        limits: SimulationLimits = SimulationLimits(),
        _ body: @escaping @Sendable () async throws -> Value
    ) throws -> Value {
        try loop.run(limits, body)
    }

    // MARK: What happened

    /// Links of which one end at least is in use.
    package var openLinks: Int { loop.confined { loop.network.openLinks } }

    /// Attempts to connect since the beginning.
    package var linksMade: Int { loop.confined { Int(loop.network.linksMade) } }

    /// Bytes that were read from links since the beginning.
    package var bytesDelivered: Int { loop.confined { loop.network.bytesDelivered } }

    /// A number that is the same whenever everything happened in the same way.
    public var fingerprint: UInt64 { loop.confined { loop.network.trace.fingerprint } }

    /// Whether `trace` grows. Off until set.
    public var recordsTrace: Bool {
        get { loop.confined { loop.network.trace.isRecording } }
        set { loop.confined { loop.network.trace.isRecording = newValue } }
    }

    /// What happened while `recordsTrace` was on, a line each: the time in seconds, what, which link, how much.
    public var trace: [String] { loop.confined { loop.network.trace.lines } }
}
