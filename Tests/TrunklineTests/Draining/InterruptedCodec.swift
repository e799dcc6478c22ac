import Trunkline

/// A codec of which something happens while it answers the server: between what was read and what is to be written.
///
/// A server that speaks and vanishes does that: its last words are read, and the write about them finds it gone.
struct InterruptedCodec: FrameCodec, HeartbeatCodec, CancellingCodec, ServerSideCodec {
    var base: any FrameCodec
    /// Called when a pong or a cancellation is made.
    let interrupt: @Sendable () -> Void

    var matching: ResponseMatching { base.matching }
    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }
    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try base.encode(frame, into: &output)
    }
    var pongsLookLikePings: Bool { base._pongsLookLikePings }
    func ping(number: UInt64) -> Frame? { base._ping(number: number) }
    func pong(answering ping: Frame) -> Frame? {
        interrupt()
        return base._pong(answering: ping)
    }
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        interrupt()
        return base._cancelFrame(for: serial, type: type)
    }
    func serverSide() -> any FrameCodec { base._serverSide() }
}
