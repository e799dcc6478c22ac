#if os(Linux)
    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif
    import CTrunkline

    /// Detects that the machine woke up: the clock jumps. Monotonic clocks tell that from a clock that was set.
    ///
    /// Safe to share between threads: apart from `deinit`, it is used only on its loop.
    final class WakeWatch: WatchedSocket, @unchecked Sendable {
        private let loop: SocketEventLoop
        private let id: UInt64
        private let descriptor: Int32
        private weak var monitor: SystemPathMonitor?
        private var gauge = SleepGauge(total: monotonicNow(), awake: awakeNow())

        /// Returns `nil` if the system has no such timer. Call this on `loop`.
        init?(on loop: SocketEventLoop, for monitor: SystemPathMonitor) {
            descriptor = trunkline_clock_watch(O_CLOEXEC | O_NONBLOCK)
            self.loop = loop
            self.monitor = monitor
            id = loop.newID()
            guard descriptor >= 0 else { return nil }
            loop.register(self, id: id)
            loop.watch(descriptor, id: id, reading: true, writing: false)
        }

        deinit { if descriptor >= 0 { loop.release(descriptor, id: id) } }

        func isReady(_ readiness: Readiness) {
            var count: UInt64 = 0
            guard unsafe read(descriptor, &count, 8) < 0, errno == ECANCELED else { return }
            trunkline_clock_watch_again(descriptor)
            if gauge.hasSlept(total: monotonicNow(), awake: awakeNow()) { monitor?.tell(.wake) }
        }

        /// Sleep then goes unnoticed; everything else works.
        func watchFailed(_ code: Int32) {}
    }
#endif
