#if os(Linux)
    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// Uses netlink(7) on the loop of its first observer. Paths are queried, and cached until something changes. If
    /// netlink is forbidden or missing, every path is `unknown`, and one line is written to standard error.
    final class SystemPathMonitor: PathMonitor {
        static let shared = SystemPathMonitor()

        typealias Opener = @Sendable (_ groups: UInt32) -> Int32

        private let open: Opener
        private let report: @Sendable (String) -> Void
        private let observers = PathObservers()
        private let state = Lock(State())

        init(
            opening open: @escaping Opener = openNetlinkSocket,
            reporting report: @escaping @Sendable (String) -> Void = { writeToStandardError($0) }
        ) {
            self.open = open
            self.report = report
        }

        private struct State {
            var watch: NetlinkWatch?
            var wakeWatch: WakeWatch?
            var requests: NetlinkRequests?
            var isRefused = false
            var hasReported = false
            var found = Found()
        }

        private struct Found {
            struct Way: Hashable {
                let target: SocketAddress
                let source: SocketAddress?
            }

            /// A cache of this size is emptied: the oldest entries are not tracked.
            static let limit = 1024

            var paths: [Way: NetworkPath] = [:]
            var usable: [SocketAddress: Bool] = [:]
            var links: [UInt32: NetlinkLink] = [:]
            var hasNetwork: Bool?
        }

        package func add(_ observer: any PathObserver, on loop: any EventLoop) -> Bool {
            guard let loop = loop as? SocketEventLoop else { return false }
            let failure = state.withLock { $0.watch == nil ? start(&$0, on: loop) : nil }
            if let failure {
                say(failure)
                return false
            }
            guard state.withLock({ $0.watch != nil }) else { return false }
            observers.add(observer, on: loop)
            return true
        }

        private func start(_ state: inout State, on loop: SocketEventLoop) -> NetlinkFailure? {
            guard !state.isRefused else { return nil }
            do throws(NetlinkFailure) {
                // The socket that receives changes is opened first, so that no change is missed.
                let descriptor = try openSocket(NetlinkWatch.groups)
                let watch = NetlinkWatch(descriptor, on: loop, for: self)
                state.requests = try NetlinkRequests(openSocket(0))
                state.watch = watch
                if state.wakeWatch == nil { state.wakeWatch = WakeWatch(on: loop, for: self) }
                return nil
            } catch {
                state.isRefused = !error.isTemporary
                return error
            }
        }

        private func openSocket(_ groups: UInt32) throws(NetlinkFailure) -> Int32 {
            let descriptor = open(groups)
            guard descriptor >= 0 else { throw NetlinkFailure(code: -descriptor) }
            return descriptor
        }

        private func say(_ failure: NetlinkFailure) {
            let isFirst = state.withLock { !exchange(&$0.hasReported, with: true) }
            if isFirst { report(failure.message) }
        }

        func forgetPaths() {
            // Deallocates outside the lock.
            _ = state.withLock { exchange(&$0.found, with: Found()) }
        }

        func tell(_ change: NetworkChange) {
            forgetPaths()
            observers.tell(change)
        }

        /// Reopens the socket, unless it was opened less than a second ago. Call this on the loop of `watch`.
        func watchEnded(_ watch: NetlinkWatch, _ failure: NetlinkFailure) {
            let hadRest = watch.loop.now.since(watch.openedAt) > .seconds(1)
            let ended = state.withLock { state -> NetlinkFailure? in
                guard state.watch === watch else { return nil }
                (state.watch, state.requests) = (nil, nil)
                return hadRest ? start(&state, on: watch.loop) : failure
            }
            if let ended { say(ended) }
            tell(.paths)
        }

        package func path(to address: SocketAddress, from source: SocketAddress?) -> NetworkPath {
            guard let target = address.routed else { return .local }
            let way = Found.Way(target: target, source: source?.boundHost)
            return state.withLock { state in
                if let path = state.found.paths[way] { return path }
                let path = findPath(way, &state)
                if path == .unknown { return path }
                if state.found.paths.count >= Found.limit { state.found.paths = [:] }
                state.found.paths[way] = path
                return path
            }
        }

        package func isUsable(_ address: SocketAddress) -> Bool {
            guard let host = address.routed?.with(port: 0) else { return true }
            return state.withLock { state in
                guard state.requests != nil else { return true }
                if let isUsable = state.found.usable[host] { return isUsable }
                let isUsable = findAddress(host, &state)
                if state.found.usable.count >= Found.limit { state.found.usable = [:] }
                state.found.usable[host] = isUsable
                return isUsable
            }
        }

        package var hasNetwork: Bool {
            state.withLock { state in
                guard state.requests != nil else { return true }
                if let known = state.found.hasNetwork { return known }
                let hasNetwork = InterfaceAddress.all()?.contains { $0.isOfNetwork } ?? true
                state.found.hasNetwork = hasNetwork
                return hasNetwork
            }
        }

        private func findPath(_ way: Found.Way, _ state: inout State) -> NetworkPath {
            guard let requests = state.requests else { return .unknown }
            let route: NetlinkRoute
            switch requests.route(to: way.target, from: way.source) {
            case .message(let message):
                guard let answer = NetlinkRoute(message) else { return .unknown }
                route = answer
            // The last three: a blackhole (or an unusable source), a prohibition, a scope that is not an interface.
            case .refused(let code):
                let isRouteless = [ENETUNREACH, EHOSTUNREACH, ENETDOWN, EADDRNOTAVAIL, EINVAL, EACCES, ENODEV].contains(
                    code
                )
                return isRouteless ? .noRoute : .unknown
            case .missing: return .unknown
            }
            guard route.leadsOn else { return .noRoute }
            // An IPv4 source was part of the query.
            if let source = way.source, source.family == .ipv6, SocketPath.isForeign(source) { return .noRoute }
            guard let index = route.interface, let link = link(index, &state) else { return .unknown }
            // Packets to this host need no carrier.
            guard route.isLocal || link.isUsable else { return .noRoute }
            let source = way.source ?? route.source.map { address($0, of: link) }
            return .route(
                NetworkRoute(
                    interface: link.name,
                    source: source,
                    gateway: route.gateway.map { address($0, of: link).host },
                    isTunnel: link.isTunnel
                )
            )
        }

        /// A link-local IPv6 address has the interface as its scope.
        private func address(_ bytes: [UInt8], of link: NetlinkLink) -> SocketAddress {
            guard bytes.count == 16 else { return .ipv4(bytes, port: 0) }
            return .ipv6(bytes, port: 0, scope: bytes.isLinkLocalIPv6 ? link.index : 0)
        }

        private func link(_ index: UInt32, _ state: inout State) -> NetlinkLink? {
            if let link = state.found.links[index] { return link }
            let link = state.requests?.link(index)
            if let link { state.found.links[index] = link }
            return link
        }

        /// Asks for the route, which takes the same time however many addresses there are. Lists the addresses only if
        /// it seems to be missing: it may be in a routing table other than the main one.
        private func findAddress(_ host: SocketAddress, _ state: inout State) -> Bool {
            if case .message(let message)? = state.requests?.route(to: host, from: nil, findsEntry: true),
                let route = NetlinkRoute(message), route.isLocal, let index = route.interface,
                let link = link(index, &state)
            {
                // The loopback has networks all of whose addresses belong to this host.
                return link.isUp
            }
            guard let all = InterfaceAddress.all() else { return true }
            return all.contains { $0.isUp && $0.address.ipBytes == host.ipBytes }
        }
    }
#endif
