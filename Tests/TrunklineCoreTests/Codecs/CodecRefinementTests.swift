import Testing
import Trunkline

@testable import TrunklineCore

/// If a codec conforms to a refinement, its own method is called; otherwise a default applies.
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
        let codec = ProtocolCodec(Plain())
        var link = LinkCodec(codec.base)
        var input = ReceiveBuffer([1, 2, 3])
        let (frame, other) = (Frame(.request, type: 1), Frame(.response, type: 2))

        #expect(codec.mayPost(frame) && codec.mayCache(frame) && !codec.isWindowUpdate(frame))
        #expect(!codec.checksResponses && !codec.pongsLookLikePings && codec.pushKeys == nil)
        #expect(!codec.hasPing && !codec.cancels(1) && codec.serverSide() is Plain)
        #expect(link.ping(number: 1) == nil && link.pong(answering: Frame(.ping)) == nil)
        #expect(link.cancelFrame(for: 1, type: 1) == nil && link.closingFrame() == nil)
        #expect(link.retryAfter(in: frame) == nil)
        let mayPipeline = link.mayPipeline(behind: frame)
        #expect(mayPipeline)
        link.noteSent(frame)
        try link.check(other, against: frame)
        let end = try link.decodeEnd(&input)
        #expect(end == nil && input.count == 3)
        #expect(throws: FrameError.self) { try link.setDefaults(from: frame) }

        var frames: [Frame] = []
        try link.decodeAll(&input, into: &frames, limit: 2)
        #expect(frames.map(\.body) == [[1], [2]] && input.count == 1)
    }

    @Test func aCodecUsesTheRefinementsItConformsTo() throws {
        let codec = ProtocolCodec(Refined())
        var link = LinkCodec(codec.base)
        var input = ReceiveBuffer([1])
        let (frame, other) = (Frame(.request, type: 1), Frame(.response, type: 2))

        #expect(!codec.mayPost(frame) && !codec.mayCache(frame))
        #expect(codec.isWindowUpdate(frame) && !codec.isWindowUpdate(other))
        #expect(codec.checksResponses && !codec.pongsLookLikePings && codec.pushKeys?.pushKey(of: frame) == 1)
        #expect(codec.hasPing && codec.cancels(1) && codec.serverSide() is Plain)
        #expect(link.ping(number: 3) == Frame(.ping, serial: 3))
        #expect(link.pong(answering: Frame(.ping, serial: 4)) == Frame(.pong, serial: 4))
        #expect(link.cancelFrame(for: 5, type: 6) == Frame(.cancel, type: 6, serial: 5))
        #expect(link.closingFrame() == Frame(.request, type: 7))
        #expect(link.retryAfter(in: frame) == .seconds(1))
        let mayPipeline = link.mayPipeline(behind: frame)
        #expect(!mayPipeline)
        link.noteSent(frame)
        #expect(throws: FrameError.self) { try link.check(other, against: frame) }
        let end = try link.decodeEnd(&input)
        #expect(end == Frame(.response) && input.isEmpty)
        var fields = Frame(.request)
        fields["a"] = 1
        try link.setDefaults(from: fields)
        #expect((link.base as? Refined)?.sent == [1] && (link.base as? Refined)?.fields == ["a"])
    }

    /// A layout conforms to most refinements. Its roles determine which of them it uses.
    @Test func aLayoutUsesTheRefinementsOfItsRoles() {
        let codec = ProtocolCodec(
            FrameLayout.standard.roles {
                ($0.ping, $0.cancel) = (1, 2)
                ($0.window, $0.closing) = (3, 4)
            }
        )
        let link = LinkCodec(codec.base)
        #expect(link.ping(number: 0)?.type == 1 && codec.hasPing && codec.pongsLookLikePings)
        #expect(link.cancelFrame(for: 5, type: 9) == Frame(.cancel, type: 2, serial: 5) && codec.cancels(9))
        #expect(codec.isWindowUpdate(Frame(.request, type: 3)) && link.closingFrame()?.type == 4)
        #expect(!codec.checksResponses)
        let checking = ProtocolCodec(FrameLayout.standard.roles { $0.responsesRepeat = [.type] })
        #expect(checking.checksResponses && !checking.hasPing)
    }

    // MARK: The copies that casts make

    /// Allows one request in flight after a frame of type 1 was sent, and only responses of its type.
    fileprivate struct Stateful: FrameCodec, SentFrameCodec, PipeliningCodec, ResponseCheckingCodec, FieldDefaultsCodec,
        EndOfStreamCodec
    {
        final class Storage: Sendable {}

        var storage = Storage()
        var ownersOnChange: [Int] = []
        var latest: UInt32 = 0
        var matching: ResponseMatching { .inOrder }

        private mutating func change(_ type: UInt32) {
            ownersOnChange.append(isKnownUniquelyReferenced(&storage) ? 1 : 2)
            latest = type
        }

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            guard let type = input.readInteger(as: UInt8.self) else { return nil }
            change(UInt32(type))
            return Frame(.response)
        }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) { change(frame.type) }
        mutating func noteSent(_ frame: Frame) { change(frame.type) }
        func mayPipeline(behind request: Frame) -> Bool { latest != 1 }
        func check(_ response: Frame, against request: Frame) throws(FrameError) {
            if response.type != latest { throw FrameError(.responseMismatch, "types") }
        }
        mutating func setDefaults(from frame: Frame) throws(FrameError) {
            change(frame.type)
            if frame.type > 8 { throw FrameError(.malformed, "type") }
        }
        mutating func decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            change(0)
            return nil
        }
    }

    /// Each way to change the codec of a link, to a state in which its latest type is `type`.
    enum Change: CaseIterable {
        case noting, notingQueue, decoding, encoding, setting, failingToSet, ending

        func callAsFunction(_ link: inout LinkCodec) throws {
            switch self {
            case .noting: link.noteSent(Frame(.request, type: 1))
            case .notingQueue:
                var queue = OutboundQueue()
                queue.append(OutboundQueue.Item(Frame(.request, type: 1, body: "a"), id: 1))
                var codec: any FrameCodec = Plain()
                _ = queue.encode(using: &codec)
                link.noteSent(from: queue, within: queue.unwrittenCount)
            case .decoding:
                var (input, frames) = (ReceiveBuffer([1]), [Frame]())
                try link.decodeAll(&input, into: &frames)
            case .encoding:
                var output = SendBuffer()
                try link.encode(Frame(.request, type: 1), into: &output)
            case .setting: try link.setDefaults(from: Frame(.request, type: 1))
            case .failingToSet:
                #expect(throws: FrameError.self) { try link.setDefaults(from: Frame(.request, type: 9)) }
                link.noteSent(Frame(.request, type: 1))
            case .ending:
                var input = ReceiveBuffer()
                #expect(try link.decodeEnd(&input) == nil)
                link.noteSent(Frame(.request, type: 1))
            }
        }
    }

    /// Otherwise the codec would be asked in a state that it no longer has.
    @Test(arguments: Change.allCases)
    func aQuestionIsAnsweredInThePresentState(after change: Change) throws {
        var link = LinkCodec(Stateful())
        let request = Frame(.request)
        let before = link.mayPipeline(behind: request)
        try link.check(Frame(.response, type: 0), against: request)
        try change(&link)
        let after = link.mayPipeline(behind: request)
        #expect(before && !after)
        try link.check(Frame(.response, type: 1), against: request)
        #expect(throws: FrameError.self) { try link.check(Frame(.response, type: 0), against: request) }
    }

    /// Otherwise each change would copy the arrays of the codec.
    @Test(arguments: Change.allCases)
    func theCodecOwnsItsStateAloneWhileItChanges(in change: Change) throws {
        var link = LinkCodec(Stateful())
        for _ in 0..<2 {
            _ = link.mayPipeline(behind: Frame(.request))
            try? link.check(Frame(.response), against: Frame(.request))
            try change(&link)
        }
        let owners = try #require(link.base as? Stateful).ownersOnChange
        #expect(!owners.isEmpty && owners.allSatisfy { $0 == 1 })
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
