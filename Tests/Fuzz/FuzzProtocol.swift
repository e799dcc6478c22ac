import Trunkline
import TrunklineTesting

/// The two sides of a codec, with a limit on the size of frames.
struct FuzzProtocol: Sendable {
    let client: any FrameCodec
    let limit: Int
    /// The frames that the client sent before.
    var sent: [Frame] = []
    /// Whether decoded frames can be encoded and decoded again.
    var isReversible = true
    /// The named fields that determine the kind of a frame, so that its encoder may change them.
    var marked: [String] = []
    /// Whether parts end where the bytes were split.
    var joinsParts = false

    init(
        _ client: any FrameCodec,
        limit: Int,
        sent: [Frame] = [],
        isReversible: Bool = true,
        marked: [String] = []
    ) {
        self.client = client
        self.limit = limit
        self.sent = sent
        self.isReversible = isReversible
        self.marked = marked
    }

    init(_ layout: FrameLayout, marked: [String] = []) {
        var layout = layout
        layout.maximumFrameSize = 4096
        self.init(layout, limit: 4096)
        self.marked = marked
    }

    /// Feeds the rest of `input` to one side, at once and in pieces. The outcome must be the same. The decoded frames
    /// are encoded by the other side and decoded again.
    func run(_ input: inout FuzzInput) {
        let server = ProtocolCodec(client).serverSide()
        let (here, there) = input.next() & 1 == 0 ? (client, server) : (server, client)
        let pieces = input.pieces()
        let whole = link(here, [input.bytes])
        let split = link(here, pieces)
        require(whole.frames == split.frames, "different frames when split", whole, split)
        require((whole.refusal == nil) == (split.refusal == nil), "refused only with one of the splits", whole, split)
        guard isReversible else { return }
        for frame in whole.frames where frame.malformedReason == nil {
            // One side may receive frames that the other cannot send.
            guard let bytes = encoded(frame, by: there) else { continue }
            let again = link(here, [bytes[...]], ends: false)
            let isSame = again.frames.map { comparable($0, to: frame) } == [comparable(frame, to: frame)]
            require(isSame, "\(frame) changed when it was encoded and decoded", whole, again)
            require(
                encoded(again.frames[0], by: there) == bytes,
                "\(frame) has different bytes when encoded again",
                whole,
                again
            )
        }
    }

    private func encoded(_ frame: Frame, by codec: any FrameCodec) -> [UInt8]? {
        var (codec, output) = (codec, SendBuffer())
        return (try? codec.encode(frame, into: &output)).map { output.bytes }
    }

    /// `frame` without the values that an encoder may change in `original`: marks, and the type 0 of a frame with its
    /// own role.
    private func comparable(_ frame: Frame, to original: Frame) -> Frame {
        var frame = frame
        for name in marked { frame[name] = nil }
        if original.type == 0, original.kind != .request, original.kind != .response { frame.type = 0 }
        return frame
    }

    private func link(_ codec: any FrameCodec, _ pieces: [ArraySlice<UInt8>], ends: Bool = true) -> ConformanceLink {
        var link = ConformanceLink(LinkCodec(codec), limit: limit, sent: sent, joinsParts: joinsParts)
        for piece in pieces { link.receive(piece) }
        if ends { link.end() }
        if let fault = link.fault { fatalError("\(fault.rule): \(fault.message)") }
        return link
    }

    private func require(
        _ holds: Bool,
        _ what: @autoclosure () -> String,
        _ one: ConformanceLink,
        _ two: ConformanceLink
    ) {
        guard !holds else { return }
        func outcome(_ link: ConformanceLink) -> String { "\(link.frames) \(link.refusal.map { "\($0)" } ?? "")" }
        fatalError("\(what())\n  \(outcome(one))\n  \(outcome(two))")
    }
}
