/// A request that passes interceptors, or whose timeline is recorded, while its caller waits for its end.
package final class InterceptedRequest {
    /// How the request ends if it is not to be sent. Its interceptors have not seen this end yet.
    let ending: Outcome?
    let frame: Frame
    let options: ResolvedOptions
    private let call: InterceptedCall?
    private let recorder: TimelineRecorder?
    private let callersRecorder: TimelineRecorder?
    private let loop: any EventLoop

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

    init(failing error: ClientError, _ frame: Frame, on loop: any EventLoop) {
        ending = .failure(error)
        self.frame = frame
        options = ResolvedOptions(accepted: loop.now)
        (call, recorder, callersRecorder) = (nil, nil, nil)
        self.loop = loop
    }

    /// The interceptors may replace the outcome. Called once, in the task of the caller.
    func end(_ outcome: inout Outcome) {
        var timeline = recorder?.timelines.last
        timeline?.noteResumption(at: loop.now)
        if let timeline { callersRecorder?.add(timeline) }
        if let call { outcome = call.end(outcome, timeline) }
    }
}
