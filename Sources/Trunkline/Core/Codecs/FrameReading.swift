/// What the frames of a protocol without type numbers are for, as the user of its codec says.
struct FrameReading: Sendable {
    /// The user's say about a received frame.
    typealias Rule = @Sendable (inout Frame) -> Void

    /// What heartbeats consist of, in both directions.
    var heartbeat: (ping: Bytes, pong: Bytes)?
    /// About what a client receives.
    var rule: Rule?
    /// About what a test server receives.
    var requestRule: Rule?
    /// What a push is about.
    var pushKey: (@Sendable (Frame) -> PushKey?)?
    var isServerSide = false

    /// What the receiver of sent frames makes of them.
    var outboundRule: Rule? { isServerSide ? rule : requestRule }

    /// The kind of heartbeat that consists of `text`, if it is one.
    func heartbeatKind(of text: Bytes) -> Frame.Kind? {
        guard let heartbeat else { return nil }
        if text == heartbeat.ping { return .ping }
        return text == heartbeat.pong ? .pong : nil
    }

    /// What a heartbeat to be sent consists of; `nil` for other frames. Throws where the codec has no heartbeats.
    func heartbeatText(of frame: Frame) throws(FrameError) -> Bytes? {
        guard frame.kind == .ping || frame.kind == .pong else { return nil }
        guard let heartbeat else { throw missing(frame.kind) }
        return frame.kind == .ping ? heartbeat.ping : heartbeat.pong
    }

    /// Decides what a received frame is for that is no heartbeat.
    func apply(to frame: inout Frame) {
        if isServerSide { frame.kind = .request }
        (isServerSide ? requestRule : rule)?(&frame)
    }

    /// The body that is sent for `frame`, which its receiver takes for a `kind` unless the rule says otherwise. Throws for
    /// a frame that would be taken for something else.
    func body(of frame: Frame, takenFor kind: Frame.Kind = .response) throws(FrameError) -> Bytes {
        if let text = try heartbeatText(of: frame) { return text }
        if frame.kind == .cancel { throw missing(.cancel) }
        if heartbeatKind(of: frame.body) != nil { throw FrameError(.unknownType, "this body is a heartbeat's") }
        if isServerSide {
            var received = frame
            received.kind = kind
            received.isErrorResponse = false
            try checkReception(of: frame, as: &received)
        }
        return frame.body
    }

    /// Has the receiver's rule look at `received`, and refuses what the receiver would take for something else: in order,
    /// that shifts the responses that follow.
    func checkReception(of frame: Frame, as received: inout Frame) throws(FrameError) {
        outboundRule?(&received)
        guard received.kind == frame.kind else {
            throw FrameError(.unknownType, "the \(receiver) takes this \(frame.kind) frame for a \(received.kind)")
        }
        guard received.isErrorResponse || !frame.isErrorResponse else {
            throw FrameError(.malformed, "the \(receiver) does not take this frame for an error response")
        }
    }

    /// Who receives the frames that are sent.
    var receiver: String { isServerSide ? "client" : "server" }

    func missing(_ kind: Frame.Kind) -> FrameError {
        FrameError(.unknownType, "this codec has no \(kind) frames")
    }
}
