@testable import TrunklineCore
@testable import TrunklineTesting

/// A sender that answers late, fails, or goes on after it was cancelled. It says when each request was handed to it: the
/// response to the request is "name number", and the number is its place among all requests.
struct LateSender: RequestSender {
    /// What becomes of a request.
    struct Plan: Sendable {
        var time: Duration
        /// How long it goes on after a cancellation.
        var grace = Duration.zero
        var error: ClientError?
    }

    /// A request from its beginning to its end.
    struct Record: Sendable {
        let name: String
        let begun: Instant
        var ended: Instant?
    }

    let client: Client
    let loop: any EventLoop
    let records = Lock<[Record]>([])
    /// Decides what becomes of a request.
    let plan: @Sendable (Request) -> Plan

    init(_ client: Client, in network: SimulatedNetwork, _ plan: @escaping @Sendable (Request) -> Plan) {
        (self.client, self.plan, loop) = (client, plan, network.loop)
    }

    func send(
        _ request: Request,
        timeout: Timeout,
        options: CallOptions
    ) async throws(ClientError) -> Response {
        if Task.isCancelled { throw .cancelledUnsent }
        let (begun, name, plan) = (loop.now, String(request.body), plan(request))
        let number = records.withLock { records in
            records.append(Record(name: name, begun: begun))
            return records.count
        }
        defer { records.withLock { $0[number - 1].ended = loop.now } }
        await loop.sleep(until: begun.advanced(by: plan.time))
        if Task.isCancelled {
            let end = loop.now.advanced(by: plan.grace)
            await Task(executorPreference: loop.taskExecutor) { await loop.sleep(until: end) }.value
            throw ClientError(.cancelled, .unknown, "cancelled")
        }
        if let error = plan.error { throw error }
        return Response(body: Bytes("\(name) \(number)"))
    }

    func perform<Value: Sendable>(
        timeout: Timeout,
        options: CallOptions,
        _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> Value
    ) async throws(ClientError) -> Value {
        try await body(client, timeout, options)
    }

    func pushes(_ selection: PushSelection, buffering: PushBuffering) -> PushStream {
        client.pushes(selection, buffering: buffering)
    }
}
