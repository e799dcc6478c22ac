@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineTesting

/// A sender that is neither a client nor a cluster: it pauses before it makes a call, whether the call is cancelled
/// meanwhile or not, and makes calls that were not sent with the next client.
///
/// `start`, `stream` and `open` are what every sender has, in virtual time.
struct RoutedSender: RequestSender {
    let clients: [Client]
    let network: SimulatedNetwork
    var pause = Duration.zero
    /// Whether calls that were perhaps sent are made with the next client, too.
    var isIdempotent = false

    private var defaults: ClientOptions.Requests { clients.first?.options.requests ?? ClientOptions.Requests() }

    func perform<Value: Sendable>(
        timeout: Timeout,
        options: CallOptions,
        _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> Value
    ) async throws(ClientError) -> Value {
        let network = network
        let limit = timeout.or(options.timeout).duration(orByDefault: defaults.timeout)
        let deadline = limit.map { network.loop.now.advanced(by: $0) }
        var fate = ClientError.Fate.notSent
        for (index, client) in clients.enumerated() {
            if pause > .zero {
                await Task(executorPreference: network.executor) { [pause] in
                    try? await network.clock.sleep(for: pause)
                }.value
            }
            do throws(ClientError) {
                let left = deadline.map { Timeout.after($0.since(network.loop.now)) } ?? .never
                return try await body(client, left, options)
            } catch {
                let isLast = index == clients.count - 1
                if isLast || error.fate != .notSent && !isIdempotent { throw error.after(fate) }
                fate = error.fate.after(fate)
            }
        }
        throw ClientError(.unavailable, fate, "there is no client")
    }

    func pushes(_ selection: PushSelection, buffering: PushBuffering) -> PushStream {
        clients[0].pushes(selection, buffering: buffering)
    }

    func start(_ request: Request, timeout: Timeout, options: CallOptions) -> PendingRequest<Response> {
        PendingRequest(
            RoutedRequest(request, on: network.executor) { body throws(ClientError) in
                try await perform(timeout: timeout, options: options, body)
            }
        )
    }

    func stream(
        _ request: Request,
        timeout: Timeout,
        partTimeout: Timeout,
        options: CallOptions,
        buffering: ReplyBuffering
    ) -> ReplyStream<Response> {
        routed(RoutedReplies.Call(request, isOpen: false, timeout, partTimeout, options, buffering))
    }

    func open(
        _ request: Request,
        timeout: Timeout,
        partTimeout: Timeout,
        options: CallOptions,
        buffering: ReplyBuffering
    ) -> OpenRequest {
        OpenRequest(routed(RoutedReplies.Call(request, isOpen: true, timeout, partTimeout, options, buffering)))
    }

    private func routed(_ call: RoutedReplies.Call) -> ReplyStream<Response> {
        let timeout = call.timeout(by: defaults)
        let partTimeout = call.partTimeout.duration(orByDefault: defaults.timeout)
        let (loop, executor) = (network.loop, network.executor)
        let replies = RoutedReplies(call, partTimeout, on: loop, executor: executor) { body, _ throws(ClientError) in
            _ = try await perform(timeout: timeout, options: call.options) {
                client,
                timeout,
                options throws(ClientError) in
                try await body(client, timeout, options, nil)
            }
        }
        return ReplyStream(replies)
    }
}
