/// The parts of a loop's state.
extension SocketEventLoop {
    /// The work that other threads pass to the loop.
    struct Posted {
        var jobs: [Job] = []
        var work: [any LoopWork] = []
        /// Whether the loop waits or is about to. The first thread that posts has to wake it, and clears this flag.
        var isSleeping = false
        /// The descriptor to write to in order to wake the loop; -1 while the loop has no descriptors and checks every
        /// few milliseconds.
        var wakeDescriptor: Int32
    }

    /// A job of a task, and which of the loop's two executors it was enqueued on.
    struct Job {
        var job: UnownedJob
        /// Whether it came through `TaskFace`: its task prefers this loop and is not on one of the loop's actors.
        var prefersLoop: Bool
    }

    /// The state that belongs to the loop's thread.
    struct State {
        var poller: any Poller
        /// Whether the poller watches sockets. False if the system had no descriptors for one.
        var canWatch: Bool
        var timers = TimerQueue()
        var turnTime = Instant(nanoseconds: 0)
        /// When the present turn stopped working and began to wait, polling or sleeping; `nil` if it did not wait.
        var waitBegan: Instant?
        /// When that wait was to end at the latest; `nil` without a limit.
        var wakeBy: Instant?
        var turns = Turns()
        var delays = LoopDelays()
        /// The call of a codec that took long, of the latest turn with one.
        var decoding: LoopDelay.LongestDecoding?
        var processorTimes = ProcessorTimes()
        var delayReceivers = LoopDelayReceivers()
        var jobs: [Job] = []
        /// Jobs from before `jobs`, of which those from `nextJob` on have not run. Empty unless a turn had too many.
        var begunJobs: [Job] = []
        var nextJob = 0
        var work: [any LoopWork] = []
        var atEndOfTurn: [any LoopWork] = []
        var inNextTurn: [any LoopWork] = []
        var sockets: [UInt64: Watched] = [:]
        var lastID: UInt64 = 0
        var ready: [Readiness] = []
        var polling = Polling()
        /// The thread sanitizer does not see the atomic operations of reference counts. For memory that a body shared,
        /// it would report a race between the last reader of the body and the next read of the socket. On macOS the
        /// loop cannot tell whether the sanitizer is on, so it may report that race there.
        var receiveMemory = ReceiveMemory(reusesLent: !isThreadSanitizerOn)
        /// Empty arrays whose memory is reused.
        var spareWork: [any LoopWork] = []
        var spareJobs: [Job] = []

        /// Whether there is something to do in the next turn, whatever happens until then.
        var hasWork: Bool { hasJobs || !(work.isEmpty && atEndOfTurn.isEmpty && inNextTurn.isEmpty) }

        var hasJobs: Bool { !(jobs.isEmpty && begunJobs.isEmpty) }

        mutating func takeWork() -> [any LoopWork] {
            defer { swap(&work, &spareWork) }
            return exchange(&work, with: [])
        }

        mutating func takeEndOfTurn() -> [any LoopWork] {
            defer { swap(&atEndOfTurn, &spareWork) }
            return exchange(&atEndOfTurn, with: [])
        }

        /// Takes the jobs that are next, and the index of the first one that has not run.
        mutating func takeJobs() -> (jobs: [Job], next: Int) {
            if !begunJobs.isEmpty { return (exchange(&begunJobs, with: []), exchange(&nextJob, with: 0)) }
            defer { swap(&jobs, &spareJobs) }
            return (exchange(&jobs, with: []), 0)
        }
    }

    /// Whether the loop polls before it sleeps.
    ///
    /// Only after a turn that did something, so an idle loop does not poll. After polling in vain, the next times are
    /// left out: 2, then 4, up to 256. Success halves the exponent, so a loop polls often only if most polls pay.
    struct Polling {
        /// Whether jobs or work ran, or a socket was ready, since the loop last considered polling.
        var hasWorked = false
        private var failures = 0
        private var skips = 0
        private let isOn = processorCount() > 1

        /// The most nanoseconds to poll.
        static let limit = 60_000

        mutating func begins() -> Bool {
            guard exchange(&hasWorked, with: false), isOn else { return false }
            if skips > 0 {
                skips -= 1
                return false
            }
            return true
        }

        mutating func ends(hasPaid: Bool) {
            failures = hasPaid ? failures / 2 : min(failures + 1, 8)
            skips = hasPaid ? 0 : 1 << failures
        }
    }

    /// How long turns took. Most are short: these are only counted, which costs a few instructions.
    struct Turns {
        private var long = LatencyHistogram()
        private var (shortCount, shortSum) = (0, Int64(0))

        /// The nanoseconds from which a turn is recorded on its own: 65 µs.
        private static let shortest: Int64 = 1 << 16

        @inline(__always)
        mutating func record(nanoseconds: Int64) {
            if nanoseconds < Self.shortest {
                shortCount &+= 1
                shortSum &+= nanoseconds
            } else {
                long.record(nanoseconds: nanoseconds)
            }
        }

        var durations: LatencyHistogram {
            var all = long
            if shortCount > 0 { all.record(nanoseconds: shortSum / Int64(shortCount), times: shortCount) }
            return all
        }
    }

    /// For how long the loop's thread and its process had run at a moment that is at most a tenth of a second before
    /// the present turn, apart from waiting. So what a late turn has used is known without reading clocks in each turn.
    struct ProcessorTimes {
        private(set) var readAt = Int64.min
        private var (thread, process) = (Int64(0), Int64(0))

        /// How long a reading is used, in nanoseconds: 100 ms.
        static let interval: Int64 = 100_000_000

        @inline(never)
        mutating func read(at now: Instant) {
            readAt = now.nanoseconds
            (thread, process) = (threadProcessorNanoseconds(), processProcessorNanoseconds())
        }

        /// The nanoseconds for which they have run since the latest reading; `nil` if there was none.
        var used: (thread: Int64, process: Int64)? {
            if readAt == .min { return nil }
            return (threadProcessorNanoseconds() - thread, processProcessorNanoseconds() - process)
        }
    }

    struct Watched {
        weak var socket: (any WatchedSocket)?
    }
}
