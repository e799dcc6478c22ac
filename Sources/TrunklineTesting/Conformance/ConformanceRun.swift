import TrunklineCore

/// One check: the findings so far, and what the next steps need.
struct ConformanceRun {
    typealias Side = CodecConformance.Side
    typealias Rule = CodecConformance.Rule

    let kit: CodecConformance
    var report = CodecConformance.Report()
    var streams: [ConformanceStream] = []
    var random: SeededGenerator
    private var prepared: [[CodecConformance.Preamble]: (client: LinkCodec, server: LinkCodec)] = [:]

    init(_ kit: CodecConformance) {
        self.kit = kit
        random = SeededGenerator(seed: kit.seed)
    }

    mutating func checkAll() {
        for (index, sample) in kit.samples.enumerated() { play(sample.preamble, "the preamble of sample \(index + 1)") }
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

    mutating func violate(_ rule: Rule, _ message: String, _ bytes: some Sequence<UInt8> = []) {
        report.add(rule, message, Array(bytes))
    }

    mutating func skip(_ what: String) {
        if !report.unchecked.contains(what) { report.unchecked.append(what) }
    }

    func rules(of side: Side) -> ProtocolCodec { side == .client ? kit.client : kit.server }

    func codec(of side: Side, after preamble: [CodecConformance.Preamble] = []) -> LinkCodec {
        if let both = prepared[preamble] { return side == .client ? both.client : both.server }
        var codec = LinkCodec(rules(of: side).base)
        if let session = kit.session { codec.setSession(session) }
        return codec
    }

    private mutating func play(_ preamble: [CodecConformance.Preamble], _ name: String) {
        guard !preamble.isEmpty, prepared[preamble] == nil else { return }
        var (client, server) = (codec(of: .client), codec(of: .server))
        do throws(FrameError) {
            for step in preamble {
                switch step {
                case .sent(let frame):
                    let bytes = try bytes(of: [frame], by: &client)
                    if kit.hasServerSide { try receive(bytes, by: &server) }
                case .received(let frame): try receive(try bytes(of: [frame], by: &server), by: &client)
                case .receivedBytes(let bytes): try receive(bytes, by: &client)
                }
            }
        } catch {
            violate(.roundTrip, "\(name) cannot be sent and received: \(error)")
        }
        prepared[preamble] = (client, server)
    }

    private func receive(_ bytes: [UInt8], by codec: inout LinkCodec) throws(FrameError) {
        var input = ReceiveBuffer(bytes)
        var frames: [Frame] = []
        try codec.decodeAll(&input, into: &frames)
        if !input.isEmpty { throw FrameError(.malformed, "\(input.count) bytes are left") }
    }

    func streams(to side: Side) -> [ConformanceStream] { streams.filter { $0.receiver == side } }

    func sender(of sample: CodecConformance.Sample) -> LinkCodec? {
        var client = codec(of: .client, after: sample.preamble)
        var server = codec(of: .server, after: sample.preamble)
        guard sample.receiver == .client else { return client }
        guard let bytes = try? bytes(of: sample.answered, by: &client) else { return nil }
        var input = ReceiveBuffer(bytes)
        var frames: [Frame] = []
        _ = try? server.decodeAll(&input, into: &frames)
        return server
    }

    func bytes(of frames: [Frame], by codec: inout LinkCodec) throws(FrameError) -> [UInt8] {
        var output = SendBuffer()
        for frame in frames {
            try codec.encode(frame, into: &output)
            codec.noteSent(frame)
        }
        return output.bytes
    }

    /// In case the codec traps or hangs on the input.
    mutating func announce(_ what: @autoclosure () -> String, _ pieces: [ArraySlice<UInt8>], to side: Side) {
        report.inputs += 1
        guard kit.announcesInputs else { return }
        let hexadecimal = pieces.map { $0.map(twoDigits).joined() }.joined(separator: " | ")
        writeToStandardError("\(side) decodes \(what()): \(hexadecimal)\n")
    }

    /// Each piece is one read. `keepsAll` keeps frames that the kit ignores, because it has sent them itself.
    mutating func feed(
        _ pieces: [ArraySlice<UInt8>],
        to side: Side,
        sent: [Frame] = [],
        after preamble: [CodecConformance.Preamble] = [],
        ends: Bool = false,
        keepsAll: Bool = false,
        as what: @autoclosure () -> String
    ) -> ConformanceLink {
        announce(what(), pieces, to: side)
        let kit = kit
        let isIgnored: @Sendable (Frame) -> Bool = { kit.isIgnored($0) }
        var link = ConformanceLink(
            codec(of: side, after: preamble),
            limit: kit.maximumFrameSize,
            sent: sent,
            joinsParts: kit.joinsParts,
            ignoring: keepsAll ? nil : isIgnored
        )
        for piece in pieces { link.receive(piece) }
        if ends { link.end() }
        return link
    }

    mutating func feedChecked(
        _ pieces: [ArraySlice<UInt8>],
        to side: Side,
        sent: [Frame] = [],
        after preamble: [CodecConformance.Preamble] = [],
        ends: Bool = false,
        keepsAll: Bool = false,
        as what: @autoclosure () -> String
    ) -> ConformanceLink {
        let link = feed(pieces, to: side, sent: sent, after: preamble, ends: ends, keepsAll: keepsAll, as: what())
        if let fault = link.fault { violate(fault.rule, "\(what()): \(fault.message)", pieces.joined()) }
        return link
    }
}

/// One sample as the bytes that one side receives, with the frames that they decode to.
struct ConformanceStream {
    let name: String
    let receiver: CodecConformance.Side
    let sent: [Frame]
    let preamble: [CodecConformance.Preamble]
    let bytes: [UInt8]
    let frames: [Frame]
    let ends: [Int]
    let endsWithConnection: Bool
    let isAlone: Bool

    var canBeFollowed: Bool { !isAlone && !endsWithConnection && !frames.contains(where: \.isFarewell) }

    func frames(within count: Int) -> ArraySlice<Frame> { frames.prefix(ends.count { $0 <= count }) }
}
