/// A request that was started with a sender other than a client: its own task performs it, on one client after the
/// other if it may be tried elsewhere.
package final class RoutedRequest: RequestProgress {
    private struct State {
        var request: PendingRequest<Response>?
        var task: Task<Void, Never>?
    }

    package typealias Try = @Sendable (Client, Timeout, CallOptions) async throws(ClientError) -> Response

    private let shared = Lock(State())
    /// Cancelled through the task: a client that has the request decides its fate.
    private let result: RequestHandle

    package init(
        _ request: Request,
        on executor: (any TaskExecutor)?,
        performing perform: @escaping @Sendable (Try) async throws(ClientError) -> Response
    ) {
        let shared = shared
        result = RequestHandle(onEnd: nil) { shared.withLock { $0.task }?.cancel() }
        let result = result
        // Ends with the request, which has a deadline or is cancelled, like a request of a client.
        let task = Task(executorPreference: executor) {
            do throws(ClientError) {
                let response = try await perform { client, timeout, options throws(ClientError) in
                    let started = client.start(request, timeout: timeout, options: options)
                    // Released outside the lock: the cause of its error may be an object of the user.
                    let earlier = shared.withLock { exchange(&$0.request, with: started) }
                    withExtendedLifetime(earlier) {}
                    return try await started.value
                }
                result.complete(.success(response))
            } catch {
                result.complete(.failure(error))
            }
        }
        shared.withLock { $0.task = task }
    }

    /// `nil` while no client has the request, because it has failed there and may be tried elsewhere.
    private var latest: PendingRequest<Response>? {
        guard let latest = shared.withLock({ $0.request }) else { return nil }
        let isTried = latest.state == .queued || latest.state == .written
        return isTried || result.state != .queued ? latest : nil
    }

    package var state: RequestState {
        let ended = result.state
        return ended == .queued ? latest?.state ?? .queued : ended
    }

    package var serial: SerialNumber? { latest?.serial }

    package var session: SessionID? { latest?.session }

    package func cancel() { result.cancel() }

    package func outcome() async -> Outcome { await result.outcome() }
}
