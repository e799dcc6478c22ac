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
    /// Requests in flight.
    var concurrency: Int
    /// Bytes of each body.
    var payload: Int
    var warmUp: Quota
    var measured: Quota
    /// The root certificate of the server; `nil` for plaintext.
    var root: PEM?
    /// Whether an observer counts all events of the client.
    var isObserved = false
    /// Whether the client has a flight recorder.
    var isRecorded = false

    /// The type of every request: the first type for applications.
    static let type: UInt32 = 0x410

    /// Warms up, measures and returns the result.
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
