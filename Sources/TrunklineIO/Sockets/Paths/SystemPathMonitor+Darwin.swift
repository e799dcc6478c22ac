#if canImport(Network)
    import Dispatch
    import Network

    /// Written from the documentation: the project's check runs on Linux, where this file is not compiled.
    package final class SystemPathMonitor: PathMonitor {
        package static let shared = SystemPathMonitor()

        private let observers = PathObservers()
        private let monitor = Lock<NWPathMonitor?>(nil)
        private let gauge = Lock(SleepGauge(total: monotonicNow(), awake: awakeNow()))

        package init() {}

        package func add(_ observer: any PathObserver, on loop: any EventLoop) -> Bool {
            observers.add(observer, on: loop)
            monitor.withLock { monitor in
                guard monitor == nil else { return }
                let new = NWPathMonitor()
                // The first call reports the present state; observers find that nothing has changed.
                new.pathUpdateHandler = { [observers, gauge] _ in
                    // A system that wakes up looks for its networks again and reports them.
                    let hasSlept = gauge.withLock { $0.hasSlept(total: monotonicNow(), awake: awakeNow()) }
                    observers.tell(hasSlept ? .wake : .paths)
                }
                new.start(queue: DispatchQueue(label: "trunkline-paths"))
                monitor = new
            }
            return true
        }

        package func path(to address: SocketAddress, from source: SocketAddress?) -> NetworkPath {
            SocketPath.path(to: address, from: source)
        }

        package func isUsable(_ address: SocketAddress) -> Bool {
            guard let host = address.routed, let all = InterfaceAddress.all() else { return true }
            return all.contains { $0.isUp && $0.address.ipBytes == host.ipBytes }
        }

        package var hasNetwork: Bool { InterfaceAddress.all()?.contains { $0.isOfNetwork } ?? true }
    }
#endif
