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

    enum Mechanism: Sendable, Hashable {
        case epoll
        case poll

        static var systemDefault: Mechanism {
            #if os(Linux)
                .epoll
            #else
                .poll
            #endif
        }
    }

    /// Creates a set of `count` loops, at least 1 and at most 1,024, and starts a thread for each.
    public init(count: Int) { self.init(count: count, mechanism: .systemDefault) }

    init(count: Int, mechanism: Mechanism) {
        loops = Loops(
            (0..<min(max(1, count), 1024)).map { SocketEventLoop(name: "trunkline-\($0)", mechanism: mechanism) }
        )
    }

    init(
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

    init(mechanism: Mechanism = .systemDefault, resolvingBy resolver: Resolver) {
        loops = Loops([SocketEventLoop(name: "trunkline-0", mechanism: mechanism, resolver: resolver)])
    }

    package init(_ loop: any EventLoop) { loops = Loops([loop]) }

    package func next() -> any EventLoop { loops.next() }
}

private final class Loops: Sendable {
    private let all: [any EventLoop]
    private let turn = Atomic<Int>(0)

    init(_ all: [any EventLoop]) { self.all = all }

    func next() -> any EventLoop {
        all[turn.wrappingAdd(1, ordering: .relaxed).oldValue % all.count]
    }
}

extension EventLoops: CustomReflectable {
    /// Empty: the loops hold what their clients received.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

var systemPathMonitor: any PathMonitor {
    #if os(Linux) || canImport(Network)
        SystemPathMonitor.shared
    #else
        NoPathMonitor.shared
    #endif
}
