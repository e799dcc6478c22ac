#if os(Linux) && !Portable
    import CTrunkline

    /// The tasks that an event loop has resumed for the default executor, the pool of Swift's threads. One job of the
    /// pool, a runner, runs them one after the other, each as the pool would. If each were enqueued alone, a request
    /// with 256 in flight would take 2.7 µs of processor time instead of 1.5.
    /// A task may take long, or block its thread. So there is another runner, up to one for each processor, if the
    /// tasks took long (`Pace`), if none was begun for a millisecond, or if the loop resumes tasks faster than the
    /// runners run them and there are more than two processors.
    ///
    /// Unchecked `Sendable`: only the thread of the loop uses it, except for `queue`, which is locked, and constants.
    final class ResumedTasks: @unchecked Sendable {
        /// Exclusive without a check: each method changes it and calls nothing that could resume a task. The check
        /// would cost each request 90 instructions.
        #if !DEBUG
            @exclusivity(unchecked)
        #endif
        @safe private var jobs: [UnownedJob] = []
        private(set) var mayHaveWaiting = false
        /// When the loop last saw progress. `begun` is -1 until the loop has looked.
        private var progress = (begun: 0, at: Instant(nanoseconds: 0))
        /// In nanoseconds. Another runner starts if no task is begun for this long.
        private(set) var patience = shortestPatience
        private let queue = Lock(Queue())
        private let maximumRunners = processorCount()
        private let face: any TaskExecutor

        /// A batch of this size is handed over before its end, so that its tasks run while the loop goes on.
        private static let handOverCount = 64
        /// Smaller batches are enqueued one by one: a runner would not pay.
        private static let smallestBatch = 3
        private static let shortestPatience: Int64 = 1_000_000

        private struct Queue {
            private var jobs: [UnownedJob] = []
            private var next = 0
            private(set) var begun = 0
            private var runners = 0
            private var isStarting = false

            var waitingCount: Int { jobs.count - next }

            mutating func add(_ more: inout [UnownedJob]) {
                if waitingCount == 0 {
                    jobs.empty(keepingCapacity: jobs.capacity <= 8192)
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

            mutating func reserveRunner(upTo maximum: Int) -> Bool {
                if waitingCount == 0 || isStarting || runners >= maximum { return false }
                isStarting = true
                return true
            }

            mutating func runnerBegins() { (isStarting, runners) = (false, runners + 1) }

            mutating func runnerEnds() { runners -= 1 }

            mutating func takeNext() -> UnownedJob? {
                if waitingCount == 0 {
                    runnerEnds()
                    return nil
                }
                defer { (next, begun) = (next + 1, begun + 1) }
                return jobs[next]
            }
        }

        /// Reads the clock after 1, 2, 4 and 8 tasks, then after every eighth, and after every task if they are slow.
        private struct Pace {
            private let began = monotonicNow()
            private var count = 0
            private var nextLook = 1
            private(set) var isSlow = false
            /// After a millisecond, other work of the pool has its turn.
            private(set) var isOver = false

            mutating func countTask() -> Bool {
                count += 1
                guard count == nextLook else { return false }
                let elapsed = monotonicNow().nanoseconds - began.nanoseconds
                (isSlow, isOver) = (elapsed > 10_000 * Int64(count), elapsed > 1_000_000)
                nextLook += isSlow ? 1 : min(count, 8)
                return true
            }
        }

        init(_ face: any TaskExecutor) { self.face = face }

        // MARK: On the loop

        /// `preferred` is the executor that the task prefers. Returns `false` if that is one of the user's.
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

        @inline(__always)
        func endBatch() { if !jobs.isEmpty { handOver() } }

        /// Called in every turn, and at least every `patience` while `mayHaveWaiting`.
        @inline(__always)
        func endTurn(at now: Instant) { if mayHaveWaiting { startRunnerIfStuck(at: now) } }

        @inline(never)
        private func handOver() {
            if jobs.count < Self.smallestBatch, !mayHaveWaiting {
                for job in jobs {
                    unsafe trunkline_enqueue(unsafeBitCast(job, to: UnsafeMutableRawPointer.self), trunkline_executor())
                }
                return jobs.empty()
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

        /// Unstructured: it runs other tasks, which do not wait for each other, and ends when none is left.
        private func startRunner() { Task.detached { await self.run() } }

        private func run() async {
            queue.withLock { $0.runnerBegins() }
            while runForAWhile() { await Task.yield() }
        }

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

    /// The zero value: compiled code names the default executor so, in every call that switches to it.
    private let defaultExecutor = unsafe unsafeBitCast((0, 0), to: UnownedSerialExecutor.self)
#endif
