import Trunkline
import TrunklineTesting

/// A codec and the other side of it, under a limit.
struct FuzzProtocol: Sendable {
    let client: any FrameCodec
    let limit: Int
    /// What the client has sent before.
    var sent: [Frame] = []
    /// Whether what was decoded can be encoded and decoded again.
    var isReversible = true
    /// Whether parts end where the bytes were cut.
    var joinsParts = false

    init(_ client: any FrameCodec, limit: Int, sent: [Frame] = [], isReversible: Bool = true) {
        self.client = client
        self.limit = limit
        self.sent = sent
        self.isReversible = isReversible
    }

    init(_ layout: FrameLayout) {
        var layout = layout
        layout.maximumFrameSize = 4096
        self.init(layout, limit: 4096)
    }

    /// Feeds the rest of `input` to one side, at once and in pieces: the outcome is the same. What was decoded is encoded by
    /// the other side and decoded once more.
    func run(_ input: inout FuzzInput) {
        let (here, there) = input.next() & 1 == 0 ? (client, client.serverSide()) : (client.serverSide(), client)
        let pieces = input.pieces()
        let whole = link(here, [input.bytes])
        let split = link(here, pieces)
        require(whole.frames == split.frames, "other frames when split", whole, split)
        require((whole.refusal == nil) == (split.refusal == nil), "refused or not, as it is split", whole, split)
        guard isReversible else { return }
        for frame in whole.frames where frame.damage == nil {
            var (encoder, output) = (there, SendBuffer())
            // What one side may receive the other need not be able to send.
            guard (try? encoder.encode(frame, into: &output)) != nil else { continue }
            let again = link(here, [output.bytes[...]], ends: false)
            require(again.frames == [frame], "\(frame) is another when it was encoded and decoded", whole, again)
        }
    }

    private func link(_ codec: any FrameCodec, _ pieces: [ArraySlice<UInt8>], ends: Bool = true) -> ConformanceLink {
        var link = ConformanceLink(codec, limit: limit, sent: sent, joinsParts: joinsParts)
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
