import Trunkline

/// Who asks, and how: a row of the table.
enum Row: String, CaseIterable {
    case ordinary, pinned, batch
    case byHand = "by hand"
    case socket
}

/// How long to go on.
enum Quota {
    case requests(Int)
    case milliseconds(Int)

    /// When to stop; `nil` when a number of requests says so.
    func deadline(from start: UInt64) -> UInt64? {
        switch self {
        case .requests: nil
        case .milliseconds(let milliseconds): start + UInt64(milliseconds) * 1_000_000
        }
    }

    /// How many requests there are in all; as good as infinite when time says when to stop.
    var limit: Int {
        switch self {
        case .requests(let count): count
        case .milliseconds: .max
        }
    }

    /// The limit of the worker `index` of `count`.
    func share(of index: Int, among count: Int) -> Int {
        switch self {
        case .requests(let all): all / count + (index < all % count ? 1 : 0)
        case .milliseconds: .max
        }
    }
}

/// One measurement to be made: a cell of the matrix, or what the command line asks for.
struct Run {
    var row: Row
    var port: UInt16
    /// Requests in flight.
    var concurrency: Int
    /// Bytes of each body.
    var payload: Int
    var warmUp: Quota
    var measured: Quota
    /// Who signed for the server; `nil` for plaintext.
    var root: PEM?

    /// The type of every request: the first of an application's own.
    static let type: UInt32 = 0x410

    /// Warms up, measures and returns what came of it.
    func measured() async throws -> Measurement {
        if row == .socket {
            let loop = try SocketLoop(self)
            _ = try loop.drive(warmUp, Histogram())
            return try Measurement.take { try loop.drive(measured, $0) }
        }
        let load = ClientLoad(self)
        try await load.connect()
        _ = try await load.drive(warmUp, Histogram())
        let measurement = try await Measurement.take { try await load.drive(measured, $0) }
        await load.close()
        return measurement
    }
}
