/// A request that was started with a sender other than a client: a task of its own performs it, on one client after the
/// other if it may be tried elsewhere.
final class RoutedRequest: RequestProgress {
    private struct State {
        /// The request on the latest client.
        var request: PendingRequest<Response>?
        var task: Task<Void, Never>?
    }

    private let shared = Lock(State())
    /// The outcome of all tries. It is cancelled through the task.
    private let result: RequestHandle

    init(_ sender: some RequestSender, _ request: Request, _ timeout: Timeout, _ options: CallOptions) {
        let shared = shared
        result = RequestHandle(onEnd: nil) { shared.withLock { $0.task }?.cancel() }
        let result = result
        // Ends with the request, which has a deadline or is cancelled, like a request of a client.
        let task = Task(executorPreference: sender.ownLoop?.taskExecutor) {
            do throws(ClientError) {
                let response = try await sender.perform(timeout: timeout, options: options) {
                    client,
                    timeout,
                    options throws(ClientError) in
                    let started = client.start(request, timeout: timeout, options: options)
                    shared.withLock { $0.request = started }
                    return try await started.value
                }
                result.complete(.success(response))
            } catch {
                result.complete(.failure(error))
            }
        }
        shared.withLock { $0.task = task }
    }

    private var latest: PendingRequest<Response>? { shared.withLock { $0.request } }

    var state: RequestState {
        let ended = result.state
        return ended == .queued ? latest?.state ?? .queued : ended
    }

    var serial: SerialNumber? { latest?.serial }

    var session: SessionID? { latest?.session }

    func cancel() { result.cancel() }

    func outcome() async -> Outcome { await result.outcome() }
}
