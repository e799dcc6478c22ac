#if os(Linux)
    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// Observers query the kernel again after a change, so it does not matter that the kernel may drop notifications.
    ///
    /// Safe to share between threads: apart from `deinit`, it is used only on its loop.
    final class NetlinkWatch: WatchedSocket, TimerTarget, @unchecked Sendable {
        /// Interfaces (1), addresses and routes of IPv4 (5, 7) and IPv6 (9, 11), rules of both (8, 19), next hops (32).
        static let groups: UInt32 = [1, 5, 7, 8, 9, 11, 19, 32].reduce(0) { $0 | 1 << ($1 - 1) }

        /// A change may come in several steps, so observers are notified this long after the first one.
        private static let settlingTime = Duration.milliseconds(10)
        private static let interval = Duration.milliseconds(50)

        let loop: SocketEventLoop
        private let id: UInt64
        private let descriptor: Int32
        private weak var monitor: SystemPathMonitor?
        private lazy var timer = LoopTimer(target: self)
        private var isPending = false
        private var toldAt = Instant.distantPast
        private var memory = [UInt8](repeating: 0, count: 8 * 1024)
        let openedAt: Instant

        /// Takes ownership of a socket that is in `groups`. Call this on `loop`.
        init(_ descriptor: Int32, on loop: SocketEventLoop, for monitor: SystemPathMonitor) {
            self.descriptor = descriptor
            self.loop = loop
            self.monitor = monitor
            id = loop.newID()
            openedAt = loop.now
            loop.register(self, id: id)
            loop.watch(descriptor, id: id, reading: true, writing: false)
        }

        deinit { loop.release(descriptor, id: id) }

        func isReady(_ readiness: Readiness) {
            var hasChanged = false
            defer { if hasChanged { noteChange() } }
            // Bounded, so that a flood of changes does not keep the loop from other sockets.
            for _ in 0..<64 {
                let count = receiveNetlink(descriptor, into: &memory)
                switch Int32(clamping: count) {
                case -EAGAIN, -EWOULDBLOCK: return
                case -EINTR: continue
                case -ENOBUFS: hasChanged = true  // the kernel dropped notifications
                case ..<0: return fail(Int32(-count))
                default: hasChanged = hasChanged || NetlinkMessages(memory.prefix(count)).contains { $0.concernsPaths }
                }
            }
        }

        func watchFailed(_ code: Int32) { fail(code) }

        private func fail(_ code: Int32) {
            loop.arm(timer, at: nil)
            monitor?.watchEnded(self, NetlinkFailure(code: code))
        }

        private func noteChange() {
            monitor?.forgetPaths()
            guard !isPending else { return }
            isPending = true
            let now = loop.now
            loop.arm(timer, at: max(now.advanced(by: Self.settlingTime), toldAt.advanced(by: Self.interval)))
        }

        func timerFired() {
            isPending = false
            toldAt = loop.now
            monitor?.tell(.paths)
        }
    }
#endif
