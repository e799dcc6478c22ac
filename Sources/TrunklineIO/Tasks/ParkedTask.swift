#if os(Linux) && !Portable
    public import CTrunkline
    public import Synchronization

    /// A task that waits in `withContinuation` until it is resumed.
    /// A continuation of the standard library puts its task on the queues of Dispatch: one allocation and two passes
    /// through a queue, which cost more than the rest of a request. The job of a parked task is held here, so the code
    /// that resumes it chooses how the job reaches its executor: see `ResumedTasks`.
    ///
    ///     running ──park──► parked ──resume──► resumed
    ///        └────────────── resume ──────────────┘
    ///
    /// To park, a task calls an actor whose executor only keeps the job (`ParkingLot`). The job then runs on the
    /// executor that the task came from, so the return from that call switches no executor.
    ///
    /// Unchecked `Sendable`: the memory belongs to the task, which frees it when it runs again. The code that resumes
    /// it touches the memory for the last time when it changes the state of a running task, or when it hands over the
    /// job of a parked one; before that, the task cannot go on.
    @safe
    @usableFromInline
    struct ParkedTask<Value: Sendable>: @unchecked Sendable {
        @usableFromInline let head: UnsafeMutablePointer<ParkedTaskHead>

        /// The task must call `free` afterwards. The memory begins with `reserved` bytes, a multiple of 16.
        @inlinable
        @inline(__always)
        init(reserving reserved: Int = 0) {
            assert(reserved % 16 == 0, "the reserved bytes must keep the alignment")
            let memory = unsafe trunkline_task_alloc(reserved + Self.valueOffset + MemoryLayout<Value>.size)
            unsafe head = (memory + reserved).bindMemory(to: ParkedTaskHead.self, capacity: 1)
            unsafe head.initialize(to: ParkedTaskHead())
        }

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

        @inlinable
        @inline(__always)
        func resume(returning value: consuming Value) {
            unsafe self.value.initialize(to: value)
            unsafe ParkedTaskHead.resume(head)
        }

        @inlinable
        @inline(__always)
        nonisolated(nonsending) func wait() async -> Value {
            let parkingLot = ParkingLot.shared
            if unsafe ParkedTaskHead.prepare(head) { await parkingLot.park() }
            return unsafe value.move()
        }

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
        @usableFromInline var hasUsualPriority = true
        /// Without an identity if the task is on the default executor or one that it prefers, which `implementation`
        /// then identifies; `nil` if it prefers none.
        @usableFromInline var executor: trunkline_executor
        @usableFromInline var job: UnsafeMutableRawPointer?

        @inlinable
        init() {
            unsafe executor = trunkline_current_executor()
            if unsafe executor.identity == nil { unsafe executor.implementation = trunkline_preferred_executor() }
        }

        /// Notes on this thread which task is about to park. Returns `false` if it was resumed meanwhile.
        @usableFromInline
        @inline(never)
        static func prepare(_ head: UnsafeMutablePointer<ParkedTaskHead>) -> Bool {
            if unsafe head.pointee.state.load(ordering: .acquiring) == State.resumed { return false }
            unsafe trunkline_this_thread().pointee.parking = UnsafeMutableRawPointer(head)
            return true
        }

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

        @usableFromInline
        @inline(never)
        static func resume(_ head: UnsafeMutablePointer<ParkedTaskHead>) {
            let previous = unsafe head.pointee.state.exchange(State.resumed, ordering: .acquiringAndReleasing)
            if previous == State.parked { unsafe handOver(head) }
        }

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

        /// `nil`: each task goes to its executor alone.
        @inline(never)
        static func collectOnThisThread(_ resumed: ResumedTasks?) {
            unsafe trunkline_this_thread().pointee.resumed = resumed.map {
                unsafe UnsafeRawPointer(Unmanaged.passUnretained($0).toOpaque())
            }
        }
    }

    /// Its executor runs nothing: it passes the jobs of tasks that call `park` to `ParkedTaskHead`.
    @usableFromInline
    actor ParkingLot: SerialExecutor {
        @usableFromInline static let shared = ParkingLot()

        @usableFromInline
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe asUnownedSerialExecutor() }

        @usableFromInline
        nonisolated func enqueue(_ job: consuming ExecutorJob) { ParkedTaskHead.park(UnownedJob(job)) }

        /// Not inlined, because the compiler would leave the actor out.
        @usableFromInline
        @inline(never)
        func park() {}
    }
#endif
