import Synchronization
import Trunkline
import TrunklineDiagnostics

/// The callers of one client: as many as are needed to keep `run.concurrency` requests in flight.
struct ClientLoad: Sendable {
    private let client: Client
    /// Used instead of `client`, if set; so is `cluster`.
    private let byHand: ByHandClient?
    private let cluster: Cluster?
    private let isPinned: Bool
    private let batchSize: Int
    private let concurrency: Int
    private let bodies: Bodies

    init(_ run: Run, on loops: EventLoops = .shared) {
        var options = ClientOptions()
        options.reconnecting.maximumAttempts = 3  // fail if there is no server
        options.requests.maximumWaitingBytes = .max  // the load may exceed 4,096 × 64 KiB
        run.watcher.watch(&options)
        var endpoint = Endpoint.host("127.0.0.1", port: run.port)
        if let root = run.root {
            options.tls.roots = .only(root)
            endpoint = endpoint.secured()
        }
        client = Client(to: endpoint, speaking: .standard, options: options, on: loops)
        let found = Discovery.static([ClusterEndpoint(endpoint)])
        cluster = run.isClustered ? Cluster(discovering: found, speaking: .standard, options: options, on: loops) : nil
        byHand = run.row == .byHand ? ByHandClient(run) : nil
        isPinned = run.row == .pinned
        batchSize = run.batchSize
        concurrency = run.concurrency
        bodies = Bodies(size: run.payload)
    }

    func connect() async throws {
        if let byHand {
            try await byHand.connect()
        } else if let cluster {
            try await cluster.connect()
        } else {
            try await client.connect()
        }
    }

    func close() async {
        await byHand?.disconnect()
        await cluster?.close()
        await client.close()
    }

    func drive(_ quota: Quota, _ histogram: Histogram) async throws -> Int {
        let deadline = quota.deadline(from: monotonicNow()) ?? .max
        let answered = Counter()
        let executor = isPinned ? client.executor : nil
        let workers = (concurrency + batchSize - 1) / batchSize
        let stride = quota.latencyStride(concurrency: concurrency)
        @Sendable func callers(_ indices: Range<Int>) async throws {
            try await withThrowingDiscardingTaskGroup { group in
                for index in indices {
                    let share = quota.share(of: index, among: workers)
                    let places = concurrency * index / workers..<concurrency * (index + 1) / workers
                    // One closure for each kind of caller, so that the task of an ordinary one has a single small
                    // frame.
                    let work: @concurrent @Sendable () async throws -> Void =
                        if batchSize > 1 {
                            { answered.add(try await callInBatches(places, upTo: share, until: deadline, histogram)) }
                        } else if let cluster {
                            {
                                answered.add(
                                    try await call(
                                        cluster,
                                        index,
                                        upTo: share,
                                        until: deadline,
                                        measuringOneIn: stride,
                                        histogram
                                    )
                                )
                            }
                        } else if let byHand {
                            {
                                answered.add(
                                    try await call(byHand: byHand, index, upTo: share, until: deadline, histogram)
                                )
                            }
                        } else {
                            {
                                answered.add(
                                    try await call(
                                        index,
                                        upTo: share,
                                        until: deadline,
                                        measuringOneIn: stride,
                                        histogram
                                    )
                                )
                            }
                        }
                    // Even a preference of `nil` makes the runtime look it up.
                    if let executor {
                        group.addTask(executorPreference: executor, operation: work)
                    } else {
                        group.addTask(operation: work)
                    }
                }
            }
        }
        // In groups of 256: the runtime searches all tasks of a group for each one that ends. With 65,536 tasks in one
        // group, that took half of the processor time.
        try await withThrowingDiscardingTaskGroup { group in
            for first in Swift.stride(from: 0, to: workers, by: 256) {
                group.addTask { try await callers(first..<min(first + 256, workers)) }
            }
        }
        return answered.value
    }

    @inline(__always)
    private func call(
        _ caller: Int,
        upTo limit: Int,
        until deadline: UInt64,
        measuringOneIn stride: Int,
        _ histogram: Histogram
    ) async throws -> Int {
        var (count, unmeasured) = (0, caller % stride)
        while count < limit {
            let isMeasured = unmeasured == 0
            let start = isMeasured ? monotonicNow() : 0
            if start >= deadline { break }
            let request = Request(type: Run.type, body: bodies[caller &+ count])
            let reply = try await client.send(request)
            try bodies.check(reply, caller &+ count)
            if isMeasured { histogram.record(monotonicNow() - start, caller: caller) }
            unmeasured = (isMeasured ? stride : unmeasured) - 1
            count += 1
        }
        return count
    }

    @inline(__always)
    private func call(
        _ cluster: Cluster,
        _ caller: Int,
        upTo limit: Int,
        until deadline: UInt64,
        measuringOneIn stride: Int,
        _ histogram: Histogram
    ) async throws -> Int {
        var (count, unmeasured) = (0, caller % stride)
        while count < limit {
            let isMeasured = unmeasured == 0
            let start = isMeasured ? monotonicNow() : 0
            if start >= deadline { break }
            let request = Request(type: Run.type, body: bodies[caller &+ count])
            let reply = try await cluster.send(request)
            try bodies.check(reply, caller &+ count)
            if isMeasured { histogram.record(monotonicNow() - start, caller: caller) }
            unmeasured = (isMeasured ? stride : unmeasured) - 1
            count += 1
        }
        return count
    }

    @inline(never)
    private func call(
        byHand: ByHandClient,
        _ caller: Int,
        upTo limit: Int,
        until deadline: UInt64,
        _ histogram: Histogram
    ) async throws -> Int {
        var count = 0
        var start = monotonicNow()
        while count < limit, start < deadline {
            let number = caller &+ count
            try bodies.check(Response(try await byHand.send(bodies[number])), number)
            let end = monotonicNow()
            histogram.record(end - start, caller: caller)
            start = end
            count += 1
        }
        return count
    }

    @inline(never)
    private func callInBatches(
        _ places: Range<Int>,
        upTo limit: Int,
        until deadline: UInt64,
        _ histogram: Histogram
    ) async throws -> Int {
        let first = places.lowerBound
        let requests = places.map { Request(type: Run.type, body: bodies[$0]) }
        var count = 0
        var start = monotonicNow()
        while count < limit, start < deadline {
            let isWhole = requests.count <= limit - count
            let results = await client.send(all: isWhole ? requests : Array(requests.prefix(limit - count)))
            for index in results.indices {
                switch results[index] {
                case .success(let reply): try bodies.check(reply, first + index)
                case .failure(let error): throw error
                }
            }
            let end = monotonicNow()
            histogram.record(end - start, times: results.count, caller: first)
            start = end
            count += results.count
        }
        return count
    }
}

private final class Counter: Sendable {
    private let sum = Atomic<Int>(0)
    var value: Int { sum.load(ordering: .relaxed) }
    func add(_ count: Int) { sum.wrappingAdd(count, ordering: .relaxed) }
}
