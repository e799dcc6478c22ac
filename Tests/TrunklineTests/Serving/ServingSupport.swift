import Synchronization
import Testing
import Trunkline
import TrunklineTesting

/// A layout in which both sides send requests. A refused request has the status of its reason.
let symmetricLayout = FrameLayout {
    Field.kind(UInt8.self, [.request: 0, .response: 1, .push: 2])
    Field.type(UInt16.self)
    Field.serial(UInt32.self)
    Field.status(UInt16.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles {
    $0.cancel = 9
    $0.goAway = .types(10...10)
}

/// The same layout with a refusal for every reason.
let refusingLayout = symmetricLayout.refusingRequests { request, reason in
    Frame(.response, type: request.type, status: reason.status)
}

extension ServingRefusal {
    /// The status of a refusal in `refusingLayout`.
    var status: UInt32 { 500 + UInt32(Self.allCases.firstIndex(of: self) ?? 99) }
}

/// What became of requests of a server.
struct CallOutcomes: Sendable, Equatable {
    var answered = 0
    var refused: [ServingRefusal: Int] = [:]
    /// Requests whose connection ended, or that were cancelled.
    var failed = 0

    var total: Int { answered + refused.values.reduce(failed, +) }

    mutating func note(_ result: Result<Frame, any Error>) {
        guard case .success(let frame) = result else { return failed += 1 }
        let reason = ServingRefusal.allCases.first { $0.status == frame.status }
        if let reason { refused[reason, default: 0] += 1 } else { answered += 1 }
    }
}

/// How many handlers run.
final class Gauge: Sendable {
    private let state = Lock((now: 0, highest: 0, all: 0, cancelled: 0))

    var now: Int { state.withLock { $0.now } }
    var highest: Int { state.withLock { $0.highest } }
    var all: Int { state.withLock { $0.all } }
    var cancelled: Int { state.withLock { $0.cancelled } }

    func within<Value>(_ body: nonisolated(nonsending) () async throws -> Value) async throws -> Value {
        state.withLock { state in
            state.now += 1
            state.all += 1
            state.highest = max(state.highest, state.now)
        }
        defer {
            state.withLock { state in
                state.now -= 1
                if Task.isCancelled { state.cancelled += 1 }
            }
        }
        return try await body()
    }
}

extension Frame {
    /// A request of a server.
    static func call(_ body: Bytes = "", type: UInt32 = 1, serial: SerialNumber = 0) -> Frame {
        Frame(.request, type: type, serial: serial, body: body)
    }

    /// An answer with the body of the request.
    var echoed: Frame { Frame(.response, type: type, body: body) }
}

/// Runs `body` while `client` serves requests with `handler`. Then cancels the serving, and waits until it has ended.
func whileServing(
    _ client: Client,
    _ server: LoopbackServer,
    maximumConcurrent: Int = 64,
    maximumWaiting: Int = 1024,
    pause: @escaping @Sendable () async throws -> Void,
    _ handler: @escaping @Sendable (Frame) async throws -> Frame?,
    _ body: nonisolated(nonsending) () async throws -> Void
) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
            try await client.serve(
                maximumConcurrent: maximumConcurrent,
                maximumWaiting: maximumWaiting,
                handler
            )
        }
        while await client.metrics.serving.maximumConcurrent == 0 { try await pause() }
        try await server.wait(within: patience) { $0.connectionCount > 0 }
        try await body()
        group.cancelAll()
        try await group.waitForAll()
    }
}

extension LoopbackServer {
    /// Sends `count` requests at once and returns what became of them.
    func burst(of count: Int) async -> CallOutcomes {
        await withTaskGroup(of: Result<Frame, any Error>.self) { group in
            for index in 0..<count {
                group.addTask {
                    do {
                        let answer = try await self.request(.call(Bytes("\(index)")))
                        #expect(answer.status != 0 || answer.body == Bytes("\(index)"))
                        return .success(answer)
                    } catch {
                        return .failure(error)
                    }
                }
            }
            var outcomes = CallOutcomes()
            for await result in group { outcomes.note(result) }
            return outcomes
        }
    }
}
