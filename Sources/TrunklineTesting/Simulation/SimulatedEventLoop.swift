import TrunklineCore

/// An event loop in virtual time, over a simulated network, on the thread that calls `run`.
///
/// Ready work runs in an order drawn from the seed. When nothing is ready, time jumps to the next timer or packet.
///
/// Unchecked `Sendable`: only the thread that owns the loop (`LoopOwnership`) accesses mutable fields. Other threads
/// access only `posts`, which has a lock, and the time, which is atomic.
final class SimulatedEventLoop: EventLoop, @unchecked Sendable {
    let ownership = LoopOwnership()
    let posts = OutsidePosts()
    let time = VirtualTime()
    let network: VirtualNetwork

    var ready = ReadyList()
    var endOfTurn: [any LoopWork] = []
    var nextTurn: [any LoopWork] = []
    var timers = TimerQueue()
    var stoppedUntil: Instant?
    /// The links whose clients have news, but are stopped.
    var withheld: [SimulatedLink] = []
    private var receiveMemory = ReceiveMemory()
    var random: SeededGenerator
    private var seeds: SeededGenerator
    var steps = 0
    var turns = 0
    package internal(set) var turnTime = Instant(nanoseconds: 0)
    var stoppedSince = Instant(nanoseconds: 0)
    package private(set) var delays = LoopDelays()
    private var delayReceivers = LoopDelayReceivers()
    /// The call of a codec that took long, of the latest turn with one.
    var decoding: LoopDelay.LongestDecoding?

    init(seed: UInt64, conditions: NetworkConditions = NetworkConditions()) {
        random = SeededGenerator(seed: seed)
        seeds = SeededGenerator(seed: seed ^ 0x7365_6564_7300_0000)
        network = VirtualNetwork(seed: seed, time: time, conditions: conditions)
    }

    package var now: Instant { time.now }

    package var isCurrent: Bool { ownership.isMine }

    package func schedule(_ work: any LoopWork) {
        if isCurrent {
            ready.append(.work(work))
        } else {
            posts.append(.work(work), fault: "work was scheduled from another thread: \(type(of: work))")
        }
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if isCurrent {
            ready.append(.job(job))
        } else {
            posts.append(
                .job(job),
                fault: "a task resumed from another thread, after awaiting something outside the loop"
            )
        }
    }

    package var callbackExecutor: (any TaskExecutor)? { self }

    package func checkIsolated() { preconditionIsCurrent() }

    package func isIsolatingCurrentContext() -> Bool? { isCurrent }

    package func scheduleAtEndOfTurn(_ work: any LoopWork) {
        preconditionIsCurrent()
        endOfTurn.append(work)
    }

    package func scheduleInNextTurn(_ work: any LoopWork) {
        preconditionIsCurrent()
        nextTurn.append(work)
    }

    package func arm(_ timer: LoopTimer, at deadline: Instant?) {
        preconditionIsCurrent()
        timers.arm(timer, at: deadline)
    }

    package func withReceiveMemory(_ body: (inout ReceiveMemory) -> Void) {
        preconditionIsCurrent()
        body(&receiveMemory)
    }

    package func resolve(
        _ host: String,
        port: UInt16,
        family: AddressFamily,
        completion: @escaping NameLookup.Completion
    ) -> NameLookup {
        preconditionIsCurrent()
        return network.resolve(host, port: port, family: family, completion: completion)
    }

    package func connect(
        to address: SocketAddress,
        options: SocketOptions,
        handler: any TransportHandler
    ) -> any Transport {
        preconditionIsCurrent()
        return SimulatedTransport(
            network.connect(
                to: address,
                from: options.sourceAddress,
                datagrams: options.isDatagram,
                handler: handler
            ),
            .client,
            on: self
        )
    }

    package func listen(
        on address: SocketAddress,
        datagrams: Bool,
        handler: any ListenerHandler
    ) throws(TransportError) -> any Listener {
        preconditionIsCurrent()
        let port = try network.listen(on: address, datagrams: datagrams, handler: handler)
        return SimulatedListener(port, on: self)
    }

    package func noteDecoding(_ decoding: LoopDelay.Decoding) {
        preconditionIsCurrent()
        self.decoding = LoopDelay.LongestDecoding(decoding, in: turnTime, or: self.decoding)
    }

    package func addDelayReceiver(_ receiver: any LoopDelayReceiver) {
        preconditionIsCurrent()
        delayReceivers.add(receiver)
    }

    func note(_ delay: LoopDelay) {
        guard delay.duration.clampedNanoseconds >= LoopDelay.nanosecondsOfShortest else { return }
        delays.note(delay)
        for receiver in delayReceivers.all { receiver.loopWasLate(delay) }
    }

    package var pathMonitor: any PathMonitor { SimulatedPathMonitor(on: self) }

    package func randomSeed() -> UInt64 { confined { seeds.next() } }
}

extension SimulatedEventLoop: CustomReflectable {
    /// Empty: its state belongs to its thread, and holds what its clients received.
    package var customMirror: Mirror { Mirror(self, children: []) }
}
