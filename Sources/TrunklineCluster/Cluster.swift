import Synchronization
public import TrunklineCore

/// Sends requests to many servers of one service, and chooses a server for each.
///
/// ```swift
/// let cluster = Cluster(discovering: .dns("orders.svc:7000"), speaking: acme)
/// let reply = try await cluster.send(request)
/// await cluster.close()
/// ```
///
/// A cluster has one or more clients for each server that its ``Discovery`` finds, each with its own link, and has the
/// calls of ``Client``. Each request goes to a server that is ready and little loaded; a request that could not be sent
/// goes to another one. Servers that fail are left out for a while. <doc:ManyServers> describes the rules.
///
/// The cluster begins when it is first used. Call ``close()`` when it is no longer needed.
public actor Cluster {
    package nonisolated let loop: any EventLoop
    nonisolated let options: ClusterOptions
    nonisolated let callOptions: ClientOptions
    package nonisolated let codec: ProtocolCodec
    nonisolated let picker: ClusterPicker
    nonisolated let waiting: WaitingCalls
    nonisolated let facts: ClusterFacts
    nonisolated let tableUpdate: TableUpdate
    nonisolated let voice: ClusterVoice
    nonisolated let listeners = ClusterListeners()
    nonisolated let refresh: Alarm
    /// Rung when the next instant at which something is due has changed.
    nonisolated let maintenance: Alarm
    private nonisolated let hasBegun = Atomic<Bool>(false)
    nonisolated let isClosing = Atomic<Bool>(false)
    nonisolated let retries: Lock<RetryRules>
    nonisolated let hedging: Lock<Hedging>
    nonisolated let counts = Lock(CallCounts())
    /// Whether calls without options are sent again only if nothing was sent, and pass no interceptors. Stored because
    /// it is read for every request.
    nonisolated let mayBePlain: Bool

    private let discovery: Discovery
    private var discoveryTask: Task<Void, Never>?
    var maintenanceTask: Task<Void, Never>?
    let makeClient: @Sendable (ClusterEndpoint, ClientOptions) -> Client
    var servers = ClusterServers()
    var offer = WaitingCalls.Offer.nothing
    /// Why servers are not ready; made for the first error after a change of the servers.
    var trouble: ClusterTrouble?
    var outliers: OutlierRules
    var generator: SeededGenerator
    var intervalEnd: Instant
    var readySince: Instant?
    var (isAvailable, unavailableSince): (Bool, Instant?) = (false, nil)
    /// When the cluster tells that no server is ready; `nil` once one was ready, or it has been told.
    var firstServerIsDue: Instant?
    let subsetSeed: UInt64
    var lifecycle = Lifecycle.open
    var closeWaiters: [Continuation<Void>] = []
    var streams = ClusterStreams()
    var subscriptions = ClusterSubscriptions()

    /// The executor of this actor: an event loop.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    /// Creates a cluster of the servers that `discovery` finds.
    ///
    /// This does not connect, and does not look for servers. The cluster does both when it is first used, or when
    /// ``connect()`` is called.
    ///
    /// - Parameters:
    ///   - discovery: Finds the servers.
    ///   - codec: The wire format. Each link uses its own copy.
    ///   - options: The options of the calls and of each client, some of which the cluster changes or replaces: see
    ///     <doc:ManyServers#Options-of-the-clients>.
    ///   - loops: The set of event loops over which the links are spread.
    ///   - change: Changes the options of the cluster.
    public init(
        discovering discovery: Discovery,
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        on loops: EventLoops = .shared,
        _ change: (inout ClusterOptions) -> Void = { _ in }
    ) {
        var clusterOptions = ClusterOptions()
        change(&clusterOptions)
        self.init(discovery, codec, options, clusterOptions, on: loops)
    }

    /// Creates a cluster of the servers that `discovery` finds, with options that were made before.
    ///
    /// - Parameters:
    ///   - discovery: Finds the servers.
    ///   - codec: The wire format. Each link uses its own copy.
    ///   - options: The options of the calls and of each client.
    ///   - clusterOptions: The options of the cluster.
    ///   - loops: The set of event loops over which the links are spread.
    public init(
        discovering discovery: Discovery,
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        clusterOptions: ClusterOptions,
        on loops: EventLoops = .shared
    ) {
        self.init(discovery, codec, options, clusterOptions, on: loops)
    }

    init(
        _ discovery: Discovery,
        _ codec: some FrameCodec,
        _ callOptions: ClientOptions,
        _ options: ClusterOptions,
        on loops: EventLoops
    ) {
        loop = loops.next()
        self.options = options
        self.callOptions = callOptions
        self.codec = ProtocolCodec(codec)
        self.discovery = discovery
        // A simulation has an executor for callbacks, and must make the same choices in every run.
        picker = ClusterPicker(
            options.balancing,
            seed: loop.randomSeed(),
            isReproducible: loop.callbackExecutor != nil
        )
        waiting = WaitingCalls(maximum: callOptions.requests.maximumWaiting, on: loop)
        facts = ClusterFacts(on: loop)
        tableUpdate = TableUpdate(facts, on: loop)
        voice = ClusterVoice(callOptions, discovery.name, on: loop)
        refresh = Alarm(on: loop)
        maintenance = Alarm(on: loop)
        subsetSeed = loop.randomSeed()
        outliers = OutlierRules(options.ejection.map { OutlierRules.Settings($0) } ?? OutlierRules.Settings())
        generator = SeededGenerator(seed: loop.randomSeed())
        intervalEnd = loop.now.advanced(by: Self.interval)
        retries = Lock(RetryRules(callOptions.requests.retryBudget, seed: loop.randomSeed()))
        hedging = Lock(Hedging(share: options.hedgeBudget))
        mayBePlain = callOptions.requests.retry.or(.ifUnsent) == .ifUnsent && callOptions.interceptors.isEmpty
        makeClient = { found, options in
            Client(to: found.endpoint, speaking: codec, options: options, on: loops)
        }
        facts.receiver = self
    }

    deinit {
        discoveryTask?.cancel()
        maintenanceTask?.cancel()
        subscriptions.cancelMoves()
        // A waiting caller keeps the cluster alive, so only streams are left.
        if lifecycle < .closing { voice.deallocated() }
        listeners.close()
        var streams = streams
        streams.changes.finish()
        streams.endpoints.finish()
    }

    nonisolated func begin() {
        if !hasBegun.load(ordering: .relaxed), !hasBegun.exchange(true, ordering: .relaxed) { facts.tell(.begun) }
    }

    private func beginDiscovery() {
        guard lifecycle < .closing, discoveryTask == nil else { return }
        firstServerIsDue = loop.now.advanced(by: Self.patience)
        beginMaintenance()
        let hasFound = Lock(false)
        // The latest list that the cluster has not taken yet: a source may find lists faster than they can be used.
        let latest = Lock<FoundServers?>(nil)
        let failures = Lock(0)
        let receiver = DiscoveryReceiver(loop: loop, alarm: refresh) { [facts] list in
            hasFound.withLock { $0 = true }
            let found = FoundServers(list, failures)
            if latest.withLock({ exchange(&$0, with: found) }) == nil { facts.tell(.found(latest)) }
        } failed: { [facts] in
            failures.withLock { $0 += 1 }
            facts.tell(.discoveryFailed($0))
        } answersRotate: { [facts] in
            facts.tell(.answersRotate($0, of: $1))
        }
        // Ends when the discovery has no more lists, or when the cluster is closed or deallocated, which cancels it. It
        // does not keep the cluster alive.
        let executor = discovery.runsUserCode ? loop.callbackExecutor : loop.taskExecutor
        discoveryTask = Task(executorPreference: executor) { [discovery, loop] in
            var backoff = Backoff(base: .seconds(1), cap: .seconds(30))
            while !Task.isCancelled {
                hasFound.withLock { $0 = false }
                do {
                    return try await discovery.run(receiver)
                } catch {
                    if Task.isCancelled { return }
                    receiver.failed(error)
                    if hasFound.withLock({ $0 }) { backoff.base = .seconds(1) }
                    await loop.sleep(until: loop.now.advanced(by: backoff.base))
                    backoff.base = min(backoff.cap, backoff.base * 2)
                }
            }
        }
    }

    func endDiscovery() {
        discoveryTask?.cancel()
        maintenanceTask?.cancel()
        servers.discoveryFailingSince = nil
        subscriptions.cancelMoves()
    }
}

extension Cluster: LoopActor, ClusterFactReceiver {
    nonisolated func take(_ fact: ClusterFact) {
        var fact = fact
        onItsLoop(&fact) { $0.perform($1) }
    }

    nonisolated func makeTable() { onItsLoop { $0.updateTable() } }

    private func perform(_ fact: ClusterFact) {
        switch fact {
        case .begun: beginDiscovery()
        case .found(let latest):
            if let found = latest.withLock({ $0.take() }) { use(found.list, isWhole: found.isWhole) }
        case .discoveryFailed(let error): discoveryFailed(error)
        case .answersRotate(let count, let known): answersRotate(count, of: known)
        case .linkChanged(let member, let link, let isReady): linkChanged(member, link, isReady: isReady)
        case .linkEnded(let member, let report): linkEnded(member, report)
        case .failedInARow(let member, let count): failedInARow(member, count)
        case .probeEnded(let member, let succeeded): probeEnded(member, succeeded)
        case .isFull(let member, let isLarge): addLink(to: member, isLarge: isLarge)
        }
    }
}

extension Cluster: CustomReflectable {
    /// Empty: its state belongs to its event loop, and holds secrets such as the bodies of requests.
    public nonisolated var customMirror: Mirror { Mirror(self, children: []) }
}
