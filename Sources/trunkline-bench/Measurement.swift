struct Measurement {
    var requests: Int
    /// In nanoseconds.
    var wall: Int
    /// Processor time of the process, in microseconds.
    var user: Int
    var system: Int
    /// In nanoseconds.
    var p50: Int
    var p99: Int
    /// Negative if allocations are not counted.
    var allocations: Int
    /// In kilobytes.
    var peakMemory: Int

    var requestsPerSecond: Double { Double(requests) / Double(wall) * 1e9 }
    /// In microseconds.
    var processorTimePerRequest: Double { Double(user + system) / Double(requests) }
    var allocationsPerRequest: Double? { allocations < 0 ? nil : Double(allocations) / Double(requests) }

    static func take(_ work: (Histogram) async throws -> Int) async throws -> Measurement {
        let histogram = Histogram()
        let start = Usage.now
        let requests = try await work(histogram)
        return try Measurement(requests, histogram, from: start, to: Usage.now)
    }

    static func take(_ work: (Histogram) throws -> Int) throws -> Measurement {
        let histogram = Histogram()
        let start = Usage.now
        let requests = try work(histogram)
        return try Measurement(requests, histogram, from: start, to: Usage.now)
    }

    private init(_ requests: Int, _ histogram: Histogram, from start: Usage, to end: Usage) throws {
        guard requests > 0 else { throw BenchError("no request was answered") }
        self.requests = requests
        wall = Int(end.time - start.time)
        user = end.user - start.user
        system = end.system - start.system
        p50 = Int(histogram.percentile(0.5))
        p99 = Int(histogram.percentile(0.99))
        allocations = end.allocations < 0 ? -1 : end.allocations - start.allocations
        peakMemory = Usage.peakMemory
    }

    var line: String {
        [requests, wall, user, system, p50, p99, allocations, peakMemory].map { "\($0)" }.joined(separator: " ")
    }

    init(line: String) throws {
        let numbers = line.split { $0 == " " || $0 == "\n" }.compactMap { Int($0) }
        guard numbers.count == 8 else { throw BenchError("a measuring process printed an invalid line: \"\(line)\"") }
        requests = numbers[0]
        wall = numbers[1]
        user = numbers[2]
        system = numbers[3]
        p50 = numbers[4]
        p99 = numbers[5]
        allocations = numbers[6]
        peakMemory = numbers[7]
    }

    func json(of run: Run) -> String {
        let members = [
            ("peer", "\"trunkline\(run.batchSize > 1 ? "-batch" : "")\(run.row == .pinned ? "-pinned" : "")\""),
            ("concurrency", "\(run.concurrency)"),
            ("payload", "\(run.payload)"),
            ("requests", "\(requests)"),
            ("wall_s", decimal(Double(wall) / 1e9, places: 6)),
            ("req_per_s", decimal(requestsPerSecond, places: 1)),
            ("user_s", decimal(Double(user) / 1e6, places: 6)),
            ("sys_s", decimal(Double(system) / 1e6, places: 6)),
            ("cpu_us_per_req", decimal(processorTimePerRequest, places: 3)),
            ("p50_us", decimal(Double(p50) / 1e3, places: 1)),
            ("p99_us", decimal(Double(p99) / 1e3, places: 1)),
            ("max_rss_kb", "\(peakMemory)"),
        ]
        return "{" + members.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
    }
}
