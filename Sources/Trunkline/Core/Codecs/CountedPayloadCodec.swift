/// Frames that begin with text which says how many bytes follow: a line and a counted payload, as in NATS and memcached's
/// text protocol, or header lines, an empty line and a payload, as in the Language Server Protocol.
///
///     head  "\r\n"                                 a line alone
///     head  "\r\n"  payload  "\r\n"                with `payloadEnd: "\r\n"`
///     head  "\r\n\r\n"  payload                    with `headEnd: "\r\n\r\n"`
///
/// ```swift
/// let memcached = CountedPayloadCodec(payloadEnd: "\r\n") { head in
///     head.hasPrefix("VALUE ") ? .count(inWord: 3, of: head) : .absent
/// }
/// .requests { head in head.hasPrefix("set ") ? .count(inWord: 4, of: head) : .absent }
/// .reading { frame in
///     if frame.head.hasPrefix("VALUE ") { frame.kind = .part }
///     if frame.head.hasSuffix("ERROR") { frame.isErrorResponse = true }
/// }
/// ```
///
/// The text is `frame.head`, without what ends it; the payload is `frame.body`, without what ends it. Set both on a request:
/// `request.head = "set key 0 0 5"`, or have `writing(_:)` make the head.
///
/// A head that is malformed or too long, and a payload that is too long or has no end where it should, end the link: where the
/// next frame begins is not known then.
public struct CountedPayloadCodec: FrameCodec {
    /// What a head says about the payload behind it.
    public enum Payload: Sendable, Hashable {
        /// No payload follows, and nothing that ends one.
        case absent
        /// A payload of so many bytes, perhaps 0, and then what ends it.
        case bytes(Int)
        /// The head cannot be that of a frame, for this reason. Leave bytes of the head out of it.
        case malformed(String)

        /// The decimal number in a word of `head`; words are separated by spaces or tabs.
        ///
        /// `malformed` when there is no such word, or it is anything but 1 to 18 digits.
        ///
        /// - Parameter index: 0 for the first word; -1 for the last one, as in NATS's `MSG`.
        public static func count(inWord index: Int, of head: Bytes) -> Payload {
            let words = head.split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
            let number = index < 0 ? words.count + index : index
            guard words.indices.contains(number) else {
                let missing = index < 0 ? "\(-index) from the end" : "\(index + 1)"
                return .malformed("the head has \(words.count) words, word \(missing) is missing")
            }
            return Payload(decimal: words[number], of: "word \(number + 1)")
        }

        /// The decimal number in the header line `name: number` of `head`, whose lines are separated by CRLF. The case of
        /// ASCII letters in `name` does not matter.
        ///
        /// `malformed` when there is no such line or more than one, or its value is anything but 1 to 18 digits.
        public static func count(inField name: String, of head: Bytes) -> Payload {
            var found: Payload?
            for line in head.parts(separatedBy: "\r\n") {
                guard let colon = line.firstIndex(of: UInt8(ascii: ":")),
                    line[..<colon].elementsEqual(name.utf8, by: { $0.lowercasedASCII == $1.lowercasedASCII })
                else { continue }
                guard found == nil else { return .malformed("the head has more than one field \(name)") }
                let isBlank: (UInt8) -> Bool = { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
                var value = line[(colon + 1)...].drop(while: isBlank)
                while let last = value.last, isBlank(last) { value = value.dropLast() }
                found = Payload(decimal: value, of: "field \(name)")
            }
            return found ?? .malformed("the head has no field \(name)")
        }

        private init(decimal digits: Slice<Bytes>, of place: String) {
            guard (1...18).contains(digits.count), digits.allSatisfy({ (0x30...0x39).contains($0) }) else {
                self = .malformed("\(place) is not a decimal byte count")
                return
            }
            self = .bytes(digits.reduce(0) { $0 * 10 + Int($1 - 0x30) })
        }
    }

    /// How responses find their requests.
    public let matching: ResponseMatching
    /// The largest whole frame in bytes, both ends included, both ways.
    package let maximumFrameSize: Int
    /// The largest head in bytes with what ends it, both ways.
    package let maximumHeadSize: Int

    private let headEnd: Bytes
    private let payloadEnd: Bytes
    /// What the heads of requests, and of all that comes back, say about their payloads.
    private var requestPayload: @Sendable (Bytes) -> Payload
    private let responsePayload: @Sendable (Bytes) -> Payload
    private var reading = FrameReading()
    private var writing: FrameReading.Rule?

    // MARK: Of the frame at the front of the input

    /// No end of the head begins before here.
    private var searched = 0
    /// The sizes of an incomplete frame whose head is known.
    private var awaited: (head: Int, payload: Int, total: Int)?

    /// Frames of a head and, if it says so, a payload.
    ///
    /// - Parameters:
    ///   - headEnd: One byte or more behind the head: `"\r\n"` for a line, `"\r\n\r\n"` for lines up to an empty one.
    ///   - payloadEnd: What stands behind a payload; nothing unless given.
    ///   - maximumHeadSize: The largest head in bytes with what ends it, both ways.
    ///   - maximumFrameSize: The largest whole frame in bytes, both ways.
    ///   - matching: How responses find their requests; in order unless given. By serial, `reading(_:)` has to set the
    ///     serial of responses and `writing(_:)` to put that of requests where it belongs.
    ///   - file, line: Named when the program is stopped for arguments that make no codec.
    ///   - payload: What the head of a received frame says about its payload. Called on the client's loop, for each
    ///     frame: it must not block.
    public init(
        headEnd: Bytes = "\r\n",
        payloadEnd: Bytes = "",
        maximumHeadSize: Int = 8192,
        maximumFrameSize: Int = 16 * 1024 * 1024,
        matching: ResponseMatching = .inOrder,
        file: StaticString = #fileID,
        line: UInt = #line,
        payload: @escaping @Sendable (_ head: Bytes) -> Payload
    ) {
        func demand(_ condition: Bool, _ mistake: String) {
            require(condition, "CountedPayloadCodec: \(mistake)", file, line)
        }
        let (head, frame) = ("maximumHeadSize \(maximumHeadSize)", "maximumFrameSize \(maximumFrameSize)")
        demand(!headEnd.isEmpty, "nothing ends the head")
        demand(maximumHeadSize >= headEnd.count, "\(head) leaves no room for the end of the head")
        demand(maximumFrameSize >= maximumHeadSize, "\(frame) is below \(head)")
        self.headEnd = headEnd
        self.payloadEnd = payloadEnd
        self.maximumHeadSize = maximumHeadSize
        self.maximumFrameSize = min(maximumFrameSize, 1 << 48)  // far beyond any memory, and no sum overflows
        self.matching = matching
        requestPayload = payload
        responsePayload = payload
    }

    /// The same where the heads of requests are not those of responses: what they say about their payloads, and what a test
    /// server makes of them, which receives them as requests.
    public func requests(
        payload: @escaping @Sendable (_ head: Bytes) -> Payload,
        reading rule: (@Sendable (inout Frame) -> Void)? = nil
    ) -> CountedPayloadCodec {
        var codec = self
        codec.requestPayload = payload
        codec.reading.requestRule = rule
        return codec
    }

    /// The same with heartbeats: a client sends a frame without payload whose head is `ping`, which the server answers with
    /// the head `pong`, or the other way round. No other frame may have these heads. Heads that cannot be sent stop the
    /// program.
    public func heartbeat(
        ping: Bytes,
        pong: Bytes,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> CountedPayloadCodec {
        do throws(FrameError) {
            for text in [ping, pong] { try checkEnd(of: text) }
        } catch {
            fatalError("CountedPayloadCodec: a heartbeat cannot be sent: \(error)", file: file, line: line)
        }
        return with(\.reading.heartbeat, (ping, pong))
    }

    /// Returns a codec that passes every received frame except heartbeats to `rule`, in place of an earlier rule.
    ///
    /// `rule` gets it as a `response` that is not an error response and may change everything about it: `kind`,
    /// `serial`, `isErrorResponse`, `status`, `body`; or call `markMalformed(_:)` for one that is not acceptable. A frame that
    /// is to be ignored is a `pong`. Called on the client's loop: it must not block.
    ///
    /// A test server asks it whether the client would take a frame for what it is meant to be, and sends none that it would
    /// not.
    public func reading(_ rule: @escaping @Sendable (inout Frame) -> Void) -> CountedPayloadCodec {
        with(\.reading.rule, rule)
    }

    /// The same with a say about every frame that is sent, by either side, and that is no heartbeat; in place of an earlier
    /// one. `rule` makes or completes `head` (`"Content-Length: \(frame.body.count)"`) and puts the serial where it belongs.
    /// It may be called more than once for a frame, on the client's loop.
    public func writing(_ rule: @escaping @Sendable (inout Frame) -> Void) -> CountedPayloadCodec {
        with(\.writing, rule)
    }

    /// Returns a codec in which `key` says what a push is about (`Client.pushes(forKey:buffering:)`), in place of an earlier one: for
    /// NATS a word of `push.head`.
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> CountedPayloadCodec {
        with(\.reading.pushKey, key)
    }

    // MARK: Bytes in

    /// Takes one frame from the front of `input`; `nil` when it is not complete.
    ///
    /// Throws `illegalLength` for a head without an end within `maximumHeadSize`, and as soon as its head is there for a frame
    /// above `maximumFrameSize`; `malformed` for a head that the closure says is; and `unexpectedBytes` when a payload is not
    /// followed by what ends it.
    public mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        // In case somebody has changed buffers.
        if searched > input.count || awaited.map({ $0.head > input.count }) == true { (searched, awaited) = (0, nil) }
        if let awaited, input.count < awaited.total {
            input.await(awaited.total)
            return nil
        }
        let head: Bytes
        let payload: Int?
        if let awaited {
            guard let known = input.readBytes(awaited.head) else { return nil }
            (head, payload) = (known, awaited.payload)
        } else {
            guard let headCount = try headCount(in: input), let found = input.readBytes(headCount) else { return nil }
            (head, payload) = (found, try payloadCount(of: found, isRequest: reading.isServerSide))
        }
        input.skip(headEnd.count)
        if let payload {
            let total = head.count + headEnd.count + payload + payloadEnd.count
            guard input.count >= payload + payloadEnd.count else {
                awaited = (head.count, payload, total)
                input.await(total)
                return nil
            }
        }
        (searched, awaited) = (0, nil)
        guard let payload else {
            if let kind = reading.heartbeatKind(of: head) { return Frame(kind, head: head) }
            return frame(head, Bytes())
        }
        guard let body = input.readBytes(payload), let end = input.readBytes(payloadEnd.count) else { return nil }
        guard end == payloadEnd else {
            throw FrameError(.unexpectedBytes, "the payload of \(payload) bytes is not followed by its end")
        }
        return frame(head, body)
    }

    /// The size of the head at the front of `input`; `nil` when its end is not there yet.
    private mutating func headCount(in input: borrowing ReceiveBuffer) throws(FrameError) -> Int? {
        if let offset = input.firstOffset(of: headEnd, from: searched), offset + headEnd.count <= maximumHeadSize {
            return offset
        }
        guard input.count < maximumHeadSize else {
            throw FrameError(.illegalLength, "the head does not end within \(maximumHeadSize) bytes (maximumHeadSize)")
        }
        searched = max(searched, input.count - headEnd.count + 1)
        return nil
    }

    /// The size of the payload behind `head`; `nil` for none.
    private func payloadCount(of head: Bytes, isRequest: Bool) throws(FrameError) -> Int? {
        switch isRequest ? requestPayload(head) : responsePayload(head) {
        case .absent: return nil
        case .bytes(let count):
            let most = maximumFrameSize - head.count - headEnd.count - payloadEnd.count
            guard count >= 0, count <= most else {
                throw FrameError(
                    .illegalLength,
                    "a payload of \(count) bytes; a frame may have \(maximumFrameSize) bytes (maximumFrameSize)"
                )
            }
            return count
        case .malformed(let reason): throw FrameError(.malformed, reason)
        }
    }

    private func frame(_ head: Bytes, _ body: Bytes) -> Frame {
        var frame = Frame(.response, head: head, body: body)
        reading.apply(to: &frame)
        return frame
    }

    // MARK: Bytes out

    /// Appends the head, and the body where the head says that a payload follows, each with its end.
    ///
    /// Throws `illegalLength` for a frame that is too long; `malformed` for a head with a line end that could be taken for its
    /// own end, that the closure calls malformed, or that says another size than the body's; and `unknownType` for a frame
    /// that its receiver would take for something else, for a ping without `heartbeat` and for a cancellation.
    ///
    /// Many servers end a line at a lone LF or CR, whatever their protocol says. So, where `headEnd` is a line end, a head has
    /// neither; where it is two of them, it has whole line ends between its lines and no others.
    public mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        if let head = try reading.heartbeatText(of: frame) {
            output.append(head)
            return output.append(headEnd)
        }
        if frame.kind == .cancel, reading.outboundRule == nil, writing == nil { throw reading.missing(.cancel) }
        var sent = frame
        writing?(&sent)
        let (head, body) = (sent.head, sent.body)
        try checkEnd(of: head)
        let payload = try payloadCount(of: head, isRequest: !reading.isServerSide)
        guard payload ?? 0 == body.count else {
            throw FrameError(.malformed, "the body has \(body.count) bytes, its head says \(payload ?? 0)")
        }
        if payload == nil, reading.heartbeatKind(of: head) != nil {
            throw FrameError(.unknownType, "this head is a heartbeat's")
        }
        try checkReception(of: frame, as: head, body)
        output.append(head)
        output.append(headEnd)
        guard payload != nil else { return }
        output.append(body)
        output.append(payloadEnd)
    }

    /// Checks that a receiver that looks for the end from the front, and takes a lone LF or CR for a line end, finds the end
    /// right behind `head`.
    private func checkEnd(of head: Bytes) throws(FrameError) {
        guard head.count + headEnd.count <= maximumHeadSize else {
            throw FrameError(
                .illegalLength,
                "the head has \(head.count) bytes, with its end more than \(maximumHeadSize) (maximumHeadSize)"
            )
        }
        guard (head + headEnd).firstIndex(of: headEnd) == head.count else {
            throw FrameError(.malformed, "the head contains what ends it")
        }
        guard headEnd.allSatisfy(\.isLineBreak), head.contains(where: \.isLineBreak) else { return }
        let lineEnd = Bytes(headEnd.prefix(headEnd.count / 2))
        let isBlock = ["\r\n", "\n", "\r"].contains(lineEnd) && headEnd == lineEnd + lineEnd
        let lines = isBlock ? head.parts(separatedBy: lineEnd) : [head]
        guard lines[0].first != nil, !lines.contains(where: { $0.contains(where: \.isLineBreak) }) else {
            throw FrameError(.malformed, "the head contains a CR or LF that could be taken for its end")
        }
    }

    /// Refuses what the other side would take for something else: in order, that shifts the responses that follow.
    private func checkReception(of frame: Frame, as head: Bytes, _ body: Bytes) throws(FrameError) {
        // A client's responses and parts are for servers that take them for such.
        guard reading.isServerSide || frame.kind == .cancel else { return }
        var received = Frame(reading.isServerSide ? .response : .request, head: head, body: body)
        try reading.checkReception(of: frame, as: &received)
        guard matching == .inOrder || received.serial == frame.serial || frame.kind == .push || frame.kind == .goAway
        else {
            let receiver = reading.receiver
            throw FrameError(.malformed, "the \(receiver) does not find the serial \(frame.serial) in this frame")
        }
    }
}

// What the library asks of `HeartbeatCodec`, `PushKeyCodec` and `ServerSideCodec`, answered as `FrameCodec` wants it: only
// who wraps a codec would call those.
// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension CountedPayloadCodec {
    public func _ping(number: UInt64) -> Frame? { reading.heartbeat.map { Frame(.ping, head: $0.ping) } }
    public func _pong(answering ping: Frame) -> Frame? { reading.heartbeat.map { Frame(.pong, head: $0.pong) } }
    public var _pongsLookLikePings: Bool { reading.heartbeat.map { $0.ping == $0.pong } ?? false }
    public func _pushKey(of push: Frame) -> PushKey? { reading.pushKey?(push) }
    public func _serverSide() -> any FrameCodec { with(\.reading.isServerSide, true) }
}

extension Frame {
    /// The text before the payload, in protocols of a `CountedPayloadCodec`, without what ends it; empty where there is none.
    public var head: Bytes {
        get { self[bytes: "head"] ?? Bytes() }
        set { self[bytes: "head"] = newValue.isEmpty ? nil : newValue }
    }

    /// Makes a frame with `head` before its payload, `body`.
    public init(
        _ kind: Kind,
        serial: SerialNumber = 0,
        isErrorResponse: Bool = false,
        head: Bytes,
        body: Bytes = Bytes()
    ) {
        self.init(kind, serial: serial, isErrorResponse: isErrorResponse, body: body)
        self.head = head
    }
}

extension UInt8 {
    fileprivate var isLineBreak: Bool { self == 0x0A || self == 0x0D }
    fileprivate var lowercasedASCII: UInt8 { (0x41...0x5A).contains(self) ? self | 0x20 : self }
}
