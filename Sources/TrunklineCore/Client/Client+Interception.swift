/// Calls that pass interceptors, or whose timeline is recorded: in the caller's task.
extension Client {
    private nonisolated func intercept(
        _ form: ClientCall.Form,
        _ frame: Frame,
        _ options: ResolvedOptions
    ) -> InterceptedCall {
        let timeLeft = options.deadline.map { $0.since(options.accepted) }
        let call = ClientCall(form: form, request: Request(frame), timeLeft: timeLeft, codec: codec)
        return InterceptedCall(call, by: self.options.interceptors)
    }

    /// Not inlined, so that its variables are not in the async frame of each `send`.
    @inline(never)
    nonisolated func interceptedRequest(
        _ form: ClientCall.Form,
        _ request: Request,
        _ timeout: Timeout,
        _ options: CallOptions
    ) -> InterceptedRequest {
        do throws(ClientError) {
            let options = try resolved(options, timeout)
            if Task.isCancelled { throw .cancelledUnsent }
            return interceptedRequest(form, request.frame, options)
        } catch {
            return InterceptedRequest(failing: error, request.frame, on: loop)
        }
    }

    private nonisolated func interceptedRequest(
        _ form: ClientCall.Form,
        _ frame: Frame,
        _ options: ResolvedOptions
    ) -> InterceptedRequest {
        let call = intercept(form, frame, options)
        return InterceptedRequest(call, options, refusal: refusal(of: call.frame, options), loop)
    }

    nonisolated func interceptedOutcome(
        _ form: ClientCall.Form,
        of frame: Frame,
        _ options: ResolvedOptions,
        sendingWith send: nonisolated(nonsending) (Frame, ResolvedOptions) async -> Outcome
    ) async -> Outcome {
        let request = interceptedRequest(form, frame, options)
        var outcome = if let ending = request.ending { ending } else { await send(request.frame, request.options) }
        request.end(&outcome)
        return outcome
    }

    nonisolated func interceptedOutcomes(
        _ form: ClientCall.Form,
        of requests: [Request],
        _ options: ResolvedOptions
    ) async -> [Outcome] {
        let calls = requests.map { intercept(form, $0.frame, options) }
        var outcomes = calls.map { call in call.ending ?? refusal(of: call.frame, options).map { .failure($0) } }
        let sent = outcomes.indices.filter { outcomes[$0] == nil }
        var timelines: [Int: Timeline] = [:]
        if options.recorder != nil || calls.contains(where: \.recordsTimeline) {
            let recorder = TimelineRecorder(capacity: max(1, sent.count))
            var recorded = options
            recorded.recorder = recorder
            let (first, ended) = await plainOutcomes(of: sent.map { Request(calls[$0].frame) }, recorded)
            let now = loop.now
            for (index, outcome) in zip(sent, ended) { outcomes[index] = outcome }
            for var timeline in recorder.timelines {
                guard let first else { break }
                timeline.noteResumption(at: now)
                options.recorder?.add(timeline)
                timelines[sent[first.distance(to: timeline.id)]] = timeline
            }
        } else {
            let (_, ended) = await plainOutcomes(of: sent.map { Request(calls[$0].frame) }, options)
            for (index, outcome) in zip(sent, ended) { outcomes[index] = outcome }
        }
        return calls.indices.map { calls[$0].end(outcomes[$0] ?? .failure(.cancelledUnsent), timelines[$0]) }
    }

    /// A call whose task does not wait for its end, after the interceptors.
    enum PassedCall {
        case ended(Outcome)
        /// The closure must be called once with the outcome, which it may replace.
        case sends(Frame, ResolvedOptions, (@Sendable (Outcome) -> Outcome)?)
    }

    nonisolated func passInterceptors(
        _ form: ClientCall.Form,
        _ frame: Frame,
        _ options: ResolvedOptions
    ) -> PassedCall {
        guard isIntercepted else { return .sends(frame, options, nil) }
        let call = intercept(form, frame, options)
        if let ending = call.ending { return .ended(call.end(ending)) }
        if let refusal = refusal(of: call.frame, options) { return .ended(call.end(.failure(refusal))) }
        guard call.recordsTimeline else { return .sends(call.frame, options) { call.end($0) } }
        let recorder = TimelineRecorder(capacity: 1, forwardingTo: options.recorder)
        var recorded = options
        recorded.recorder = recorder
        return .sends(call.frame, recorded) { call.end($0, recorder.timelines.last) }
    }

    private nonisolated func refusal(of frame: Frame, _ options: ResolvedOptions) -> ClientError? {
        guard !options.expectsResponse, frame.kind != .response, !codec.mayPost(frame) else { return nil }
        return .answeredWhenPosted
    }
}
