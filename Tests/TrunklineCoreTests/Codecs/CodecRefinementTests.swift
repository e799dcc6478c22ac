import Testing
import Trunkline

/// The library uses every codec as `any FrameCodec`. If the codec conforms to a refinement, its own method is called;
/// otherwise the default applies.
struct CodecRefinementTests {
    /// A codec without refinements.
    fileprivate struct Plain: FrameCodec {
        var matching: ResponseMatching { .inOrder }
        func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            input.readBytes(1).map { Frame(.response, body: $0) }
        }
        func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) { output.append(frame.body) }
    }

    /// A codec with all refinements: some declared here, some in extensions, two with default implementations.
    fileprivate struct Refined: HeartbeatCodec, ResponseCheckingCodec {
        var matching: ResponseMatching { .inOrder }
        var sent: [UInt32] = []
        var fields: [String] = []

        func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { nil }
        func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {}
        func ping(number: UInt64) -> Frame? { Frame(.ping, serial: number) }
        func pong(answering ping: Frame) -> Frame? { Frame(.pong, serial: ping.serial) }
        func check(_ response: Frame, against request: Frame) throws(FrameError) {
            if response.type != request.type { throw FrameError(.responseMismatch, "types") }
        }
    }

    @Test func aCodecWithoutRefinementsHasTheDefaults() throws {
        var codec: any FrameCodec = Plain()
        var input = ReceiveBuffer([1, 2, 3])
        let (frame, other) = (Frame(.request, type: 1), Frame(.response, type: 2))

        #expect(
            codec._ping(number: 1) == nil && codec._pong(answering: Frame(.ping)) == nil && !codec._pongsLookLikePings
        )
        #expect(codec._cancelFrame(for: 1, type: 1) == nil && codec._closingFrame() == nil)
        #expect(
            codec._pushKey(of: frame) == nil && codec._retryAfter(in: frame) == nil && !codec._isWindowUpdate(frame)
        )
        #expect(codec._mayPipeline(behind: frame) && codec._mayPost(frame) && codec._mayCache(frame))
        #expect(!codec._notesSent && !codec._checksResponses && codec._serverSide() is Plain)
        codec._noteSent(frame)
        try codec._check(other, against: frame)
        #expect(try codec._decodeEnd(&input) == nil && input.count == 3)
        #expect(throws: FrameError.self) { try codec._setDefaults(from: frame) }

        var frames: [Frame] = []
        try codec._decodeAll(&input, into: &frames, limit: 2)
        #expect(frames.map(\.body) == [[1], [2]] && input.count == 1)
    }

    @Test func aCodecUsesTheRefinementsItConformsTo() throws {
        var codec: any FrameCodec = Refined()
        var input = ReceiveBuffer([1])
        let (frame, other) = (Frame(.request, type: 1), Frame(.response, type: 2))

        #expect(codec._ping(number: 3) == Frame(.ping, serial: 3))
        #expect(
            codec._pong(answering: Frame(.ping, serial: 4)) == Frame(.pong, serial: 4) && !codec._pongsLookLikePings
        )
        #expect(codec._cancelFrame(for: 5, type: 6) == Frame(.cancel, type: 6, serial: 5))
        #expect(codec._closingFrame() == Frame(.request, type: 7))
        #expect(codec._pushKey(of: frame) == 1 && codec._retryAfter(in: frame) == .seconds(1))
        #expect(codec._isWindowUpdate(frame) && !codec._isWindowUpdate(other))
        #expect(!codec._mayPipeline(behind: frame) && !codec._mayPost(frame) && !codec._mayCache(frame))
        #expect(codec._notesSent && codec._checksResponses && codec._serverSide() is Plain)
        codec._noteSent(frame)
        #expect(throws: FrameError.self) { try codec._check(other, against: frame) }
        #expect(try codec._decodeEnd(&input) == Frame(.response) && input.isEmpty)
        var fields = Frame(.request)
        fields["a"] = 1
        try codec._setDefaults(from: fields)
        #expect((codec as? Refined)?.sent == [1] && (codec as? Refined)?.fields == ["a"])
    }

    /// A layout conforms to all refinements. Its roles determine which of them it uses.
    @Test func aLayoutUsesTheRefinementsOfItsRoles() {
        let codec: any FrameCodec = FrameLayout.standard.roles {
            $0.ping = 1
            $0.cancel = 2
            $0.window = 3
            $0.closing = 4
        }
        #expect(codec._ping(number: 0)?.type == 1 && codec._pongsLookLikePings)
        #expect(codec._cancelFrame(for: 5, type: 9) == Frame(.cancel, type: 2, serial: 5))
        #expect(codec._isWindowUpdate(Frame(.request, type: 3)) && codec._closingFrame()?.type == 4)
        #expect(!codec._checksResponses)
        let checking: any FrameCodec = FrameLayout.standard.roles { $0.responsesRepeat = [.type] }
        #expect(checking._checksResponses && checking._ping(number: 0) == nil)
    }
}

extension CodecRefinementTests.Refined: CancellingCodec, ClosingCodec, PushKeyCodec, GoAwayCodec, WindowedCodec {
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { Frame(.cancel, type: type, serial: serial) }
    func closingFrame() -> Frame? { Frame(.request, type: 7) }
    func pushKey(of push: Frame) -> PushKey? { .number(UInt64(push.type)) }
    func retryAfter(in goAway: Frame) -> Duration? { .seconds(Int(goAway.type)) }
    func isWindowUpdate(_ frame: Frame) -> Bool { frame.type == 1 }
}

extension CodecRefinementTests.Refined: PipeliningCodec, PostingCodec, CachingCodec, SentFrameCodec, EndOfStreamCodec {
    func mayPipeline(behind request: Frame) -> Bool { false }
    func mayPost(_ message: Frame) -> Bool { false }
    func mayCache(_ response: Frame) -> Bool { false }
    mutating func noteSent(_ frame: Frame) { sent.append(frame.type) }
    func decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        input.skip(input.count) ? Frame(.response) : nil
    }
}

extension CodecRefinementTests.Refined: FieldDefaultsCodec, ServerSideCodec {
    mutating func setDefaults(from frame: Frame) throws(FrameError) { fields = frame["a"] == nil ? [] : ["a"] }
    func serverSide() -> any FrameCodec { CodecRefinementTests.Plain() }
}
