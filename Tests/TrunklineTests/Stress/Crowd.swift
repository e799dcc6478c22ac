import Synchronization
import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// The number of concurrent callers: 1,000, or fewer for small storms.
let crowdSize = max(50, min(1000, stormRequests / 100))

/// How often a server is killed and restarted with each mechanism: `TRUNKLINE_STRESS_RESTARTS`, or 20, or fewer
/// for small storms.
let restartCount = TestEnvironment.stressRestarts ?? max(6, min(20, stormRequests / 1000))

/// Counts how often servers have handled each number. Several servers share one ledger, which outlives each of them.
final class Ledger: Sendable {
    private let counts = Lock([UInt8]())
    private let sum = Atomic<Int>(0)

    /// The number of handled requests.
    var total: Int { sum.load(ordering: .relaxed) }

    func note(_ request: Frame) {
        guard let number = Crowd.number(in: request.body) else { return }
        sum.wrappingAdd(1, ordering: .relaxed)
        counts.withLock { counts in
            if counts.count <= number { counts += [UInt8](repeating: 0, count: number + 1024 - counts.count) }
            counts[number] += 1
        }
    }

    /// How often `number` was handled.
    func count(of number: Int) -> Int { counts.withLock { number < $0.count ? Int($0[number]) : 0 } }

    /// Waits until `count` more requests have been handled, however long the machine takes.
    func wait(forMore count: Int) async throws {
        let goal = total + count
        while total < goal { try await Task.sleep(for: .milliseconds(1)) }
    }
}

/// Callers of one client. Each of them sends one number after the other until the crowd ends.
final class Crowd: Sendable {
    /// The outcome of a request.
    enum End: Hashable {
        case success, crossed
        case failure(ClientError.Code, ClientError.Fate)
    }

    let count: Int
    private let client: Client
    private let policy: @Sendable (_ caller: Int) -> RetryPolicy
    /// Whether some callers time out or cancel soon.
    private let isImpatient: Bool
    private let isOver = Atomic<Bool>(false)

    init(
        of count: Int = crowdSize,
        on client: Client,
        isImpatient: Bool = false,
        policy: @escaping @Sendable (_ caller: Int) -> RetryPolicy
    ) {
        self.count = count
        self.client = client
        self.isImpatient = isImpatient
        self.policy = policy
    }

    /// The body of request `number`. Some bodies are so long that they are written in several steps.
    static func body(_ number: Int) -> Bytes {
        let text = Array("\(number) ".utf8)
        return Bytes(number % 61 == 7 ? text + [UInt8](repeating: 46, count: 20_000) : text)
    }

    static func number(in body: Bytes) -> Int? { Int(String(Bytes(body.prefix { $0 != 32 }))) }

    /// Runs `body` while all callers send requests. Returns the outcome of every request, by caller.
    func ask(_ body: nonisolated(nonsending) () async throws -> Void) async throws -> [[End]] {
        try await withThrowingTaskGroup(of: (Int, [End]).self) { group in
            for caller in 0..<count { group.addTask { (caller, await self.ask(as: caller)) } }
            var ends = [[End]](repeating: [], count: count)
            do {
                try await body()
            } catch {
                isOver.store(true, ordering: .relaxed)
                group.cancelAll()
                throw error
            }
            isOver.store(true, ordering: .relaxed)
            for try await (caller, mine) in group { ends[caller] = mine }
            return ends
        }
    }

    private func ask(as caller: Int) async -> [End] {
        var random = SeededGenerator(seed: UInt64(caller))
        var ends: [End] = []
        while !isOver.load(ordering: .relaxed) {
            let number = ends.count * count + caller
            guard isImpatient, caller % 4 == 3 else {
                ends.append(await ask(number, policy(caller), .seconds(120)))
                continue
            }
            if ends.count % 2 == 0 {
                let timeout = Duration.microseconds(Int.random(in: 1...20_000, using: &random))
                ends.append(await ask(number, policy(caller), .after(timeout)))
            } else {
                let asking = Task { await self.ask(number, self.policy(caller), .seconds(120)) }
                for _ in 0..<Int.random(in: 0...20, using: &random) { await Task.yield() }
                asking.cancel()
                ends.append(await asking.value)
            }
        }
        return ends
    }

    private func ask(_ number: Int, _ policy: RetryPolicy, _ timeout: Timeout) async -> End {
        let body = Self.body(number)
        do throws(ClientError) {
            let request = Request(type: 0x410, body: body)
            return try await client.send(request, timeout: timeout, options: CallOptions(retry: policy)).body == body
                ? .success : .crossed
        } catch {
            return .failure(error.code, error.fate)
        }
    }

    /// Checks every outcome against what the servers have handled. Returns how many requests had each outcome.
    func check(
        _ ends: [[End]],
        against ledger: Ledger,
        sourceLocation: SourceLocation = #_sourceLocation
    ) -> [End: Int] {
        var counts: [End: Int] = [:]
        for caller in 0..<count {
            let isOnce = if case .idempotent = policy(caller) { false } else { true }
            for (round, end) in ends[caller].enumerated() {
                counts[end, default: 0] += 1
                let executed = ledger.count(of: round * count + caller)
                let isTrue =
                    switch end {
                    case .success: executed == 1 || (executed > 1 && !isOnce)
                    case .failure(_, .notSent): executed == 0
                    case .failure(_, .unknown): executed <= 1 || !isOnce
                    case .crossed, .failure(_, .answered): false
                    }
                #expect(
                    isTrue,
                    "caller \(caller): \(end), carried out \(executed) times",
                    sourceLocation: sourceLocation
                )
            }
        }
        return counts
    }
}

/// Collects the disconnect reports of a client until it is closed, except the report of the closing itself.
///
/// The task runs on the client's event loop, so that it takes turns with the code that makes reports, and no
/// report is dropped.
func reports(of client: Client) -> Task<[DisconnectReport], Never> {
    let disconnects = client.disconnects
    return Task(executorPreference: client.executor) {
        var all: [DisconnectReport] = []
        for await report in disconnects { all.append(report) }
        if all.last?.cause == .closedLocally { all.removeLast() }
        return all
    }
}

/// An address of 127.0.0.0/8 that no other test uses, on systems that have several. While a server is down, no other
/// socket can get its port.
func loopback(_ last: UInt8, port: UInt16 = 0) -> SocketAddress {
    #if os(Linux)
        .ipv4([127, 0, 53, last], port: port)
    #else
        .ipv4([127, 0, 0, 1], port: port)
    #endif
}

/// A server that can be killed and restarted on the same port.
actor RestartableServer {
    private var server: LoopbackServer
    private let last: UInt8
    private let ledger: Ledger

    nonisolated let endpoint: Endpoint

    init(at last: UInt8, _ ledger: Ledger) async throws {
        (self.last, self.ledger) = (last, ledger)
        server = try await Self.start(loopback(last), ledger)
        endpoint = server.endpoint
    }

    private static func start(_ address: SocketAddress, _ ledger: Ledger) async throws -> LoopbackServer {
        let options = LoopbackServer.Options {
            $0.recordedFrames = 0
            $0.answersCancelled = true
        }
        return try await Wire.startServer(at: address, speaking: .standard, options: options) { request in
            ledger.note(request)
            return (Crowd.number(in: request.body) ?? 0) % 50 == 1 ? .after(.milliseconds(2), .echo) : .echo
        }
    }

    /// Closes every link, with a reset or cleanly, and stops listening.
    func kill(reset: Bool) async {
        await server.stopAccepting()
        await server.disconnectAll(reset: reset)
        await server.stop()
    }

    func start() async throws {
        let port = try #require(UInt16(endpoint.description.split(separator: ":").last ?? ""))
        server = try await Self.start(loopback(last, port: port), ledger)
    }

    var connectionCount: Int { get async { await server.connectionCount } }

    func waitForConnections(_ count: Int) async throws {
        try await server.waitForConnections(count, within: patience)
    }
}
