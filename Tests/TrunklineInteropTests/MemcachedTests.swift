import Testing
import Trunkline

/// memcached's binary protocol, described like a user would: with public API only.
enum Memcached {
    static let layout = FrameLayout {
        Field.constant(request: [0x80], response: [0x81])
        Field.type(UInt8.self)  // opcode
        Field.integer("keyLength", UInt16.self)
        Field.integer("extrasLength", UInt8.self)
        Field.reserved(1)
        Field.status(UInt16.self)
        Field.length(UInt32.self, counting: .body)
        Field.serial(UInt32.self)  // opaque
        Field.integer("cas", UInt64.self)
        Field.body  // extras, key, value
    }

    private static func request(_ opcode: UInt32, extras: [UInt8] = [], key: String, value: [UInt8] = []) -> Request {
        var request = Request(type: opcode, body: Bytes(extras + Array(key.utf8) + value))
        request["keyLength"] = UInt64(key.utf8.count)
        request["extrasLength"] = UInt64(extras.count)
        return request
    }

    static func get(_ key: String) -> Request { request(0x00, key: key) }

    static func set(_ key: String, _ value: [UInt8]) -> Request {
        request(0x01, extras: [0, 0, 0, 0, 0, 0, 0, 0], key: key, value: value)
    }

    /// The value in a response to `get`: the bytes behind the extras (the flags) and the key.
    static func value(of response: Response) -> [UInt8] {
        Array(response.body.dropFirst(Int(response["extrasLength"] ?? 0) + Int(response["keyLength"] ?? 0)))
    }
}

@Suite(.tags(.realThreads), .enabled(if: ServerProcess.isAvailable("memcached"), "memcached is not installed"))
struct MemcachedTests {}

extension MemcachedTests {
    /// The value of key number `index`. Its size and bytes depend on the number alone.
    static func value(_ index: Int) -> [UInt8] {
        var state = UInt64(index) &* 0x9e37_79b9_7f4a_7c15 | 1
        state ^= state >> 29
        let size = index % 10 == 0 ? Int(state % 100_001) : Int(state % 4_001)
        return (0..<size).map { UInt8(truncatingIfNeeded: Int(truncatingIfNeeded: state) &+ $0 &* 31) }
    }

    @Test(.timeLimit(.minutes(5)))
    func concurrentSetsAndGetsKeepEveryValue() async throws {
        let count = TestEnvironment.scaled(10_000)
        let server = try await ServerProcess("memcached") { ["-u", "root", "-m", "1024", "-s", $0] }
        defer { server.stop() }
        try await withClient(to: .unix(path: server.socketPath), speaking: Memcached.layout) { client in
            let wrong = try await withThrowingTaskGroup(of: Bool.self) { group in
                for index in 0..<count {
                    group.addTask {
                        let key = "key-\(index)"
                        let value = Self.value(index)
                        _ = try await client.send(Memcached.set(key, value), timeout: .seconds(60))
                        let answer = try await client.send(Memcached.get(key), timeout: .seconds(60))
                        return Memcached.value(of: answer) != value
                    }
                }
                return try await group.reduce(into: 0) { wrong, isWrong in wrong += isWrong ? 1 : 0 }
            }
            #expect(wrong == 0)
            let metrics = await client.metrics
            #expect(metrics.responses == 2 * count)
            #expect(metrics.pending == 0 && metrics.unknownResponses == 0 && metrics.connection.links == 1)
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func aMissingKeyIsARejectedStatus() async throws {
        let server = try await ServerProcess("memcached") { ["-u", "root", "-s", $0] }
        defer { server.stop() }
        try await withClient(to: .unix(path: server.socketPath), speaking: Memcached.layout) { client in
            let error = await #expect(throws: ClientError.self) { try await client.send(Memcached.get("nobody")) }
            #expect(error?.code == .rejected)
            #expect(error?.fate == .answered)
            #expect(error?.response?.status == 1)
            #expect(error.flatMap { $0.response.map { String($0.body) } } == "Not found")
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func everyRequestOfABatchHasItsOwnResult() async throws {
        let server = try await ServerProcess("memcached") { ["-u", "root", "-s", $0] }
        defer { server.stop() }
        try await withClient(to: .unix(path: server.socketPath), speaking: Memcached.layout) { client in
            _ = try await client.send(Memcached.set("here", [1, 2, 3]))
            let results = await client.send(all: (0..<200).map { Memcached.get($0 % 2 == 0 ? "here" : "gone") })
            for (index, result) in results.enumerated() {
                switch result {
                case .success(let frame): #expect(index % 2 == 0 && Memcached.value(of: frame) == [1, 2, 3])
                case .failure(let error): #expect(index % 2 == 1 && error.code == .rejected)
                }
            }
        }
    }
}
