import Synchronization

/// A set of event loops: the threads on which clients, connections and test servers live.
///
/// A process needs few: `EventLoops.shared` serves thousands of connections. Loops are never stopped once made; make a
/// set of your own once, to keep a client away from the others, not per client.
///
/// Making one never fails. If the process has no file descriptors left for a loop, attempts to connect on it fail with the
/// system's error as their cause, and succeed once there are some. If it has no thread left, the loop works on the threads
/// of Swift's pool, more slowly, until it can start one.
public struct EventLoops: Sendable {
    private let loops: Loops

    /// Shared by everything that does not say otherwise: one loop per two processors, at least one.
    public static let shared = EventLoops(count: max(1, processorCount() / 2))

    /// How a loop asks the operating system which sockets are ready.
    package enum Mechanism: Sendable, Hashable {
        /// `epoll(7)`. Linux only; elsewhere the same as `poll`.
        case epoll
        /// `poll(2)`: everywhere, slower with thousands of sockets on one loop.
        case poll

        /// The best the system has.
        package static var systemDefault: Mechanism {
            #if os(Linux)
                .epoll
            #else
                .poll
            #endif
        }
    }

    /// Starts `count` threads (at least one).
    public init(count: Int) { self.init(count: count, mechanism: .systemDefault) }

    /// The same, each waiting for its sockets by `mechanism`.
    package init(count: Int, mechanism: Mechanism) {
        loops = Loops((0..<max(1, count)).map { SocketEventLoop(name: "trunkline-\($0)", mechanism: mechanism) })
    }

    /// Starts a thread by `start`, which may fail, and whose network may be another: for tests.
    package init(
        mechanism: Mechanism = .systemDefault,
        pathMonitor: any PathMonitor = systemPathMonitor,
        startingThreadBy start: @escaping @Sendable (String, @escaping @Sendable () -> Void) -> Int32
    ) {
        loops = Loops([
            SocketEventLoop(
                name: "trunkline-0",
                mechanism: mechanism,
                pathMonitor: pathMonitor,
                startingThreadBy: start
            )
        ])
    }

    /// Starts a thread whose names are resolved by `resolver`: for tests.
    package init(mechanism: Mechanism = .systemDefault, resolvingBy resolver: Resolver) {
        loops = Loops([SocketEventLoop(name: "trunkline-0", mechanism: mechanism, resolver: resolver)])
    }

    /// A set of one loop that exists already.
    package init(_ loop: any EventLoop) { loops = Loops([loop]) }

    /// The loops in turn.
    package func next() -> any EventLoop { loops.next() }
}

/// Hands out loops in turn.
private final class Loops: Sendable {
    private let all: [any EventLoop]
    private let turn = Atomic<Int>(0)

    init(_ all: [any EventLoop]) { self.all = all }

    func next() -> any EventLoop {
        all[turn.wrappingAdd(1, ordering: .relaxed).oldValue % all.count]
    }
}
