import Synchronization

/// One thread over real sockets, which runs until the process ends. Without descriptors to watch sockets with, it runs
/// jobs and timers, and retries. Without a thread, turns run on Swift's pool until one can be started.
final class SocketEventLoop: EventLoop {
    typealias ThreadStarter = @Sendable (_ name: String, _ body: @escaping @Sendable () -> Void) -> Int32

    private let posted: Lock<Posted>
    private let thread = Atomic<UInt>(0)
    private let mechanism: EventLoops.Mechanism
    private let resolver: Resolver
    package let pathMonitor: any PathMonitor
    private let taskFace = TaskFace()
    #if os(Linux) && !Portable
        private let resumedTasks: ResumedTasks
    #endif
    /// Exclusive without a check: whatever runs other code is taken out first, and released outside. With the check, a
    /// turn with one request took 28,100 instructions instead of 25,100.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    // Safe: accessed only on the loop's thread, which `assertCurrent` checks.
    nonisolated(unsafe) private var state: State

    init(
        name: String,
        mechanism: EventLoops.Mechanism,
        resolver: Resolver = .shared,
        pathMonitor: any PathMonitor = systemPathMonitor,
        startingThreadBy start: @escaping ThreadStarter = startThread
    ) {
        self.mechanism = mechanism
        self.resolver = resolver
        self.pathMonitor = pathMonitor
        let poller = try? mechanism.makePoller()
        posted = Lock(Posted(wakeDescriptor: poller?.wakeDescriptor ?? -1))
        unsafe state = State(poller: poller ?? SleepingPoller(), canWatch: poller != nil)
        #if os(Linux) && !Portable
            resumedTasks = ResumedTasks(taskFace)
        #endif
        unsafe taskFace.loop = self
        if start(name, { self.run() }) != 0 { runWithoutThread(named: name, start) }
    }

    // MARK: From any thread

    package var now: Instant { monotonicNow() }
    package var unixTime: Duration? { Duration.nanoseconds(wallClockNanoseconds()) }

    package var isCurrent: Bool { thread.load(ordering: .relaxed) == currentThread() }

    package func schedule(_ work: any LoopWork) {
        if isCurrent {
            unsafe state.work.append(work)
        } else {
            post { $0.work.append(work) }
        }
    }

    package func enqueue(_ job: consuming ExecutorJob) { enqueue(UnownedJob(job), prefersLoop: false) }

    func enqueue(_ job: UnownedJob, prefersLoop: Bool) {
        let job = Job(job: job, prefersLoop: prefersLoop)
        if isCurrent {
            unsafe state.jobs.append(job)
        } else {
            post { $0.jobs.append(job) }
        }
    }

    package func checkIsolated() {
        precondition(isCurrent, "not on this event loop")
    }

    package func isIsolatingCurrentContext() -> Bool? { isCurrent }

    package var taskExecutor: any TaskExecutor { taskFace }

    package func randomSeed() -> UInt64 { .random(in: .min ... .max) }

    private func post(_ change: (inout Posted) -> Void) {
        let sleeper = posted.withLock { posted -> Int32? in
            change(&posted)
            defer { posted.isSleeping = false }
            return posted.isSleeping ? posted.wakeDescriptor : nil
        }
        if let sleeper { wake(sleeper) }
    }

    // MARK: On the loop

    private func assertCurrent() {
        assert(isCurrent, "must be called on the event loop")
    }

    package var turnTime: Instant {
        assertCurrent()
        return unsafe state.turnTime
    }

    package var turnDurations: LatencyHistogram {
        assertCurrent()
        return unsafe state.turns.durations
    }

    package var delays: LoopDelays {
        assertCurrent()
        return unsafe state.delays
    }

    package func noteDecoding(_ decoding: LoopDelay.Decoding) {
        assertCurrent()
        unsafe state.decoding = LoopDelay.LongestDecoding(decoding, in: state.turnTime, or: state.decoding)
    }

    package func addDelayReceiver(_ receiver: any LoopDelayReceiver) {
        assertCurrent()
        unsafe state.delayReceivers.add(receiver)
    }

    package func scheduleAtEndOfTurn(_ work: any LoopWork) {
        assertCurrent()
        unsafe state.atEndOfTurn.append(work)
    }

    package func scheduleInNextTurn(_ work: any LoopWork) {
        assertCurrent()
        unsafe state.inNextTurn.append(work)
    }

    package func arm(_ timer: LoopTimer, at deadline: Instant?) {
        assertCurrent()
        unsafe state.timers.arm(timer, at: deadline.map { timer.onGrid($0) })
    }

    package func withReceiveMemory(_ body: (inout ReceiveMemory) -> Void) {
        assertCurrent()
        unsafe body(&state.receiveMemory)
    }

    package func resolve(
        _ host: String,
        port: UInt16,
        family: AddressFamily,
        completion: @escaping NameLookup.Completion
    ) -> NameLookup {
        let lookup = NameLookup(completion)
        // Weak: deallocating the look-up cancels it.
        let finish: NameLookup.Completion = { [weak lookup] answer in
            self.schedule(LoopClosure { [weak lookup] in lookup?.finish(answer) })
        }
        if let error = unknownZone(of: host, "resolving \(host.escaped())") {
            finish(.failure(error))
        } else if let literal = literalAddress(host, port: port) {
            finish(.success(literal.family == family ? [literal] : []))
        } else {
            let lookupID = resolver.resolve(host, port: port, family: family, completion: finish)
            lookup.onCancel({ [resolver] in resolver.cancel(lookupID) }) { [resolver] in resolver.obstacle(of: lookupID)
            }
        }
        return lookup
    }

    package func connect(
        to address: SocketAddress,
        options: SocketOptions,
        handler: any TransportHandler
    ) -> any Transport {
        assertCurrent()
        if options.isDatagram {
            let transport = DatagramTransport(id: newID(), loop: self, handler: handler)
            transport.connect(to: address, from: options.sourceAddress, unless: pollerFailure())
            return transport
        }
        switch address {
        case .command, .descriptors:
            let transport = PipeTransport(id: newID(), loop: self, handler: handler)
            transport.open(address, unless: pollerFailure())
            return transport
        case .ipv4, .ipv6, .unix, .vsock: break
        }
        let transport = SocketTransport(id: newID(), loop: self, handler: handler)
        transport.connect(to: address, options: options, unless: pollerFailure())
        return transport
    }

    package func listen(
        on address: SocketAddress,
        datagrams: Bool,
        handler: any ListenerHandler
    ) throws(TransportError) -> any Listener {
        assertCurrent()
        if let error = pollerFailure() { throw error }
        if datagrams {
            let listener = try DatagramListener(id: newID(), loop: self, address: address, handler: handler)
            register(listener, id: listener.id)
            return listener
        }
        let listener = try SocketListener(id: newID(), loop: self, address: address, handler: handler)
        register(listener, id: listener.id)
        return listener
    }

    // MARK: For the sockets

    func newID() -> UInt64 {
        unsafe state.lastID += 1
        return unsafe state.lastID
    }

    func register(_ socket: any WatchedSocket, id: UInt64) {
        unsafe state.sockets[id] = Watched(socket: socket)
    }

    func watch(_ descriptor: Int32, id: UInt64, reading: Bool, writing: Bool) {
        assertCurrent()
        let code = unsafe state.poller.watch(descriptor, id: id, reading: reading, writing: writing)
        guard code != 0 else { return }
        // In a later step: the caller may be in the middle of something.
        schedule(LoopClosure { unsafe self.state.sockets[id]?.socket?.watchFailed(code) })
    }

    var tellsOfExits: Bool { mechanism == .epoll }

    /// On the loop, now or soon: the `deinit` of an owner runs on any thread.
    func release(
        _ descriptor: Int32,
        id: UInt64,
        closingBy close: @escaping @Sendable (Int32) -> Void = closeDescriptor
    ) {
        guard isCurrent else { return schedule(LoopClosure { self.release(descriptor, id: id, closingBy: close) }) }
        unsafe state.sockets[id] = nil
        _ = unsafe state.poller.watch(descriptor, id: id, reading: false, writing: false)
        close(descriptor)
    }

    // MARK: Missing system resources

    private func pollerFailure() -> TransportError? {
        guard unsafe !state.canWatch else { return nil }
        do throws(TransportError) {
            let poller = try mechanism.makePoller()
            unsafe (state.poller, state.canWatch) = (poller, true)
            posted.withLock { $0.wakeDescriptor = poller.wakeDescriptor }
            return nil
        } catch {
            return error
        }
    }

    private func runWithoutThread(named name: String, _ start: @escaping ThreadStarter) {
        // Unstructured: an initializer cannot await it. Its steps run one at a time, each seeing the effects of the
        // last.
        Task.detached { [self] in
            repeat {
                turnOnBorrowedThread()
                try? await Task.sleep(for: .milliseconds(5))
            } while start(name, { self.run() }) != 0
        }
    }

    private func turnOnBorrowedThread() {
        thread.store(currentThread(), ordering: .relaxed)
        collectResumedTasks(true)
        defer {
            collectResumedTasks(false)
            thread.store(0, ordering: .relaxed)
        }
        unsafe state.turnTime = now
        turn(mayWait: false)
    }

    // MARK: Tasks that this loop resumes

    private func collectResumedTasks(_ isOn: Bool) {
        #if os(Linux) && !Portable
            ParkedTaskHead.collectOnThisThread(isOn ? resumedTasks : nil)
        #endif
    }

    /// Called before jobs of the loop, which may take long, and before it waits.
    @inline(__always)
    private func endBatch() {
        #if os(Linux) && !Portable
            resumedTasks.endBatch()
        #endif
    }

    /// Returns the most nanoseconds that the loop may sleep; negative for no limit.
    @inline(__always)
    private func endTurnOfTasks() -> Int64 {
        #if os(Linux) && !Portable
            resumedTasks.endTurn(at: turnTime)
            return resumedTasks.mayHaveWaiting ? resumedTasks.patience : -1
        #else
            return -1
        #endif
    }

    // MARK: The turn

    private func run() -> Never {
        thread.store(currentThread(), ordering: .relaxed)
        collectResumedTasks(true)
        unsafe state.turnTime = now
        while true { turn(mayWait: true) }
    }

    @inline(__always)
    private func turn(mayWait: Bool) {
        runPosted()
        if unsafe !state.atEndOfTurn.isEmpty {
            // Callers that are about to send more may do so first, so that it goes out in the same system call.
            yieldProcessor()
            runPosted()
        }
        runEndOfTurn()
        endBatch()
        let limit = endTurnOfTasks()
        if !mayWait || !pollBriefly() { waitForSockets(mayWait: mayWait, atMost: limit) }
        beginTurn(at: now)
        // A signal ends the wait without a look at the sockets, as when a stopped process continues: see `turnTime`.
        let isTimerDue = unsafe state.timers.next.map { unsafe $0 <= state.turnTime } ?? false
        if isTimerDue { lookAtSockets() }
        unsafe state.receiveMemory.trim(at: state.turnTime)
        if unsafe !state.canWatch { _ = pollerFailure() }
        // Taken out first: what the sockets leave for the next turn must not run in this one.
        var carried = unsafe exchange(&state.inNextTurn, with: [])
        runReady()
        endBatch()
        if !carried.isEmpty { run(&carried) }
        if isTimerDue { runTimers() }
        endBatch()
    }

    @inline(__always)
    private func beginTurn(at now: Instant) {
        let end = unsafe exchange(&state.waitBegan, with: nil) ?? now
        let duration = unsafe end.nanoseconds &- state.turnTime.nanoseconds
        unsafe state.turns.record(nanoseconds: duration)
        let wakeBy = unsafe exchange(&state.wakeBy, with: nil)?.nanoseconds ?? now.nanoseconds
        let limit = LoopDelay.nanosecondsOfShortest
        if duration >= limit || now.nanoseconds &- wakeBy >= limit { noteDelay(turnEnd: end, wakeBy: wakeBy, now) }
        unsafe state.turnTime = now
        if unsafe now.nanoseconds &- ProcessorTimes.interval >= state.processorTimes.readAt {
            unsafe state.processorTimes.read(at: now)
        }
    }

    @inline(never)
    private func noteDelay(turnEnd: Instant, wakeBy: Int64, _ now: Instant) {
        var late = unsafe LoopDelay.Turn(from: state.turnTime, to: turnEnd)
        late.processorTime = unsafe state.processorTimes.used
        late.decoding = unsafe state.decoding?.of(state.turnTime)
        let turn = LoopDelay(late)
        let wait = LoopDelay(.stopped, from: Instant(nanoseconds: wakeBy), to: now)
        for delay in [turn, wait] where delay.duration.clampedNanoseconds >= LoopDelay.nanosecondsOfShortest {
            unsafe state.delays.note(delay)
            for receiver in unsafe state.delayReceivers.all { receiver.loopWasLate(delay) }
        }
    }

    /// Larger arrays are not kept for the next turn, so that a burst does not leave its memory behind.
    private static let keptCapacity = 8192

    /// Twice in a turn. Writing and reading once costs less than so many jobs; short ones take less than 1 ms.
    static let mostJobs = 1024

    /// Bounded: tasks that yield again and again, or begin more and more tasks, must not starve the sockets.
    private func runPosted(rounds: Int = 8) {
        var left = Self.mostJobs
        for _ in 0..<rounds {
            takePosted()
            if unsafe !state.hasJobs && state.work.isEmpty { return }
            unsafe state.polling.hasWorked = true
            var work = unsafe state.takeWork()
            run(&work)
            endBatch()
            var (jobs, next) = unsafe state.takeJobs()
            let end = min(jobs.count, next + left)
            left -= end - next
            while next < end {
                run(jobs[next])
                endBatch()
                next += 1
            }
            if end < jobs.count {
                unsafe (state.begunJobs, state.nextJob) = (jobs, end)
                return
            }
            jobs.empty(keepingCapacity: jobs.capacity <= Self.keptCapacity)
            unsafe state.spareJobs = jobs
            if left == 0 { return }
        }
    }

    /// Releases the work outside `state`: the last reference to a client may end here, and its sockets call this loop.
    private func run(_ work: inout [any LoopWork]) {
        for item in work { item.runOnLoop() }
        work.empty(keepingCapacity: work.capacity <= Self.keptCapacity)
        unsafe state.spareWork = work
    }

    /// On the executor that its task really has. Otherwise calls of an actor to itself, and first steps of tasks on no
    /// actor, would go through the queue once more.
    private func run(_ job: Job) {
        if job.prefersLoop {
            unsafe job.job.runSynchronously(on: taskFace.asUnownedTaskExecutor())
        } else {
            unsafe job.job.runSynchronously(on: asUnownedSerialExecutor())
        }
    }

    private func takePosted() {
        posted.withLock { posted in
            if !posted.jobs.isEmpty { unsafe posted.jobs.move(to: &state.jobs, keeping: Self.keptCapacity) }
            if !posted.work.isEmpty { unsafe posted.work.move(to: &state.work, keeping: Self.keptCapacity) }
        }
    }

    private func runEndOfTurn() {
        // Two rounds: what callers on the loop's executor send at the end of a turn is still written in this turn.
        for _ in 0..<2 where unsafe !state.atEndOfTurn.isEmpty {
            var work = unsafe state.takeEndOfTurn()
            run(&work)
        }
    }

    /// Sleeping and waking takes tens of µs on a virtual machine: as long as a server nearby or a resumed caller needs.
    private func pollBriefly() -> Bool {
        guard unsafe !state.hasWork && state.polling.begins() else { return false }
        let began = now
        var end = began.advanced(by: .nanoseconds(Polling.limit))
        if let next = unsafe state.timers.next { end = min(end, next) }
        guard began < end else { return false }
        // Polling is waiting, in which the process may be stopped.
        unsafe (state.waitBegan, state.wakeBy) = (began, end)
        repeat {
            yieldProcessor()
            unsafe state.poller.wait(nanoseconds: 0, into: &state.ready)
            if unsafe !state.ready.isEmpty || posted.withLock({ !($0.jobs.isEmpty && $0.work.isEmpty) }) {
                unsafe state.polling.ends(hasPaid: true)
                return true
            }
        } while now < end
        unsafe state.polling.ends(hasPaid: false)
        unsafe state.wakeBy = nil
        return false
    }

    private func waitForSockets(mayWait: Bool, atMost limit: Int64) {
        var timeout: Int64 = -1
        if unsafe !mayWait || state.hasWork {
            timeout = 0
        } else if let next = unsafe state.timers.next {
            // Compared first: the time from a deadline in the farthest past to now does not fit in 64 bits.
            let now = now
            timeout = next <= now ? 0 : next.nanoseconds - now.nanoseconds
            let tick = LoopDelay.nanosecondsOfTick
            if unsafe timeout > tick && state.timers.tickingCount > 0 { timeout = tick }
            let began = unsafe state.waitBegan ?? now
            // The process may also have been stopped while the loop polled.
            let isLate = now.nanoseconds &- began.nanoseconds >= LoopDelay.nanosecondsOfShortest
            unsafe state.wakeBy = isLate ? began : now.advanced(by: .nanoseconds(timeout))
            unsafe state.waitBegan = began
        } else if unsafe state.waitBegan == nil {
            unsafe state.waitBegan = now
        }
        if unsafe state.receiveMemory.hasLent {
            // An idle loop wakes up once or twice more, to release the memory of the last large bodies.
            let keepTime = ReceiveMemory.keepNanoseconds
            timeout = timeout < 0 ? keepTime : min(timeout, keepTime)
        }
        if limit >= 0, timeout < 0 || timeout > limit { timeout = limit }
        if timeout != 0 {
            let hasNews = posted.withLock { posted in
                if !(posted.jobs.isEmpty && posted.work.isEmpty) { return true }
                posted.isSleeping = true
                return false
            }
            if hasNews { timeout = 0 }
        }
        unsafe state.poller.wait(nanoseconds: timeout, into: &state.ready)
        if timeout != 0 { posted.withLock { $0.isSleeping = false } }
    }

    private func lookAtSockets() {
        unsafe state.ready.removeAll(keepingCapacity: true)  // these are found again
        unsafe state.poller.look(into: &state.ready)
    }

    private func runReady() {
        guard unsafe !state.ready.isEmpty else { return }
        unsafe state.polling.hasWorked = true
        let ready = unsafe exchange(&state.ready, with: [])
        for readiness in ready {
            // A socket that an earlier handler closed is no longer in the table.
            unsafe state.sockets[readiness.id]?.socket?.isReady(readiness)
        }
        if unsafe state.ready.isEmpty {
            unsafe state.ready = ready
            unsafe state.ready.empty()
        }
    }

    private func runTimers() {
        // Timers that became due while the sockets were served fire in the next turn, after another look at them.
        let now = turnTime
        while let timer = unsafe state.timers.popDue(at: now) { timer.fire() }
    }
}

extension SocketEventLoop: CustomReflectable {
    /// Empty: its state belongs to its thread.
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension Array {
    /// Moves the elements to the end of `other`.
    @inline(__always)
    fileprivate mutating func move(to other: inout [Element], keeping mostCapacity: Int) {
        if other.isEmpty { return swap(&self, &other) }
        other.append(contentsOf: self)
        removeAll(keepingCapacity: capacity <= mostCapacity)
    }
}
