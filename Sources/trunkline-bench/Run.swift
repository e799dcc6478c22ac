import Trunkline

enum Row: String, CaseIterable {
    case ordinary, pinned, batch
    case byHand = "by hand"
    case socket
}

enum Quota {
    case requests(Int)
    case milliseconds(Int)

    func deadline(from start: UInt64) -> UInt64? {
        switch self {
        case .requests: nil
        case .milliseconds(let milliseconds): start + UInt64(milliseconds) * 1_000_000
        }
    }

    var limit: Int {
        switch self {
        case .requests(let count): count
        case .milliseconds: .max
        }
    }

    /// In requests. Reading the clock twice would take a tenth of the time of a request.
    func latencyStride(concurrency: Int) -> Int {
        switch self {
        case .requests(let all): all / 200_000 + 1
        case .milliseconds: concurrency > 16 ? 8 : 1
        }
    }

    func part(_ index: Int, of count: Int) -> Quota {
        switch self {
        case .requests: .requests(share(of: index, among: count))
        case .milliseconds: self
        }
    }

    func share(of index: Int, among count: Int) -> Int {
        switch self {
        case .requests(let all): all / count + (index < all % count ? 1 : 0)
        case .milliseconds: .max
        }
    }
}

struct Run {
    var row: Row
    var batchSize = 1
    var port: UInt16
    /// Each on its own event loop.
    var clients = 1
    /// Of each client.
    var concurrency: Int
    var payload: Int
    var warmUp: Quota
    var measured: Quota
    /// `nil` for plaintext.
    var root: PEM?
    var watcher = Watcher.nothing
    var isClustered = false

    /// The first type for applications.
    static let type: UInt32 = 0x410

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
