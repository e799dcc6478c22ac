import Trunkline

/// A codec that calls a closure when it makes an answer to the server: after reading and before writing.
///
/// This reproduces a server that sends data and then resets the link: the data is read, and the write of
/// the answer fails.
struct InterruptedCodec: FrameCodec, HeartbeatCodec, CancellingCodec, ServerSideCodec {
    var base: any FrameCodec
    /// Called when a pong or a cancel frame is made.
    let interrupt: @Sendable () -> Void

    var matching: ResponseMatching { base.matching }
    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }
    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try base.encode(frame, into: &output)
    }
    var pongsLookLikePings: Bool { ProtocolCodec(base).pongsLookLikePings }
    func ping(number: UInt64) -> Frame? { LinkCodec(base).ping(number: number) }
    func pong(answering ping: Frame) -> Frame? {
        interrupt()
        return LinkCodec(base).pong(answering: ping)
    }
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        interrupt()
        return LinkCodec(base).cancelFrame(for: serial, type: type)
    }
    func serverSide() -> any FrameCodec { ProtocolCodec(base).serverSide() }
}
