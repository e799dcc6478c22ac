import TrunklineCore

/// How a codec without type numbers decides what a frame is for, as its user has configured it.
struct FrameReading: Sendable {
    /// A closure of the user that completes a received frame.
    typealias Rule = @Sendable (inout Frame) -> Void

    /// The texts of heartbeats, in both directions.
    var heartbeat: (ping: Bytes, pong: Bytes)?
    /// Applied to frames that a client receives.
    var rule: Rule?
    /// Applied to frames that a test server receives.
    var requestRule: Rule?
    /// Returns the key of a push.
    var pushKey: (@Sendable (Frame) -> PushKey?)?
    /// Returns the name of a request, for texts.
    var name: (@Sendable (Frame) -> String?)?
    var isServerSide = false

    /// The rule that the receiver of sent frames applies.
    var outboundRule: Rule? { isServerSide ? rule : requestRule }

    /// Returns the kind of the heartbeat with this text, or `nil` if it is not one.
    func heartbeatKind(of text: Bytes) -> Frame.Kind? {
        guard let heartbeat else { return nil }
        if text == heartbeat.ping { return .ping }
        return text == heartbeat.pong ? .pong : nil
    }

    /// Returns the text of a heartbeat to be sent, or `nil` for another frame. Throws if the codec has no heartbeats.
    func heartbeatText(of frame: Frame) throws(FrameError) -> Bytes? {
        guard frame.kind == .ping || frame.kind == .pong else { return nil }
        guard let heartbeat else { throw missing(frame.kind) }
        return frame.kind == .ping ? heartbeat.ping : heartbeat.pong
    }

    /// Decides what a received frame, which is not a heartbeat, is for.
    func apply(to frame: inout Frame) {
        if isServerSide { frame.kind = .request }
        (isServerSide ? requestRule : rule)?(&frame)
    }

    /// Returns the body to send for `frame`, which its receiver reads as a `kind` unless the rule decides otherwise.
    /// Throws for a frame that its receiver would read as another kind of frame.
    func body(of frame: Frame, takenFor kind: Frame.Kind = .response) throws(FrameError) -> Bytes {
        if let text = try heartbeatText(of: frame) { return text }
        if frame.kind == .cancel { throw missing(.cancel) }
        if heartbeatKind(of: frame.body) != nil {
            throw FrameError(.unknownType, "the body is reserved for heartbeats")
        }
        if isServerSide {
            var received = frame
            received.kind = kind
            received.isErrorResponse = false
            try checkReception(of: frame, as: &received)
        }
        return frame.body
    }

    /// Applies the receiver's rule to `received` and throws if the receiver would read the frame as another kind of
    /// frame. In a protocol matched in order, every later response would go to the wrong request.
    func checkReception(of frame: Frame, as received: inout Frame) throws(FrameError) {
        outboundRule?(&received)
        guard received.kind == frame.kind else {
            throw FrameError(.unknownType, "the \(receiver) would read this \(frame.kind) frame as a \(received.kind)")
        }
        guard received.isErrorResponse || !frame.isErrorResponse else {
            throw FrameError(.malformed, "the \(receiver) would not read this frame as an error response")
        }
    }

    /// The side that receives the frames that this codec sends.
    var receiver: String { isServerSide ? "client" : "server" }

    func missing(_ kind: Frame.Kind) -> FrameError {
        FrameError(.unknownType, "this codec has no \(kind) frames")
    }
}
