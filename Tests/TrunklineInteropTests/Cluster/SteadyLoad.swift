import Synchronization
import Trunkline

/// Callers that send requests one after the other, and a record of the results.
///
/// Each request has a number of its own. Its response is right only if it belongs to this request, and if the server has
/// performed the request once.
final class SteadyLoad: Sendable {
    struct Call {
        let number: UInt64
        let began, ended: ContinuousClock.Instant
        /// Whether the response is right, or the error.
        let result: Result<Bool, ClientError>
        var error: ClientError? { if case .failure(let error) = result { error } else { nil } }
    }

    /// The numbers of all loads are different.
    private static let numbers = Atomic<UInt64>(1)

    let name: String
    private let sender: any RequestSender
    private let pause: Duration
    private let options: CallOptions
    private let record = Lock([Call]())
    private let isOver = Atomic(false)

    /// - Parameters:
    ///   - name: The name that is printed.
    ///   - pause: How long each caller waits after a response. With a pause, the load does not need the whole processor.
    init(
        _ name: String,
        _ sender: any RequestSender,
        pause: Duration = .zero,
        options: CallOptions = CallOptions()
    ) {
        (self.name, self.sender, self.pause, self.options) = (name, sender, pause, options)
    }

    var calls: [Call] { record.withLock { $0 } }

    /// Runs `body` while the callers of all `loads` send requests. Returns when all calls have ended.
    static func run(
        _ loads: [SteadyLoad],
        callers: Int,
        while body: nonisolated(nonsending) () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup { group in
            for load in loads {
                for _ in 0..<callers {
                    group.addTask {
                        while !load.isOver.load(ordering: .relaxed) {
                            await load.call()
                            if load.pause > .zero { try await Task.sleep(for: load.pause) }
                        }
                    }
                }
            }
            defer { for load in loads { load.isOver.store(true, ordering: .relaxed) } }
            try await body()
        }
    }

    /// Makes one call and records it.
    func call() async {
        let number = Self.numbers.wrappingAdd(1, ordering: .relaxed).oldValue
        let began = ContinuousClock.now
        let result: Result<Bool, ClientError>
        do throws(ClientError) {
            let response = try await sender.send(Self.request(number), timeout: .default, options: options)
            result = .success(Self.value(of: response) == number)
        } catch {
            result = .failure(error)
        }
        let call = Call(number: number, began: began, ended: .now, result: result)
        record.withLock { $0.append(call) }
    }

    // MARK: Requests

    static func key(_ number: UInt64) -> String { "call-\(number)" }

    /// Adds 1 to a counter, which is created with the value `number`: a second request would be answered with the next
    /// number. A server that was restarted answers like any other.
    static func request(_ number: UInt64) -> Request {
        let (delta, expiration): (UInt64, UInt32) = (1, 0)
        let extras = [delta, number].flatMap { bytes(of: $0) } + bytes(of: expiration)
        var request = Request(type: 0x05, body: Bytes(extras + Array(key(number).utf8)))
        (request["keyLength"], request["extrasLength"]) = (UInt64(key(number).utf8.count), UInt64(extras.count))
        return request
    }

    private static func bytes<Number: FixedWidthInteger>(of number: Number) -> [UInt8] {
        stride(from: Number.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    private static func value(of response: Response) -> UInt64 {
        Memcached.value(of: response).reduce(0) { $0 << 8 | UInt64($1) }
    }

    // MARK: Results

    /// The calls that were under way between two instants, in one line.
    func summary(from start: ContinuousClock.Instant, to end: ContinuousClock.Instant) -> String {
        let calls = calls.filter { $0.ended >= start && $0.began <= end }
        let perSecond = Double(calls.count) / ((end - start) / .seconds(1))
        var failures: [String: Int] = [:]
        for error in calls.compactMap(\.error) { failures["\(error.code), \(error.fate)", default: 0] += 1 }
        let list = failures.sorted { $0.key < $1.key }.map { "\($0.value) × \($0.key)" }.joined(separator: "; ")
        let durations = calls.map { $0.ended - $0.began }.sorted()
        return "\(name): \(percentiles(durations)), \(Int(perSecond)) requests/s, "
            + "\(failures.values.reduce(0, +)) failures" + (list.isEmpty ? "" : " (\(list))")
    }
}
