/// Cancelling an abandoned request by `options.requests.cancelling`. What cancels usually names the link, not the
/// request, so no later request may be on the link when it arrives: the link is held until the closure has returned.
extension LinkRequests {
    /// A storm of cancellations must not open a connection for each.
    private static let maximumCancellations = 64

    /// `nil` if the closure must not run.
    func cancellable(_ id: RequestID, _ place: PlaceOnLink, on link: Link, isTimeout: Bool) -> AbandonedRequest? {
        guard options.requests.cancelling != nil, cancellations.count < Self.maximumCancellations,
            let (frame, serial) = link.state.machine.cancellable(id, at: place)
        else { return nil }
        return AbandonedRequest(
            request: Request(frame),
            id: id,
            serial: serial,
            endpoint: link.endpoint,
            address: link.path.remote?.description,
            session: link.session,
            isTimedOut: isTimeout,
            info: link.serverInfo
        )
    }

    func beginCancelling(_ request: AbandonedRequest, on link: Link) {
        guard let cancelling = options.requests.cancelling else { return }
        link.state.machine.beginCancelling()
        let run = CancellationRun(request, of: host, timeout: options.requests.cancellingTimeout, cancelling)
        cancellations = cancellations + [run]
        run.begin()
    }

    /// A closure that has failed may still cancel at any time: nothing more is sent on the link.
    fileprivate func cancellingEnded(_ run: CancellationRun, _ failure: String?) {
        cancellations = cancellations.filter { $0 !== run }
        guard let link = links[run.session] else { return }
        link.state.machine.endCancelling(hasFailed: failure != nil, at: loop.now)
        // If links have been replaced often, this one is held until its turn comes: see `look`.
        if let failure, link === ready,
            let departure = judge.replacement.look(.unanswered, isWaiting: true, at: loop.now)
        {
            host.leaveEndpoint(because: departure, failure)
            judge.linkIsReplaced(at: loop.now, options.reconnecting.policy ?? NoRetries())
        }
        if port.isWaiting { port.append(.room) }
    }

    func stopCancelling() {
        for run in cancellations { run.stop() }
        cancellations = []
    }
}

/// One call of `options.requests.cancelling`. Unchecked Sendable: accessed only on the connection's loop.
final class CancellationRun: TimerTarget, @unchecked Sendable {
    let session: SessionID
    private let request: AbandonedRequest
    private weak let reference: DriverReference?
    private let loop: any EventLoop
    private let timeout: Duration
    private let cancelling: @Sendable (AbandonedRequest) async throws -> Void
    private lazy var timer = LoopTimer(target: self)
    private var task: Task<Void, Never>?

    init(
        _ request: AbandonedRequest,
        of driver: ConnectionDriver,
        timeout: Duration,
        _ cancelling: @escaping @Sendable (AbandonedRequest) async throws -> Void
    ) {
        (self.request, session) = (request, request.session)
        reference = driver.reference
        (loop, self.timeout, self.cancelling) = (driver.loop, timeout, cancelling)
    }

    func begin() {
        loop.arm(timer, at: loop.now.advanced(by: max(.zero, timeout)))
        // Unstructured: it begins on the loop, which cannot await it, and the caller of the request has its error
        // already. It is cancelled at its timeout and when the connection closes, and keeps only this object alive.
        task = Task(executorPreference: loop.callbackExecutor) { [loop, request, cancelling] in
            var failure: String?
            do {
                try await cancelling(request)
            } catch {
                failure = "requests.cancelling has failed: \(String(describing: error).asMessage)"
            }
            loop.schedule(LoopClosure { [failure] in self.end(failure) })
        }
    }

    func stop() {
        task.take()?.cancel()
        loop.arm(timer, at: nil)
    }

    func timerFired() {
        end("requests.cancelling did not return within \(timeout.text) (requests.cancellingTimeout)")
    }

    private func end(_ failure: String?) {
        guard task != nil else { return }
        stop()
        reference?.driver.entered { $0.requests.cancellingEnded(self, failure) }
    }
}
