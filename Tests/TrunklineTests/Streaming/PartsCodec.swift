import Testing
import Trunkline
import TrunklineTesting

/// A layout in which the top bit of a response's type marks a part: more of the reply follows.
struct PartsCodec: FrameCodec, HeartbeatCodec, CancellingCodec, ServerSideCodec {
    private static let more: UInt32 = 0x8000_0000

    var base: any FrameCodec = FrameLayout.standard
    var matching: ResponseMatching { base.matching }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard var frame = try base.decode(&input) else { return nil }
        if frame.kind == .response, frame.type & Self.more != 0 {
            frame.kind = .part
            frame.type ^= Self.more
        }
        // A push of type 3 is a goAway.
        if frame.kind == .push, frame.type == 3 { frame.kind = .goAway }
        if frame.body == "garbled" { frame.markMalformed(.malformed) }
        return frame
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        var frame = frame
        if frame.kind == .part {
            frame.kind = .response
            frame.type |= Self.more
        }
        try base.encode(frame, into: &output)
    }

    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        LinkCodec(base).cancelFrame(for: serial, type: type)
    }
    func ping(number: UInt64) -> Frame? { LinkCodec(base).ping(number: number) }
    func pong(answering ping: Frame) -> Frame? { LinkCodec(base).pong(answering: ping) }
    var pongsLookLikePings: Bool { ProtocolCodec(base).pongsLookLikePings }
    func serverSide() -> any FrameCodec { PartsCodec(base: ProtocolCodec(base).serverSide()) }

    /// Matched by serial.
    static let standard = PartsCodec()
    /// Matched in order.
    static let inOrder = PartsCodec(
        base: FrameLayout {
            Field.type(UInt32.self)
            Field.status(UInt16.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        .roles {
            $0.ping = 1
            $0.pong = 4
            $0.push = .types(2...3)
        }
    )
    /// With a status and a content type.
    static let rich = PartsCodec(
        base: FrameLayout {
            Field.type(UInt32.self)
            Field.serial(UInt32.self)
            Field.status(UInt16.self)
            Field.integer("contentType", UInt32.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        .roles {
            $0.ping = 1
            $0.push = .types(2...3)
            $0.cancel = 5
            $0.serials = 50...
        }
    )
    static let bothMatchings = [standard, inOrder]
}

extension PartsCodec: CustomTestStringConvertible {
    var testDescription: String { matching == .inOrder ? "in order" : "by serial" }
}

/// The elements of `stream` until its end or failure, as text: bodies, those of parts with a "+", and the code and
/// fate of a failure.
func words(of stream: ReplyStream<Response>) async -> [String] {
    var words: [String] = []
    do throws(ClientError) {
        for try await frame in stream {
            words.append(frame.isPart ? "+" + String(frame.body) : String(frame.body))
        }
    } catch {
        words.append("\(error.code) \(error.fate)")
    }
    return words
}

/// The numbers below `count`, as bodies.
func numbers(_ count: Int) -> [Bytes] { (0..<count).map { Bytes("\($0)") } }

/// The rich layout. The status tells whether a part belongs to an error response.
struct RejectingCodec: FrameCodec, CancellingCodec, ServerSideCodec {
    var base: any FrameCodec = PartsCodec.rich
    var matching: ResponseMatching { base.matching }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard var frame = try base.decode(&input) else { return nil }
        if frame.status >= 400 { frame.isErrorResponse = true }
        return frame
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try base.encode(frame, into: &output)
    }

    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        LinkCodec(base).cancelFrame(for: serial, type: type)
    }
    func serverSide() -> any FrameCodec { ProtocolCodec(base).serverSide() }
}
