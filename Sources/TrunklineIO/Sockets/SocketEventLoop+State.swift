extension SocketEventLoop {
    struct Posted {
        var jobs: [Job] = []
        var work: [any LoopWork] = []
        /// The first thread that posts wakes the loop and clears this flag.
        var isSleeping = false
        /// -1 while the loop has no descriptors and checks every few milliseconds.
        var wakeDescriptor: Int32
    }

    struct Job {
        var job: UnownedJob
        /// Whether it came through `TaskFace`: its task is not on an actor of the loop.
        var prefersLoop: Bool
    }

    struct State {
        var poller: any Poller
        var canWatch: Bool
        var timers = TimerQueue()
        var turnTime = Instant(nanoseconds: 0)
        /// When the present turn began to poll or sleep; `nil` if it did not.
        var waitBegan: Instant?
        var wakeBy: Instant?
        var turns = Turns()
        var delays = LoopDelays()
        var decoding: LoopDelay.LongestDecoding?
        var processorTimes = ProcessorTimes()
        var delayReceivers = LoopDelayReceivers()
        var jobs: [Job] = []
        /// From before `jobs`; those from `nextJob` on have not run. Empty unless a turn had too many.
        var begunJobs: [Job] = []
        var nextJob = 0
        var work: [any LoopWork] = []
        var atEndOfTurn: [any LoopWork] = []
        var inNextTurn: [any LoopWork] = []
        var sockets: [UInt64: Watched] = [:]
        var lastID: UInt64 = 0
        var ready: [Readiness] = []
        var polling = Polling()
        /// The thread sanitizer does not see the atomic operations of reference counts. It would report a race between
        /// the last reader of shared memory and the next read, as it may on macOS, where the loop cannot see it.
        var receiveMemory = ReceiveMemory(reusesLent: !isThreadSanitizerOn)
        var spareWork: [any LoopWork] = []
        var spareJobs: [Job] = []

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

        mutating func takeJobs() -> (jobs: [Job], next: Int) {
            if !begunJobs.isEmpty { return (exchange(&begunJobs, with: []), exchange(&nextJob, with: 0)) }
            defer { swap(&jobs, &spareJobs) }
            return (exchange(&jobs, with: []), 0)
        }
    }

    /// Polls before sleeping, only after a turn that did something. After a poll in vain the next are left out: 2, 4,
    /// up to 256. Success halves the exponent, so a loop polls often only if most polls pay.
    struct Polling {
        var hasWorked = false
        private var failures = 0
        private var skips = 0
        private let isOn = processorCount() > 1

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

    /// Most turns are short: these are only counted, which costs a few instructions.
    struct Turns {
        private var long = LatencyHistogram()
        private var (shortCount, shortSum) = (0, Int64(0))

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

    /// Processor times read at most 100 ms before the present turn, so that a turn need not read clocks.
    struct ProcessorTimes {
        private(set) var readAt = Int64.min
        private var (thread, process) = (Int64(0), Int64(0))

        static let interval: Int64 = 100_000_000

        @inline(never)
        mutating func read(at now: Instant) {
            readAt = now.nanoseconds
            (thread, process) = (threadProcessorNanoseconds(), processProcessorNanoseconds())
        }

        var used: (thread: Int64, process: Int64)? {
            if readAt == .min { return nil }
            return (threadProcessorNanoseconds() - thread, processProcessorNanoseconds() - process)
        }
    }

    struct Watched {
        weak var socket: (any WatchedSocket)?
    }
}
