/// A request that passes interceptors, or whose timeline is recorded, while its caller waits for its end.
package final class InterceptedRequest {
    /// How the request ends if it is not to be sent. Its interceptors have not seen this end yet.
    let ending: Outcome?
    /// The frame to send.
    let frame: Frame
    /// The options to send it with.
    let options: ResolvedOptions
    /// `nil` if the request has not reached the interceptors.
    private let call: InterceptedCall?
    /// Receives the timeline of the request; `nil` if neither an interceptor nor the caller asks for it.
    private let recorder: TimelineRecorder?
    /// Receives the timeline afterwards.
    private let callersRecorder: TimelineRecorder?
    private let loop: any EventLoop

    /// Creates a request that has passed the interceptors.
    ///
    /// - Parameter refusal: Why it must not be sent.
    init(_ call: InterceptedCall, _ options: ResolvedOptions, refusal: ClientError?, _ loop: any EventLoop) {
        ending = call.ending ?? refusal.map { .failure($0) }
        recorder = call.recordsTimeline || options.recorder != nil ? TimelineRecorder(capacity: 1) : nil
        callersRecorder = options.recorder
        frame = call.frame
        var options = options
        options.recorder = recorder
        self.options = options
        self.call = call
        self.loop = loop
    }

    /// Creates a request that fails before it reaches the interceptors.
    init(failing error: ClientError, _ frame: Frame, on loop: any EventLoop) {
        ending = .failure(error)
        self.frame = frame
        options = ResolvedOptions(accepted: loop.now)
        (call, recorder, callersRecorder) = (nil, nil, nil)
        self.loop = loop
    }

    /// Shows the outcome to the interceptors, which may replace it. Called once, in the task of the caller.
    func end(_ outcome: inout Outcome) {
        var timeline = recorder?.timelines.last
        timeline?.noteResumption(at: loop.now)
        if let timeline { callersRecorder?.add(timeline) }
        if let call { outcome = call.end(outcome, timeline) }
    }
}
