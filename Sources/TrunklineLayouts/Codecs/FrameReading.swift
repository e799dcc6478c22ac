import TrunklineCore

/// How a codec without type numbers decides what a frame is for, as its user has configured it.
struct FrameReading: Sendable {
    typealias Rule = @Sendable (inout Frame) -> Void

    var heartbeat: (ping: Bytes, pong: Bytes)?
    var rule: Rule?
    var requestRule: Rule?
    var pushKey: (@Sendable (Frame) -> PushKey?)?
    var name: (@Sendable (Frame) -> String?)?
    var isServerSide = false

    var outboundRule: Rule? { isServerSide ? rule : requestRule }

    func heartbeatKind(of text: Bytes) -> Frame.Kind? {
        guard let heartbeat else { return nil }
        if text == heartbeat.ping { return .ping }
        return text == heartbeat.pong ? .pong : nil
    }

    func heartbeatText(of frame: Frame) throws(FrameError) -> Bytes? {
        guard frame.kind == .ping || frame.kind == .pong else { return nil }
        guard let heartbeat else { throw missing(frame.kind) }
        return frame.kind == .ping ? heartbeat.ping : heartbeat.pong
    }

    func apply(to frame: inout Frame) {
        if isServerSide { frame.kind = .request }
        (isServerSide ? requestRule : rule)?(&frame)
    }

    /// The receiver reads the body as a `kind` unless its rule decides otherwise.
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

    /// In a protocol matched in order, a frame read as another kind would give every later response to the wrong
    /// request.
    func checkReception(of frame: Frame, as received: inout Frame) throws(FrameError) {
        outboundRule?(&received)
        guard received.kind == frame.kind else {
            throw FrameError(.unknownType, "the \(receiver) would read this \(frame.kind) frame as a \(received.kind)")
        }
        guard received.isErrorResponse || !frame.isErrorResponse else {
            throw FrameError(.malformed, "the \(receiver) would not read this frame as an error response")
        }
    }

    var receiver: String { isServerSide ? "client" : "server" }

    func missing(_ kind: Frame.Kind) -> FrameError {
        FrameError(.unknownType, "this codec has no \(kind) frames")
    }
}
