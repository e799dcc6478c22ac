public import TrunklineCore
import TrunklineHTTP

/// Sends the metrics of clients and clusters to a collector of OpenTelemetry, again and again: OTLP over HTTP/1.1, in
/// JSON.
///
/// ```swift
/// let exporter = OTLPExporter(to: "localhost:4318", resource: ["service.name": "shop"]) {
///     [ClientSnapshot(of: await client.metrics, named: "users")]
/// }
/// await withTaskGroup { tasks in
///     tasks.addTask { await exporter.run() }
///     …
/// }
/// ```
///
/// Values are cumulative, so a report that is lost is made up for by the next one. At most one report is on its way at
/// a time, and none is kept for later: a collector that is down or slow costs no memory.
///
/// The counts are said to begin when the exporter was created. Create it before its clients make requests.
public struct OTLPExporter: Sendable {
    /// Why a report did not arrive.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// The HTTP status with which the collector refused the report; `nil` if it did not answer.
        public let status: Int?
        /// Why the collector did not answer; `nil` if it did.
        public let error: ClientError?
        /// How many reports failed like this since the last call of `onFailure` for a failure of this kind, this one
        /// included.
        public internal(set) var count = 1

        /// The status or the error in one line.
        public var description: String {
            let reason = status.map { "the collector answered with status \($0)" } ?? error.map { "\($0)" } ?? "unknown"
            let subject = count == 1 ? "metrics were" : "\(count) reports of metrics were"
            return "\(subject) not exported: \(reason)"
        }
    }

    private static let timeout = Duration.seconds(10)

    /// Between the beginnings of two reports.
    private let interval: Duration
    private let shutdownTimeout: Duration
    private let path: String
    private let headers: [String: String]
    private let resource: [String: String]
    private let start: Int64
    private let collector: Client
    private let clock: any Clock<Duration>
    private let now: @Sendable () -> Int64
    private let snapshots: @Sendable () async -> [any MetricsSnapshot]
    private let onFailure: @Sendable (Failure) -> Void

    /// Creates an exporter. It does nothing before ``run()``.
    ///
    /// - Parameters:
    ///   - endpoint: The collector. Port 4318 is usual for OTLP over HTTP. With `tls://` before it, the link is
    ///     secured.
    ///   - path: The path of the request.
    ///   - headers: Further fields of the request, such as `["Authorization": "…"]`.
    ///   - resource: The attributes of this program, such as `service.name`.
    ///   - interval: The time from one report to the next. Clamped to 1 ms to a hundred years.
    ///   - shutdownTimeout: How long ``run()`` takes at most for the last report, after its task was cancelled. Clamped
    ///     to 1 ms to 10 s. Default 1 s: a collector that is down must not delay the end of a program.
    ///   - options: The options of the client that talks to the collector.
    ///   - loops: The event loops of that client.
    ///   - onFailure: Called in the task of ``run()`` for the first report that did not arrive, and then for the 2nd,
    ///     4th, 8th and so on, and every 64th, that failed with the same status or error code. What was not told yet is
    ///     told when 32 reports in a row have arrived, and at the end.
    ///   - snapshots: Returns the metrics to report.
    public init(
        to endpoint: Endpoint,
        path: String = "/v1/metrics",
        headers: [String: String] = [:],
        resource: [String: String] = [:],
        every interval: Duration = .seconds(10),
        shutdownTimeout: Duration = .seconds(1),
        options: ClientOptions = ClientOptions(),
        on loops: EventLoops = .shared,
        onFailure: @escaping @Sendable (Failure) -> Void = { _ in },
        snapshots: @escaping @Sendable () async -> [any MetricsSnapshot]
    ) {
        self.init(
            to: endpoint,
            path: path,
            headers: headers,
            resource: resource,
            every: interval,
            shutdownTimeout: shutdownTimeout,
            options: options,
            on: loops,
            clock: ContinuousClock(),
            now: wallClockNanoseconds,
            onFailure: onFailure,
            snapshots: snapshots
        )
    }

    init(
        to endpoint: Endpoint,
        path: String = "/v1/metrics",
        headers: [String: String] = [:],
        resource: [String: String] = [:],
        every interval: Duration,
        shutdownTimeout: Duration = .seconds(1),
        options: ClientOptions = ClientOptions(),
        on loops: EventLoops,
        clock: any Clock<Duration>,
        now: @escaping @Sendable () -> Int64,
        onFailure: @escaping @Sendable (Failure) -> Void = { _ in },
        snapshots: @escaping @Sendable () async -> [any MetricsSnapshot]
    ) {
        self.interval = min(max(.milliseconds(1), interval), .century)
        self.shutdownTimeout = min(max(.milliseconds(1), shutdownTimeout), Self.timeout)
        (self.path, self.headers, self.resource) = (path, headers, resource)
        (self.clock, self.now, self.start) = (clock, now, now())
        (self.onFailure, self.snapshots) = (onFailure, snapshots)
        let codec = HTTP1Codec { $0.host = Self.host(of: endpoint) }
        collector = Client(to: endpoint, speaking: codec, options: options, on: loops)
    }

    private static func host(of endpoint: Endpoint) -> String {
        switch endpoint.target {
        // The zone of an address means nothing to the server (RFC 6874 §1).
        case .host(let host, let port) where host.contains(":"):
            "[\(host.prefix { $0 != "%" })]:\(port)"
        case .host(let host, let port): "\(host):\(port)"
        case .unix, .vsock, .command, .descriptors: "localhost"
        }
    }

    /// Reports at once and after every interval, until the task is cancelled. Then reports once more, and returns.
    ///
    /// A report that takes longer than 10 s has failed. If a report takes longer than an interval, the next one follows
    /// at once. After the cancellation, the method takes as long as `snapshots`, at most `shutdownTimeout`, and as long
    /// as the log and the observers of `options` need, up to 2 s. Call it once.
    public func run() async {
        var failures = FailureCounts()
        while !Task.isCancelled {
            let pause = pause(of: interval, by: clock)
            note(await Self.send(await request(), to: collector, within: Self.timeout), &failures)
            await pause()
        }
        let (request, collector, timeout) = (await request(), collector, shutdownTimeout)
        // Unstructured, because this task is cancelled, which would end the report. It is awaited, and ends at the
        // timeout.
        let last = await Task(executorPreference: collector.executor) {
            let outcome = await Self.send(request, to: collector, within: timeout)
            await collector.closeNow()
            return outcome
        }.value
        note(last, &failures)
        failures.takeAll().forEach(onFailure)
    }

    private func request() async -> HTTP1Request {
        let json = OTLPRequest.json(of: await snapshots(), resource: resource, from: start, at: now())
        var fields: HTTP1Headers = ["Content-Type": "application/json"]
        for (name, value) in headers.sorted(by: { $0.key < $1.key }) { fields.append(name, value) }
        return HTTP1Request(.post, path, headers: fields, body: Bytes(json))
    }

    private static func send(
        _ request: HTTP1Request,
        to collector: Client,
        within timeout: Duration
    ) async -> Result<HTTP1Response, ClientError> {
        do throws(ClientError) {
            return .success(try await collector.send(request, timeout: .after(timeout)))
        } catch {
            return .failure(error)
        }
    }

    private func note(_ outcome: Result<HTTP1Response, ClientError>, _ failures: inout FailureCounts) {
        switch outcome {
        case .success(let response) where (200..<300).contains(response.status): failures.arrived().forEach(onFailure)
        case .success(let response): failures.note(Failure(status: response.status, error: nil)).map(onFailure)
        // The report that was on its way when `run` was cancelled. The last one, which follows, contains the same.
        case .failure(let error) where error.code == .cancelled: break
        case .failure(let error): failures.note(Failure(status: nil, error: error)).map(onFailure)
        }
    }
}

/// Tells the first failure of each kind, and then fewer and fewer, until 32 reports in a row have arrived.
private struct FailureCounts {
    private enum Kind: Hashable {
        case status(Int?)
        case code(ClientError.Code)
    }

    private struct Entry {
        var count = 0
        var told = 0
        var latest: OTLPExporter.Failure
        var arrived = 0

        mutating func tell() -> OTLPExporter.Failure {
            latest.count = count - told
            told = count
            return latest
        }
    }

    private var entries: [Kind: Entry] = [:]

    mutating func note(_ failure: OTLPExporter.Failure) -> OTLPExporter.Failure? {
        let kind = failure.error.map { Kind.code($0.code) } ?? .status(failure.status)
        var entry = entries[kind] ?? Entry(latest: failure)
        defer { entries[kind] = entry }
        (entry.count, entry.latest, entry.arrived) = (entry.count + 1, failure, 0)
        return entry.count % 64 == 0 || entry.count.nonzeroBitCount == 1 ? entry.tell() : nil
    }

    /// Returns what was not told of kinds that are over.
    mutating func arrived() -> [OTLPExporter.Failure] {
        for kind in entries.keys { entries[kind]?.arrived += 1 }
        return take { $0.arrived >= 32 }
    }

    mutating func takeAll() -> [OTLPExporter.Failure] { take { _ in true } }

    private mutating func take(_ isOver: (Entry) -> Bool) -> [OTLPExporter.Failure] {
        let over = entries.filter { isOver($0.value) }
        for kind in over.keys { entries[kind] = nil }
        return over.values.filter { $0.count > $0.told }.map { entry in
            var entry = entry
            return entry.tell()
        }.sorted { $0.description < $1.description }
    }
}

private func pause(of interval: Duration, by clock: some Clock<Duration>) -> () async -> Void {
    let end = clock.now.advanced(by: interval)
    return { try? await clock.sleep(until: end, tolerance: nil) }
}

extension OTLPExporter: CustomReflectable {
    /// The interval and the attributes of the resource. The path and the header fields may hold tokens.
    public var customMirror: Mirror {
        Mirror(self, children: ["interval": interval, "resource": resource], displayStyle: .struct)
    }
}
