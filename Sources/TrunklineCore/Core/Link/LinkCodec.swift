/// The codec of one link: a copy of the client's codec, with the state of this link.
///
/// A cast to an optional capability copies the codec and may allocate memory. So capabilities that concern every frame
/// are found once. Other copies are kept for the whole batch, until the codec may change.
package struct LinkCodec: Sendable {
    private var codec: any FrameCodec
    private let notesSent: Bool
    let notesEnded: Bool
    let isPipelining: Bool
    private var pipelining: (any PipeliningCodec)?
    private var checking: (any ResponseCheckingCodec)?
    private var channels: ChannelCopy?
    /// Whether they are up to date. To compare them with `nil` would copy them.
    private var (hasPipelining, hasChecking, hasChannels) = (false, false, false)

    package init(_ codec: any FrameCodec) {
        self.codec = codec
        notesSent = codec is any SentFrameCodec
        notesEnded = codec is any EndedRequestCodec
        isPipelining = codec is any PipeliningCodec
    }

    package var base: any FrameCodec {
        get { codec }
        _modify {
            dropCopies()
            yield &codec
        }
    }

    package var matching: ResponseMatching { codec.matching }

    // MARK: For each frame

    package mutating func decodeAll(
        _ input: inout ReceiveBuffer,
        into frames: inout [Frame],
        limit: Int = .max
    ) throws(FrameError) {
        try base._decodeAll(&input, into: &frames, limit: limit)
    }

    package mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        try base.decode(&input)
    }

    package mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try base.encode(frame, into: &output)
    }

    package mutating func noteSent(_ frame: Frame) {
        guard notesSent, var sent = take(as: (any SentFrameCodec).self) else { return }
        sent.noteSent(frame)
        codec = sent
    }

    mutating func noteSent(from queue: OutboundQueue, within length: Int) {
        guard notesSent, var sent = take(as: (any SentFrameCodec).self) else { return }
        queue.forEachStarting(within: length) { sent.noteSent($0) }
        codec = sent
    }

    mutating func noteEnded(_ serials: [SerialNumber]) {
        guard !serials.isEmpty, var ended = take(as: (any EndedRequestCodec).self) else { return }
        for serial in serials { ended.noteEnded(serial) }
        codec = ended
    }

    mutating func mayPipeline(behind request: Frame) -> Bool {
        guard isPipelining else { return true }
        if !hasPipelining { (pipelining, hasPipelining) = (codec as? any PipeliningCodec, true) }
        return pipelining?.mayPipeline(behind: request) ?? true
    }

    /// To be called only if `ProtocolCodec.checksResponses` is true.
    package mutating func check(_ response: Frame, against request: Frame) throws(FrameError) {
        if !hasChecking { (checking, hasChecking) = (codec as? any ResponseCheckingCodec, true) }
        try checking?.check(response, against: request)
    }

    /// To be called only if responses are matched in order by channel.
    package mutating func channel(of frame: Frame) -> UInt64 {
        if !hasChannels { (channels, hasChannels) = (ChannelCopy(codec as? any ChannelCodec), true) }
        return channels?.codec?.channel(of: frame) ?? 0
    }

    // MARK: Rarely

    package func ping(number: UInt64) -> Frame? { (codec as? any HeartbeatCodec)?.ping(number: number) }

    package func pong(answering ping: Frame) -> Frame? { (codec as? any HeartbeatCodec)?.pong(answering: ping) }

    package func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        (codec as? any CancellingCodec)?.cancelFrame(for: serial, type: type)
    }

    package func cancelKind(ofType type: UInt32) -> CancelKind {
        (codec as? any CancellingCodec)?.cancelKind(ofType: type) ?? .answered
    }

    func refusal(of request: Frame, because reason: ServingRefusal) -> Frame? {
        (codec as? any ServingCodec)?.refusal(of: request, because: reason)
    }

    mutating func noteUnanswered(_ request: Frame) {
        guard var serving = take(as: (any ServingCodec).self) else { return }
        serving.noteUnanswered(request)
        codec = serving
    }

    func closingFrame(answering farewell: Frame? = nil) -> Frame? {
        guard let closing = codec as? any ClosingCodec else { return nil }
        return farewell.map { closing.closingFrame(answering: $0) } ?? closing.closingFrame()
    }

    package var closingIsAnswered: Bool { (codec as? any ClosingCodec)?.closingIsAnswered ?? false }

    package func retryAfter(in goAway: Frame) -> Duration? { (codec as? any GoAwayCodec)?.retryAfter(in: goAway) }

    mutating func setDefaults(from frame: Frame) throws(FrameError) {
        guard var fields = take(as: (any FieldDefaultsCodec).self) else {
            throw FrameError(.malformed, "the codec has no named fields")
        }
        defer { codec = fields }
        try fields.setDefaults(from: frame)
    }

    mutating func setMaximumFrameSize(_ size: Int) -> Bool {
        guard var limited = take(as: (any FrameLimitCodec).self) else { return false }
        limited.setMaximumFrameSize(size)
        codec = limited
        return true
    }

    package mutating func useDatagrams() {
        guard var datagrams = take(as: (any DatagramCodec).self) else { return }
        datagrams.useDatagrams()
        codec = datagrams
    }

    package mutating func setSession(_ session: (any Sendable)?) {
        guard var sessional = take(as: (any SessionCodec).self) else { return }
        sessional.setSession(session)
        codec = sessional
    }

    package mutating func decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard var ending = take(as: (any EndOfStreamCodec).self) else { return nil }
        defer { codec = ending }
        return try ending.decodeEnd(&input)
    }

    /// `input` holds what `decodeAll` left.
    package mutating func decodeAllAtEnd(_ input: inout ReceiveBuffer, into frames: inout [Frame]) throws(FrameError) {
        while true {
            let mark = input.position
            guard let frame = try decodeEnd(&input) else { return input.rewind(to: mark) }
            frames.append(frame)
            if input.position == mark { return }
        }
    }

    // MARK: Changing the codec

    /// Takes the codec out, to be changed and put back; `nil` if it is not a `Capability`. If it stayed here, arrays in
    /// it would have two owners, and each change would copy them.
    private mutating func take<Capability>(as capability: Capability.Type) -> Capability? {
        guard let taken = codec as? Capability else { return nil }
        dropCopies()
        codec = NoCodec()
        return taken
    }

    private mutating func dropCopies() {
        if hasPipelining { (pipelining, hasPipelining) = (nil, false) }
        if hasChecking { (checking, hasChecking) = (nil, false) }
        if hasChannels { (channels, hasChannels) = (nil, false) }
    }
}

/// An object, so that links of other protocols have no room for it.
private final class ChannelCopy: Sendable {
    let codec: (any ChannelCodec)?
    init(_ codec: (any ChannelCodec)?) { self.codec = codec }
}

/// Left in a `LinkCodec` while its codec is taken out. Never called.
private struct NoCodec: FrameCodec {
    var matching: ResponseMatching { .inOrder }
    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { nil }
    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {}
}
