#if os(Linux) && !Portable
    public import CTrunkline
    public import Synchronization

    /// A task that waits in `withContinuation` until it is resumed.
    ///
    /// A continuation of the standard library puts its task on the queues of Dispatch when it is resumed: one allocation
    /// and two passes through a queue for each task, which cost more than the rest of a request. A parked task is a job
    /// that this library holds, so the code that resumes it chooses how the job reaches its executor. An event loop resumes
    /// thousands at once and hands them over together: see `ResumedTasks`.
    ///
    ///     running ──park──► parked ──resume──► resumed
    ///        └────────────── resume ──────────────┘
    ///
    /// To park, a task calls a method of an actor whose executor only keeps the job (`ParkingLot`). When the job runs, it
    /// does so on the executor that the task came from, so the return from that method switches no executor.
    ///
    /// Unchecked `Sendable`: the memory belongs to the task, which frees it when it runs again. The code that resumes it touches
    /// the memory for the last time when it changes the state of a running task, or when it hands over the job of a
    /// parked one; before that, the task cannot go on.
    @safe
    @usableFromInline
    struct ParkedTask<Value: Sendable>: @unchecked Sendable {
        @usableFromInline let head: UnsafeMutablePointer<ParkedTaskHead>

        /// Creates one for the current task, which must call `free` afterwards. Its memory begins with `reserved` bytes for
        /// other use, a multiple of 16.
        @inlinable
        @inline(__always)
        init(reserving reserved: Int = 0) {
            assert(reserved % 16 == 0, "the reserved bytes must keep the alignment")
            let memory = unsafe trunkline_task_alloc(reserved + Self.valueOffset + MemoryLayout<Value>.size)
            unsafe head = (memory + reserved).bindMemory(to: ParkedTaskHead.self, capacity: 1)
            unsafe head.initialize(to: ParkedTaskHead())
        }

        /// Where the value is, after the head.
        @inlinable
        @inline(__always)
        static var valueOffset: Int {
            let alignment = MemoryLayout<Value>.alignment
            precondition(alignment <= 16, "the memory of a task is aligned to 16 bytes")
            return (MemoryLayout<ParkedTaskHead>.size + alignment - 1) / alignment * alignment
        }

        @inlinable
        @inline(__always)
        var value: UnsafeMutablePointer<Value> {
            unsafe (UnsafeMutableRawPointer(head) + Self.valueOffset).assumingMemoryBound(to: Value.self)
        }

        /// Resumes the task with a value, once. From any thread.
        @inlinable
        @inline(__always)
        func resume(returning value: consuming Value) {
            unsafe self.value.initialize(to: value)
            unsafe ParkedTaskHead.resume(head)
        }

        /// Waits until the task is resumed. Returns the value, once.
        @inlinable
        @inline(__always)
        nonisolated(nonsending) func wait() async -> Value {
            let parkingLot = ParkingLot.shared
            if unsafe ParkedTaskHead.prepare(head) { await parkingLot.park() }
            return unsafe value.move()
        }

        /// The bytes before it that are for other use.
        @inlinable
        @inline(__always)
        func reserved(_ count: Int) -> UnsafeMutableRawPointer { unsafe UnsafeMutableRawPointer(head) - count }

        @inlinable
        @inline(__always)
        func free(reserving reserved: Int = 0) {
            unsafe head.deinitialize(count: 1)
            unsafe trunkline_task_dealloc(self.reserved(reserved))
        }
    }

    /// The state of a parked task, without its value.
    @safe
    @usableFromInline
    struct ParkedTaskHead: ~Copyable {
        @usableFromInline
        enum State {
            @inlinable static var running: UInt8 { 0 }
            @inlinable static var parked: UInt8 { 1 }
            @inlinable static var resumed: UInt8 { 2 }
        }

        @usableFromInline let state = Atomic<UInt8>(State.running)
        /// Whether the task has the priority that most have.
        @usableFromInline var hasUsualPriority = true
        /// The executor of the task. Without an identity if that is the default executor or one that the task prefers,
        /// which `implementation` then identifies; `nil` if it prefers none.
        @usableFromInline var executor: trunkline_executor
        /// `nil` until the task is parked.
        @usableFromInline var job: UnsafeMutableRawPointer?

        @inlinable
        init() {
            unsafe executor = trunkline_current_executor()
            if unsafe executor.identity == nil { unsafe executor.implementation = trunkline_preferred_executor() }
        }

        /// Notes on this thread which task is about to park. Returns `false` if it need not, because it was resumed.
        @usableFromInline
        @inline(never)
        static func prepare(_ head: UnsafeMutablePointer<ParkedTaskHead>) -> Bool {
            if unsafe head.pointee.state.load(ordering: .acquiring) == State.resumed { return false }
            unsafe trunkline_this_thread().pointee.parking = UnsafeMutableRawPointer(head)
            return true
        }

        /// Parks the job of the task that `prepare` noted on this thread.
        @inline(never)
        fileprivate static func park(_ job: UnownedJob) {
            let thread = unsafe trunkline_this_thread()
            guard let head = unsafe thread.pointee.parking?.assumingMemoryBound(to: ParkedTaskHead.self) else {
                preconditionFailure("a task parks without having prepared for it")
            }
            unsafe thread.pointee.parking = nil
            unsafe head.pointee.job = unsafeBitCast(job, to: UnsafeMutableRawPointer.self)
            unsafe head.pointee.hasUsualPriority = job.priority.rawValue == TaskPriority.medium.rawValue
            let previous = unsafe head.pointee.state.exchange(State.parked, ordering: .acquiringAndReleasing)
            if previous == State.resumed { unsafe handOver(head) }
        }

        /// Resumes a task whose value has been set.
        @usableFromInline
        @inline(never)
        static func resume(_ head: UnsafeMutablePointer<ParkedTaskHead>) {
            let previous = unsafe head.pointee.state.exchange(State.resumed, ordering: .acquiringAndReleasing)
            if previous == State.parked { unsafe handOver(head) }
        }

        /// Passes the job to the executor of the task.
        private static func handOver(_ head: UnsafeMutablePointer<ParkedTaskHead>) {
            guard let job = unsafe head.pointee.job else { preconditionFailure("the task is not parked") }
            let executor = unsafe head.pointee.executor
            guard unsafe executor.identity == nil else { return unsafe trunkline_enqueue(job, executor) }
            if unsafe head.pointee.hasUsualPriority, let resumed = unsafe trunkline_this_thread().pointee.resumed,
                unsafe Unmanaged<ResumedTasks>.fromOpaque(resumed)._withUnsafeGuaranteedRef({
                    unsafe $0.add(unsafeBitCast(job, to: UnownedJob.self), for: executor.implementation)
                })
            {
                return
            }
            unsafe trunkline_enqueue(job, trunkline_executor())
        }

        /// Makes `resumed` take the tasks that this thread resumes; `nil` for none, so that each goes to its executor
        /// alone.
        @inline(never)
        static func collectOnThisThread(_ resumed: ResumedTasks?) {
            unsafe trunkline_this_thread().pointee.resumed = resumed.map {
                unsafe UnsafeRawPointer(Unmanaged.passUnretained($0).toOpaque())
            }
        }
    }

    /// The actor on which parked tasks wait. It has no state. Its executor runs nothing: it passes the jobs of tasks that
    /// call `park` to `ParkedTaskHead`.
    @usableFromInline
    actor ParkingLot: SerialExecutor {
        @usableFromInline static let shared = ParkingLot()

        @usableFromInline
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe asUnownedSerialExecutor() }

        @usableFromInline
        nonisolated func enqueue(_ job: consuming ExecutorJob) { ParkedTaskHead.park(UnownedJob(job)) }

        /// Returns when the task has been resumed. Not inlined, because the compiler would leave the actor out.
        @usableFromInline
        @inline(never)
        func park() {}
    }
#endif
