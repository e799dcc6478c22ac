#if os(Linux)
    import CTrunkline

    /// The tasks that an event loop has resumed and that continue on the default executor, the pool of Swift's threads.
    ///
    /// They are handed to the pool together. One job of the pool, a runner, runs them one after the other, each exactly as
    /// the pool would. If each were enqueued alone, as continuations are, a request with 256 in flight would take 2.8 µs
    /// of processor time instead of 1.8.
    ///
    /// A task may take long between two suspensions, or block. So tasks that wait while the runners make no progress get
    /// another runner, up to one for each processor.
    ///
    /// Confined to the thread of the loop, except for `queue`.
    final class ResumedTasks: @unchecked Sendable {
        /// The tasks resumed since the last hand-over.
        private var jobs: [UnownedJob] = []
        /// Whether the queue may hold tasks that were handed over.
        private var mayHaveRest = false
        private var takenCount = 0
        private let queue = Lock(Queue())
        private let maximumRunners = processorCount()
        private let face: TaskFace

        /// So many tasks are handed over before the end of the batch, so that they run while the loop goes on.
        private static let share = 64
        /// Fewer tasks are enqueued one by one: a runner would not pay.
        private static let few = 3

        private struct Queue {
            var jobs: [UnownedJob] = []
            /// The index of the next task to run.
            var next = 0
            /// The number of tasks that were taken.
            var takenCount = 0
            var runners = 0
            /// Whether a runner was started that has not begun.
            var isStarting = false

            var rest: Int { jobs.count - next }

            mutating func add(_ more: inout [UnownedJob]) {
                if rest == 0 {
                    jobs.removeAll(keepingCapacity: jobs.capacity <= 8192)
                    next = 0
                    swap(&jobs, &more)
                } else {
                    jobs.append(contentsOf: more)
                    more.removeAll(keepingCapacity: true)
                }
            }

            mutating func takeNext() -> UnownedJob? {
                guard next < jobs.count else { return nil }
                defer { (next, takenCount) = (next + 1, takenCount + 1) }
                return jobs[next]
            }

            /// Returns whether a runner must be started.
            mutating func start(upTo maximum: Int) -> Bool {
                if rest == 0 || isStarting || runners >= maximum { return false }
                isStarting = true
                return true
            }
        }

        /// - Parameter face: The executor of tasks that prefer the loop.
        init(_ face: TaskFace) { self.face = face }

        /// Adds a task, which was parked and is resumed. `preferred` is the executor that it prefers. Returns `false` if
        /// that is one of the user's.
        func add(_ job: UnownedJob, for preferred: UnsafeRawPointer?) -> Bool {
            guard let preferred = unsafe preferred else {
                jobs.append(job)
                if jobs.count == Self.share { handOver() }
                return true
            }
            guard unsafe preferred == UnsafeRawPointer(Unmanaged.passUnretained(face).toOpaque()) else { return false }
            face.enqueue(job)
            return true
        }

        /// Hands over the tasks of the batch.
        @inline(__always)
        func endBatch() {
            if !jobs.isEmpty { handOver() }
        }

        /// Ends a turn of the loop, which may sleep now.
        @inline(__always)
        func endTurn(isIdle: Bool) {
            if mayHaveRest { helpRest(isIdle: isIdle) }
        }

        @inline(never)
        private func handOver() {
            if jobs.count < Self.few, !mayHaveRest {
                for job in jobs {
                    unsafe trunkline_enqueue(unsafeBitCast(job, to: UnsafeMutableRawPointer.self), trunkline_executor())
                }
                return jobs.removeAll(keepingCapacity: true)
            }
            mayHaveRest = true
            let maximum = maximumRunners
            let starts = queue.withLock { queue in
                let isBehind = queue.rest >= Self.share
                queue.add(&jobs)
                return queue.start(upTo: isBehind ? maximum - 1 : 1)
            }
            if starts { startRunner() }
        }

        /// Starts a runner if tasks are left and none was taken since the last turn, or the loop is idle.
        @inline(never)
        private func helpRest(isIdle: Bool) {
            let (before, maximum) = (takenCount, maximumRunners)
            let (rest, taken, starts) = queue.withLock { queue in
                let starts = isIdle || queue.takenCount == before ? queue.start(upTo: maximum) : false
                return (queue.rest, queue.takenCount, starts)
            }
            (mayHaveRest, takenCount) = (rest > 0, taken)
            if starts { startRunner() }
        }

        /// An unstructured task: it runs other tasks, which do not wait for each other, and ends when none is left.
        private func startRunner() { Task.detached { self.run() } }

        private func run() {
            queue.withLock { ($0.isStarting, $0.runners) = (false, $0.runners + 1) }
            for _ in 0..<512 {
                let job = queue.withLock { queue in
                    let job = queue.takeNext()
                    if job == nil { queue.runners -= 1 }
                    return job
                }
                guard let job else { return }
                unsafe job.runSynchronously(on: defaultExecutor)
            }
            // Other work of the pool has its turn.
            let starts = queue.withLock { queue in
                queue.runners -= 1
                return queue.start(upTo: .max)
            }
            if starts { startRunner() }
        }
    }

    /// The default executor as a serial executor, on which the pool runs the jobs of its tasks. The zero value: that is
    /// how compiled code names it, in every call that switches to it.
    private let defaultExecutor = unsafe unsafeBitCast((0, 0), to: UnownedSerialExecutor.self)
#endif
