import Synchronization
import Trunkline

/// The callers of one client: as many as are needed to keep `run.concurrency` requests in flight.
struct ClientLoad: Sendable {
    private let client: Client
    /// Used instead of `client`, if set.
    private let byHand: ByHandClient?
    private let row: Row
    private let concurrency: Int
    private let bodies: Bodies

    /// The number of requests of one `send(all:)`.
    static let batchSize = 64

    init(_ run: Run) {
        var options = ClientOptions()
        options.reconnecting.maximumAttempts = 3  // fail if there is no server
        options.requests.maximumWaitingBytes = .max  // the load may exceed 4,096 × 64 KiB
        var endpoint = Endpoint.host("127.0.0.1", port: run.port)
        if let root = run.root {
            options.tls.roots = .only(root)
            endpoint = endpoint.secured()
        }
        client = Client(to: endpoint, speaking: .standard, options: options)
        byHand = run.row == .byHand ? ByHandClient(run) : nil
        row = run.row
        concurrency = run.concurrency
        bodies = Bodies(size: run.payload)
    }

    func connect() async throws {
        if let byHand { try await byHand.connect() } else { try await client.connect() }
    }

    func close() async {
        await byHand?.disconnect()
        await client.close()
    }

    /// Runs the callers until `quota` is used up; returns the number of answered requests.
    func drive(_ quota: Quota, _ histogram: Histogram) async throws -> Int {
        let deadline = quota.deadline(from: monotonicNow()) ?? .max
        let answered = Counter()
        let executor = row == .pinned ? client.executor : nil
        let size = row == .batch ? min(Self.batchSize, concurrency) : 1
        let workers = concurrency / size
        try await withThrowingDiscardingTaskGroup { group in
            for index in 0..<workers {
                let share = quota.share(of: index, among: workers)
                let work: @concurrent @Sendable () async throws -> Void = {
                    let count =
                        size == 1
                        ? try await call(index, upTo: share, until: deadline, histogram)
                        : try await callInBatches(of: size, index, upTo: share, until: deadline, histogram)
                    answered.add(count)
                }
                // Ordinary callers pass no preference at all: even `nil` makes the runtime look it up.
                if let executor {
                    group.addTask(executorPreference: executor, operation: work)
                } else {
                    group.addTask(operation: work)
                }
            }
        }
        return answered.value
    }

    /// Runs one caller: sends a request, awaits and checks the response, and repeats.
    private func call(
        _ caller: Int,
        upTo limit: Int,
        until deadline: UInt64,
        _ histogram: Histogram
    ) async throws -> Int {
        var count = 0
        var start = monotonicNow()
        while count < limit, start < deadline {
            let number = caller &+ count
            let body = bodies[number]
            let reply =
                if let byHand {
                    Response(try await byHand.send(body))
                } else {
                    try await client.send(Request(type: Run.type, body: body))
                }
            try bodies.check(reply, number)
            let end = monotonicNow()
            histogram.record(end - start, caller: caller)
            start = end
            count += 1
        }
        return count
    }

    private func callInBatches(
        of size: Int,
        _ caller: Int,
        upTo limit: Int,
        until deadline: UInt64,
        _ histogram: Histogram
    ) async throws -> Int {
        let first = caller * size
        let requests = (0..<size).map { Request(type: Run.type, body: bodies[first + $0]) }
        var count = 0
        var start = monotonicNow()
        while count < limit, start < deadline {
            let results = await client.send(all: requests.prefix(limit - count))
            for (index, result) in results.enumerated() { try bodies.check(result.get(), first + index) }
            let end = monotonicNow()
            histogram.record(end - start, times: results.count, caller: caller)
            start = end
            count += results.count
        }
        return count
    }
}

/// A sum to which tasks add.
private final class Counter: Sendable {
    private let sum = Atomic<Int>(0)
    var value: Int { sum.load(ordering: .relaxed) }
    func add(_ count: Int) { sum.wrappingAdd(count, ordering: .relaxed) }
}
