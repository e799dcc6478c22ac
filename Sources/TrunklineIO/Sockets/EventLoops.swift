import Synchronization

/// A set of event loops: the threads that run clients, connections and test servers.
///
/// A process needs few loops: ``EventLoops/shared`` serves thousands of connections. A loop is never stopped. To run
/// some clients on separate threads, create one further set for them. Do not create a set for each client.
///
/// Creating a set never fails:
///
/// - If the process has no file descriptors left for a loop, attempts to connect on it fail with the system's error as
///   their cause. They succeed once descriptors are available.
/// - If the process cannot start another thread, the loop runs on the threads of Swift's pool, more slowly, until it
///   can start one.
public struct EventLoops: Sendable {
    private let loops: Loops

    /// The set that clients use by default: one loop for every two processors, at least one.
    public static let shared = EventLoops(count: max(1, processorCount() / 2))

    /// How a loop learns from the operating system which sockets are ready.
    package enum Mechanism: Sendable, Hashable {
        /// `epoll(7)`. Linux only; on other systems the same as `poll`.
        case epoll
        /// `poll(2)`. Available on every system; slower with thousands of sockets on one loop.
        case poll

        /// The best mechanism of this system.
        package static var systemDefault: Mechanism {
            #if os(Linux)
                .epoll
            #else
                .poll
            #endif
        }
    }

    /// Creates a set of `count` loops, at least 1 and at most 1,024, and starts a thread for each.
    public init(count: Int) { self.init(count: count, mechanism: .systemDefault) }

    /// Creates a set of loops that wait for their sockets with `mechanism`.
    package init(count: Int, mechanism: Mechanism) {
        loops = Loops(
            (0..<min(max(1, count), 1024)).map { SocketEventLoop(name: "trunkline-\($0)", mechanism: mechanism) }
        )
    }

    /// Creates a set of one loop, for tests. `start` starts its thread and may fail; `pathMonitor` may describe another
    /// network.
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

    /// Creates a set of one loop whose names are resolved by `resolver`, for tests.
    package init(mechanism: Mechanism = .systemDefault, resolvingBy resolver: Resolver) {
        loops = Loops([SocketEventLoop(name: "trunkline-0", mechanism: mechanism, resolver: resolver)])
    }

    /// Creates a set of one existing loop.
    package init(_ loop: any EventLoop) { loops = Loops([loop]) }

    /// Returns the next loop, round-robin.
    package func next() -> any EventLoop { loops.next() }
}

/// Hands out loops round-robin.
private final class Loops: Sendable {
    private let all: [any EventLoop]
    private let turn = Atomic<Int>(0)

    package init(_ all: [any EventLoop]) { self.all = all }

    package func next() -> any EventLoop {
        all[turn.wrappingAdd(1, ordering: .relaxed).oldValue % all.count]
    }
}

extension EventLoops: CustomReflectable {
    /// Empty: the loops hold what their clients received.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The monitor of this host's network.
package var systemPathMonitor: any PathMonitor {
    #if os(Linux) || canImport(Network)
        SystemPathMonitor.shared
    #else
        NoPathMonitor.shared
    #endif
}
