#if os(Linux) && !Portable
    import CTrunkline

    /// The tasks that an event loop has resumed and that continue on the default executor, the pool of Swift's threads.
    ///
    /// They are handed to the pool together. One job of the pool, a runner, runs them one after the other, each exactly as
    /// the pool would. If each were enqueued alone, as continuations are, a request with 256 in flight would take 2.7 µs
    /// of processor time instead of 1.5.
    ///
    /// A task may take long until it is suspended again, or block its thread. So there is another runner, up to one for
    /// each processor, if
    ///
    /// - the tasks that a runner ran took long (`Pace`),
    /// - no task was begun for a millisecond, which the loop notices, or
    /// - the loop resumes tasks faster than the runners run them, and there are more than two processors.
    ///
    /// Unchecked `Sendable`: only the thread of the loop uses it, except for `queue`, which is locked, and constants.
    final class ResumedTasks: @unchecked Sendable {
        /// The tasks resumed since the last hand-over.
        ///
        /// Exclusive without a check: each method changes it and calls nothing that could resume a task. The check would
        /// cost each request 90 instructions.
        #if !DEBUG
            @exclusivity(unchecked)
        #endif
        @safe private var jobs: [UnownedJob] = []
        /// Whether tasks that were handed over may still wait for a runner.
        private(set) var mayHaveWaiting = false
        /// The number of tasks that had begun when the loop last saw progress, and the time then. `begun` is -1 until the loop
        /// has looked.
        private var progress = (begun: 0, at: Instant(nanoseconds: 0))
        /// The nanoseconds after which the loop starts another runner if no task is begun.
        private(set) var patience = shortestPatience
        private let queue = Lock(Queue())
        private let maximumRunners = processorCount()
        private let face: any TaskExecutor

        /// The number of tasks at which a batch is handed over before its end, so that they run while the loop goes on.
        private static let handOverCount = 64
        /// Batches with fewer tasks are enqueued one by one: a runner would not pay.
        private static let smallestBatch = 3
        private static let shortestPatience: Int64 = 1_000_000

        private struct Queue {
            private var jobs: [UnownedJob] = []
            /// The index of the next task to run.
            private var next = 0
            /// The number of tasks that were begun.
            private(set) var begun = 0
            private var runners = 0
            /// Whether a runner was started that has not begun.
            private var isStarting = false

            var waitingCount: Int { jobs.count - next }

            /// Adds tasks. `more` is empty afterwards.
            mutating func add(_ more: inout [UnownedJob]) {
                if waitingCount == 0 {
                    jobs.removeAll(keepingCapacity: jobs.capacity <= 8192)
                    next = 0
                    swap(&jobs, &more)
                } else {
                    if next >= 1024, next >= waitingCount {
                        jobs.removeSubrange(..<next)
                        next = 0
                    }
                    jobs.append(contentsOf: more)
                    more.removeAll(keepingCapacity: true)
                }
            }

            /// Reserves the start of a runner if tasks wait and there are fewer than `maximum`. Returns whether the caller must
            /// start it.
            mutating func reserveRunner(upTo maximum: Int) -> Bool {
                if waitingCount == 0 || isStarting || runners >= maximum { return false }
                isStarting = true
                return true
            }

            mutating func runnerBegins() { (isStarting, runners) = (false, runners + 1) }

            mutating func runnerEnds() { runners -= 1 }

            /// Returns the next task for a runner. If there is none, counts the runner as ended and returns `nil`.
            mutating func takeNext() -> UnownedJob? {
                if waitingCount == 0 {
                    runnerEnds()
                    return nil
                }
                defer { (next, begun) = (next + 1, begun + 1) }
                return jobs[next]
            }
        }

        /// How fast a runner runs its tasks. Reads the clock after 1, 2, 4 and 8 tasks, then after every eighth, and after
        /// every task if they are slow.
        private struct Pace {
            private let began = monotonicNow()
            private var count = 0
            private var nextLook = 1
            /// Whether tasks have taken more than 10 µs on average.
            private(set) var isSlow = false
            /// Whether other work of the pool should have its turn: after a millisecond.
            private(set) var isOver = false

            /// Counts a task. Returns whether this read the clock.
            mutating func countTask() -> Bool {
                count += 1
                guard count == nextLook else { return false }
                let elapsed = monotonicNow().nanoseconds - began.nanoseconds
                (isSlow, isOver) = (elapsed > 10_000 * Int64(count), elapsed > 1_000_000)
                nextLook += isSlow ? 1 : min(count, 8)
                return true
            }
        }

        /// - Parameter face: The executor of tasks that prefer the loop.
        init(_ face: any TaskExecutor) { self.face = face }

        // MARK: On the loop

        /// Adds a task, which was parked and is resumed. `preferred` is the executor that it prefers. Returns `false` if
        /// that is one of the user's.
        func add(_ job: UnownedJob, for preferred: UnsafeRawPointer?) -> Bool {
            guard let preferred = unsafe preferred else {
                jobs.append(job)
                if jobs.count == Self.handOverCount { handOver() }
                return true
            }
            guard UInt(bitPattern: preferred) == UInt(bitPattern: ObjectIdentifier(face)) else { return false }
            face.enqueue(job)
            return true
        }

        /// Hands over the tasks of a batch.
        @inline(__always)
        func endBatch() { if !jobs.isEmpty { handOver() } }

        /// Starts another runner if tasks wait and none was begun for a while. Called in every turn, and at least every
        /// `patience` while `mayHaveWaiting`.
        @inline(__always)
        func endTurn(at now: Instant) { if mayHaveWaiting { startRunnerIfStuck(at: now) } }

        @inline(never)
        private func handOver() {
            if jobs.count < Self.smallestBatch, !mayHaveWaiting {
                for job in jobs {
                    unsafe trunkline_enqueue(unsafeBitCast(job, to: UnsafeMutableRawPointer.self), trunkline_executor())
                }
                return jobs.removeAll(keepingCapacity: true)
            }
            if !mayHaveWaiting { (mayHaveWaiting, progress.begun) = (true, -1) }
            let maximum = maximumRunners
            let starts = queue.withLock { queue in
                let isBehind = queue.waitingCount >= Self.handOverCount
                queue.add(&jobs)
                return queue.reserveRunner(upTo: isBehind ? max(1, maximum - 1) : 1)
            }
            if starts { startRunner() }
        }

        @inline(never)
        private func startRunnerIfStuck(at now: Instant) {
            let (progress, maximum) = (progress, maximumRunners)
            let isLate = now.nanoseconds - progress.at.nanoseconds >= patience
            let (waitingCount, begun, starts) = queue.withLock { queue in
                let isStuck = isLate && queue.begun == progress.begun
                return (queue.waitingCount, queue.begun, isStuck ? queue.reserveRunner(upTo: maximum) : false)
            }
            mayHaveWaiting = waitingCount > 0
            if starts || begun != progress.begun {
                (self.progress, patience) = ((begun, now), Self.shortestPatience)
            } else if isLate {
                // All runners are busy: the loop need not wake up so often.
                patience = min(patience * 2, 64 * Self.shortestPatience)
            }
            if starts { startRunner() }
        }

        // MARK: On the pool

        /// An unstructured task: it runs other tasks, which do not wait for each other, and ends when none is left.
        private func startRunner() { Task.detached { await self.run() } }

        private func run() async {
            queue.withLock { $0.runnerBegins() }
            while runForAWhile() { await Task.yield() }
        }

        /// Runs tasks for a millisecond or until none is left. Returns whether the runner must go on.
        private func runForAWhile() -> Bool {
            var pace = Pace()
            while let job = queue.withLock({ $0.takeNext() }) {
                unsafe job.runSynchronously(on: defaultExecutor)
                guard pace.countTask() else { continue }
                if pace.isSlow, queue.withLock({ $0.reserveRunner(upTo: maximumRunners) }) { startRunner() }
                if pace.isOver { return true }
            }
            return false
        }
    }

    /// The default executor as a serial executor, on which the pool runs the jobs of its tasks. The zero value: that is
    /// how compiled code names it, in every call that switches to it.
    private let defaultExecutor = unsafe unsafeBitCast((0, 0), to: UnownedSerialExecutor.self)
#endif
