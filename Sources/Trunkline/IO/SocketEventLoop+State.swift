/// What a loop consists of.
extension SocketEventLoop {
    /// What other threads hand to the loop.
    struct Posted {
        var jobs: [Job] = []
        var work: [any LoopWork] = []
        /// The loop waits, or is about to: whoever posts has to wake it, and the first who does says so.
        var isSleeping = false
        /// What to write to, to wake it; -1 while the loop has no descriptors and looks every few milliseconds.
        var wakeDescriptor: Int32
    }

    /// A piece of a task, and which of the loop's two faces it came to.
    struct Job {
        var job: UnownedJob
        /// Its task prefers this loop, and is not in one of the loop's actors.
        var prefersLoop: Bool
    }

    /// What belongs to the loop's thread.
    struct State {
        var poller: any Poller
        /// The poller watches sockets; otherwise the system had no descriptors for one.
        var canWatch: Bool
        var timers = TimerQueue()
        var turnTime = Instant(nanoseconds: 0)
        var jobs: [Job] = []
        var work: [any LoopWork] = []
        var atEndOfTurn: [any LoopWork] = []
        var inNextTurn: [any LoopWork] = []
        var sockets: [UInt64: Watched] = [:]
        var lastID: UInt64 = 0
        var ready: [Readiness] = []
        var expectation = Expectation()
        var receiveMemory: [UInt8] = []
        /// Empty arrays whose memory is used again.
        var spareWork: [any LoopWork] = []
        var spareJobs: [Job] = []

        mutating func takeWork() -> [any LoopWork] {
            defer { swap(&work, &spareWork) }
            return exchange(&work, with: [])
        }

        mutating func takeEndOfTurn() -> [any LoopWork] {
            defer { swap(&atEndOfTurn, &spareWork) }
            return exchange(&atEndOfTurn, with: [])
        }

        mutating func takeJobs() -> [Job] {
            defer { swap(&jobs, &spareJobs) }
            return exchange(&jobs, with: [])
        }
    }

    /// Whether something is expected to come up at once; not believed for a while after it did not.
    struct Expectation {
        var isRaised = false
        private var disappointments = 0
        private var ignored = 0

        mutating func take() -> Bool {
            guard exchange(&isRaised, with: false) else { return false }
            if ignored > 0 {
                ignored -= 1
                return false
            }
            return true
        }

        /// It came up.
        mutating func fulfil() -> Bool {
            disappointments = 0
            return true
        }

        /// It did not.
        mutating func disappoint() -> Bool {
            disappointments = min(disappointments + 1, 8)
            ignored = 1 << disappointments
            return false
        }
    }

    struct Watched {
        weak var socket: (any WatchedSocket)?
    }
}
