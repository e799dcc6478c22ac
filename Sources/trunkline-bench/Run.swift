import Trunkline

/// A row of the table: the kind of client and how it is called.
enum Row: String, CaseIterable {
    case ordinary, pinned, batch
    case byHand = "by hand"
    case socket
}

/// How long a run lasts.
enum Quota {
    case requests(Int)
    case milliseconds(Int)

    /// Returns the time at which to stop; `nil` if the number of requests decides.
    func deadline(from start: UInt64) -> UInt64? {
        switch self {
        case .requests: nil
        case .milliseconds(let milliseconds): start + UInt64(milliseconds) * 1_000_000
        }
    }

    /// The number of requests; `Int.max` if the time decides.
    var limit: Int {
        switch self {
        case .requests(let count): count
        case .milliseconds: .max
        }
    }

    /// The sampling interval of latencies, in requests. Reading the clock twice would take a tenth of the time of a
    /// request.
    func latencyStride(concurrency: Int) -> Int {
        switch self {
        case .requests(let all): all / 200_000 + 1
        case .milliseconds: concurrency > 16 ? 8 : 1
        }
    }

    /// Returns the quota of client `index` of `count`.
    func part(_ index: Int, of count: Int) -> Quota {
        switch self {
        case .requests: .requests(share(of: index, among: count))
        case .milliseconds: self
        }
    }

    /// Returns the number of requests for worker `index` of `count`.
    func share(of index: Int, among count: Int) -> Int {
        switch self {
        case .requests(let all): all / count + (index < all % count ? 1 : 0)
        case .milliseconds: .max
        }
    }
}

/// The parameters of one measurement: a cell of the matrix, or the values of the command line.
struct Run {
    var row: Row
    /// The most requests of one `send(all:)`; 1 for `send`.
    var batchSize = 1
    var port: UInt16
    /// The number of clients, each on its own event loop.
    var clients = 1
    /// Requests in flight of each client.
    var concurrency: Int
    /// Bytes of each body.
    var payload: Int
    var warmUp: Quota
    var measured: Quota
    /// The root certificate of the server; `nil` for plaintext.
    var root: PEM?
    /// What watches the client.
    var watcher = Watcher.nothing
    /// Whether the load goes through a cluster of this one server.
    var isClustered = false

    /// The type of every request: the first type for applications.
    static let type: UInt32 = 0x410

    /// Warms up, measures and returns the result.
    func measured() async throws -> Measurement {
        if row == .socket {
            let loop = try SocketLoop(self)
            _ = try loop.drive(warmUp, Histogram())
            return try Measurement.take { try loop.drive(measured, $0) }
        }
        let loops = clients > 1 ? EventLoops(count: clients) : .shared
        let loads = (0..<clients).map { _ in ClientLoad(self, on: loops) }
        for load in loads { try await load.connect() }
        _ = try await drive(loads, warmUp, Histogram())
        let measurement = try await Measurement.take { try await drive(loads, measured, $0) }
        for load in loads { await load.close() }
        return measurement
    }

    /// Drives all clients at once. Returns the number of answered requests.
    private func drive(_ loads: [ClientLoad], _ quota: Quota, _ histogram: Histogram) async throws -> Int {
        guard loads.count > 1 else { return try await loads[0].drive(quota, histogram) }
        return try await withThrowingTaskGroup(of: Int.self) { group in
            for index in loads.indices {
                group.addTask { try await loads[index].drive(quota.part(index, of: loads.count), histogram) }
            }
            return try await group.reduce(0, +)
        }
    }
}
