import Trunkline

/// One check: the findings so far, and what the next steps need.
struct ConformanceRun {
    typealias Side = CodecConformance.Side
    typealias Rule = CodecConformance.Rule

    let kit: CodecConformance
    var report = CodecConformance.Report()
    /// The samples as bytes, with the frames that they decode to.
    var streams: [ConformanceStream] = []
    var random: SeededGenerator

    init(_ kit: CodecConformance) {
        self.kit = kit
        random = SeededGenerator(seed: kit.seed)
    }

    mutating func checkAll() {
        prepare()
        // If copies share state, all other findings are consequences.
        guard checkCopies() else { return }
        checkEncoding()
        checkSplits()
        checkMerges()
        checkLimits()
        checkBodies()
        checkSerials()
        checkHeartbeat()
        checkCancellation()
        checkWindowUpdates()
        checkRefusals()
        checkGarbage()
    }

    // MARK: Findings

    mutating func violate(_ rule: Rule, _ message: String, _ bytes: some Sequence<UInt8> = []) {
        report.add(rule, message, Array(bytes))
    }

    mutating func skip(_ what: String) {
        if !report.unchecked.contains(what) { report.unchecked.append(what) }
    }

    // MARK: Both sides

    /// The rules of the protocol on one side.
    func rules(of side: Side) -> ProtocolCodec { side == .client ? kit.client : kit.server }

    /// The codec of a new link, on one side.
    func codec(of side: Side) -> LinkCodec {
        var codec = LinkCodec(rules(of: side).base)
        if let session = kit.session { codec.setSession(session) }
        return codec
    }

    func streams(to side: Side) -> [ConformanceStream] { streams.filter { $0.receiver == side } }

    /// The codec that sends `sample`, after it has received what `sample` answers; `nil` if it cannot receive that.
    func sender(of sample: CodecConformance.Sample) -> LinkCodec? {
        sender(to: sample.receiver, answering: sample.answered)
    }

    func sender(to receiver: Side, answering requests: [Frame] = []) -> LinkCodec? {
        var (client, server) = (codec(of: .client), codec(of: .server))
        guard receiver == .client else { return client }
        guard let bytes = try? bytes(of: requests, by: &client) else { return nil }
        var input = ReceiveBuffer(bytes)
        var frames: [Frame] = []
        _ = try? server.decodeAll(&input, into: &frames)
        return server
    }

    /// The bytes that `codec` encodes `frames` as.
    func bytes(of frames: [Frame], by codec: inout LinkCodec) throws(FrameError) -> [UInt8] {
        var output = SendBuffer()
        for frame in frames {
            try codec.encode(frame, into: &output)
            codec.noteSent(frame)
        }
        return output.bytes
    }

    /// Announces the next input, in case the codec traps or hangs on it.
    mutating func announce(_ what: @autoclosure () -> String, _ pieces: [ArraySlice<UInt8>], to side: Side) {
        report.inputs += 1
        guard kit.announcesInputs else { return }
        let hexadecimal = pieces.map { $0.map(twoDigits).joined() }.joined(separator: " | ")
        writeToStandardError("\(side) decodes \(what()): \(hexadecimal)\n")
    }

    /// Feeds `pieces` to `side`, each as one read.
    mutating func feed(
        _ pieces: [ArraySlice<UInt8>],
        to side: Side,
        sent: [Frame] = [],
        ends: Bool = false,
        as what: @autoclosure () -> String
    ) -> ConformanceLink {
        announce(what(), pieces, to: side)
        var link = ConformanceLink(codec(of: side), limit: kit.maximumFrameSize, sent: sent, joinsParts: kit.joinsParts)
        for piece in pieces { link.receive(piece) }
        if ends { link.end() }
        return link
    }

    /// Like `feed`, but reports a fault.
    mutating func feedChecked(
        _ pieces: [ArraySlice<UInt8>],
        to side: Side,
        sent: [Frame] = [],
        ends: Bool = false,
        as what: @autoclosure () -> String
    ) -> ConformanceLink {
        let link = feed(pieces, to: side, sent: sent, ends: ends, as: what())
        if let fault = link.fault { violate(fault.rule, "\(what()): \(fault.message)", pieces.joined()) }
        return link
    }
}

/// One sample as the bytes that one side receives, with the frames that they decode to.
struct ConformanceStream {
    let name: String
    let receiver: CodecConformance.Side
    /// What the receiver has sent before.
    let sent: [Frame]
    let bytes: [UInt8]
    let frames: [Frame]
    /// The number of bytes consumed when each of `frames` was complete.
    let ends: [Int]
    /// Whether the end of the connection completes the last frame.
    let endsWithConnection: Bool

    /// Whether other frames can follow.
    var canBeFollowed: Bool { !endsWithConnection && !frames.contains(where: \.endsLink) }

    /// The frames that are complete within the first `count` bytes.
    func frames(within count: Int) -> ArraySlice<Frame> { frames.prefix(ends.count { $0 <= count }) }
}
