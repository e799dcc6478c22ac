/// What the frames of a protocol without type numbers are for, as the user of its codec says.
struct FrameReading: Sendable {
    /// The bodies of heartbeats, in both directions.
    var heartbeat: (ping: Bytes, pong: Bytes)?
    /// The user's say about what a client receives.
    var rule: (@Sendable (inout Frame) -> Void)?
    /// What a push is about.
    var pushKey: (@Sendable (Frame) -> PushKey?)?
    var isServerSide = false

    /// The frame that `body` makes if it is a heartbeat's.
    func heartbeat(of body: Bytes) -> Frame? {
        guard let heartbeat else { return nil }
        if body == heartbeat.ping { return Frame(.ping, body: body) }
        return body == heartbeat.pong ? Frame(.pong, body: body) : nil
    }

    /// Decides what a received frame is for that is no heartbeat.
    func apply(to frame: inout Frame) {
        if isServerSide { frame.kind = .request } else { rule?(&frame) }
    }

    /// The body that is sent for `frame`, which its receiver takes for a `kind` unless the rule says otherwise. Throws for
    /// a frame that would be taken for something else.
    func body(of frame: Frame, takenFor kind: Frame.Kind = .response) throws(FrameError) -> Bytes {
        switch frame.kind {
        case .ping, .pong:
            guard let heartbeat else { throw missing(frame.kind) }
            return frame.kind == .ping ? heartbeat.ping : heartbeat.pong
        case .cancel: throw missing(frame.kind)
        case .request, .response, .part, .push, .goAway: break
        }
        if heartbeat(of: frame.body) != nil {
            throw FrameError(.unknownType, "this body is a heartbeat's")
        }
        if isServerSide { try check(frame, takenFor: kind) }
        return frame.body
    }

    /// Refuses what a server would say and its client not hear: in order, that shifts the responses that follow.
    private func check(_ frame: Frame, takenFor kind: Frame.Kind) throws(FrameError) {
        var received = frame
        received.kind = kind
        received.isErrorResponse = false
        rule?(&received)
        guard received.kind == frame.kind else {
            throw FrameError(.unknownType, "the client takes this \(frame.kind) frame for a \(received.kind)")
        }
        guard received.isErrorResponse || !frame.isErrorResponse else {
            throw FrameError(.malformed, "the client does not take this frame for an error response")
        }
    }

    private func missing(_ kind: Frame.Kind) -> FrameError {
        FrameError(.unknownType, "this codec has no \(kind) frames")
    }
}
