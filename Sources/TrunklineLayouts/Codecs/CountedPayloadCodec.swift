public import TrunklineCore

/// A codec for frames that begin with a text, called the head. The head says how many bytes of payload follow.
///
/// The head is a line, as in NATS and memcached's text protocol, or a block of header lines, as in the Language Server
/// Protocol. <doc:DescribingYourProtocol#A-head-and-a-counted-payload> has an example.
///
///     head  "\r\n"                                 a line alone
///     head  "\r\n"  payload  "\r\n"                with `payloadEnd: "\r\n"`
///     head  "\r\n\r\n"  payload                    with `headEnd: "\r\n\r\n"`
///
/// ``Frame/head`` holds the head and ``Frame/body`` the payload, both without their terminators. Set both on a request,
/// as in `request.head = "set key 0 0 5"`, or create the head in ``writing(_:)``.
///
/// An invalid head, a head or payload that is too long, and a payload that is not followed by `payloadEnd` end the
/// link, because the start of the next frame is then unknown.
public struct CountedPayloadCodec: FrameCodec {
    /// The payload that a head announces.
    public enum Payload: Sendable, Hashable {
        /// No payload follows, and no `payloadEnd`.
        case absent
        /// A payload of this many bytes follows, and then `payloadEnd`. The number may be 0.
        case bytes(Int)
        /// The head is invalid, for this reason. The reason appears in logs, so it must not contain bytes of the head.
        case malformed(String)

        /// Reads the payload size, a decimal number, from a word of `head`. Words are separated by spaces or tabs.
        ///
        /// - Parameters:
        ///   - index: The index of the word, from 0. A negative index counts from the end: -1 is the last word, as in
        ///     NATS's `MSG`.
        ///   - head: The head of a received frame.
        /// - Returns: The size, or ``malformed(_:)`` if there is no such word, or if it does not consist of 1 to 18
        ///   digits.
        public static func count(inWord index: Int, of head: Bytes) -> Payload {
            head.withSpan { head in
                guard let word = head.word(index) else {
                    let missing = index < 0 ? "\(index.magnitude) from the end" : "\(index.magnitude + 1)"
                    return .malformed("the head has \(head.wordCount) words; word \(missing) is missing")
                }
                return Payload(decimal: head, word, of: "word \(index < 0 ? head.wordCount + index + 1 : index + 1)")
            }
        }

        /// Reads the payload size from the header line `name: number` of `head`, whose lines are separated by CRLF.
        ///
        /// - Parameters:
        ///   - name: The name of the header field. The case of ASCII letters does not matter.
        ///   - head: The head of a received frame.
        /// - Returns: The size, or ``malformed(_:)`` if there is no such line or more than one, or if its value does
        ///   not consist of 1 to 18 digits.
        public static func count(inField name: String, of head: Bytes) -> Payload {
            let bytes = name.utf8.map(\.lowercasedASCII)
            return head.withSpan { head in
                var (found, start): (Payload?, Int) = (nil, 0)
                while start <= head.count {
                    let line = start..<head.endOfLine(from: start)
                    start = line.upperBound + 2
                    guard let value = head.value(ofField: bytes, in: line) else { continue }
                    guard found == nil else { return .malformed("the head has more than one field \(name)") }
                    found = Payload(decimal: head, value, of: "field \(name)")
                }
                return found ?? .malformed("the head has no field \(name)")
            }
        }

        private init(decimal head: Span<UInt8>, _ digits: Range<Int>, of place: @autoclosure () -> String) {
            var count = 0
            for index in digits.prefix(19) {
                let digit = head[index] &- 0x30
                guard digit < 10, digits.count <= 18 else {
                    self = .malformed("\(place()) is not a decimal byte count")
                    return
                }
                count = count * 10 + Int(digit)
            }
            self = digits.isEmpty ? .malformed("\(place()) is not a decimal byte count") : .bytes(count)
        }
    }

    /// How responses are matched with their requests.
    public let matching: ResponseMatching
    /// In bytes, both ends included, in both directions.
    package private(set) var maximumFrameSize: Int
    /// In bytes, `headEnd` included, in both directions.
    let maximumHeadSize: Int

    private let headEnd: Bytes
    private let payloadEnd: Bytes
    private var requestPayload: @Sendable (Bytes) -> Payload
    private let responsePayload: @Sendable (Bytes) -> Payload
    private var reading = FrameReading()
    private var writing: FrameReading.Rule?

    private var searched = 0
    /// The sizes of the incomplete frame at the front of the input, once its head is known.
    private var awaited: (head: Int, payload: Int, total: Int)?

    /// Creates a codec for frames that consist of a head and, if the head says so, a payload. An empty `headEnd` stops
    /// the program.
    ///
    /// - Parameters:
    ///   - headEnd: The terminator of the head, at least one byte: `"\r\n"` for a single line, `"\r\n\r\n"` for header
    ///     lines that end with an empty line.
    ///   - payloadEnd: The terminator of the payload; empty by default.
    ///   - maximumHeadSize: The largest head in bytes, `headEnd` included, in both directions. At least the size
    ///     of `headEnd`, less counts as that. The default is 8,192.
    ///   - maximumFrameSize: The largest whole frame in bytes, both terminators included, in both directions. At least
    ///     `maximumHeadSize`, less counts as that; at most 2⁴⁸. The default is 16 MiB.
    ///   - matching: How responses are matched with their requests; in order by default. If they are matched by serial,
    ///     ``reading(_:)`` must set the serial of received frames, and ``writing(_:)`` must put the serial into sent
    ///     ones.
    ///   - file: The file that the failure message names. The default is the caller's.
    ///   - line: The line that the failure message names. The default is the caller's.
    ///   - payload: Returns what the head of a received frame says about its payload. Called on the event loop for
    ///     every frame, so it must not block.
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
        require(!headEnd.isEmpty, "CountedPayloadCodec: headEnd is empty", file, line)
        self.headEnd = headEnd
        self.payloadEnd = payloadEnd
        self.maximumHeadSize = min(max(maximumHeadSize, headEnd.count), largestSize)
        self.maximumFrameSize = min(max(maximumFrameSize, self.maximumHeadSize), largestSize)
        self.matching = matching
        requestPayload = payload
        responsePayload = payload
    }

    /// Returns a copy of this codec for protocols in which heads of requests differ from those of responses.
    ///
    /// - Parameters:
    ///   - payload: Returns what the head of a request says about its payload.
    ///   - rule: Sets properties of a request that a test server received, for example its serial.
    public func requests(
        payload: @escaping @Sendable (_ head: Bytes) -> Payload,
        reading rule: (@Sendable (inout Frame) -> Void)? = nil
    ) -> CountedPayloadCodec {
        var codec = self
        codec.requestPayload = payload
        codec.reading.requestRule = rule
        return codec
    }

    /// Returns a copy of this codec with heartbeats: frames without a payload whose head is `ping`, answered by frames
    /// whose head is `pong`.
    ///
    /// Both sides may send pings. No other frame may have these heads. A head that cannot be sent stops the program.
    ///
    /// - Parameters:
    ///   - ping: The head of a ping.
    ///   - pong: The head of its answer.
    ///   - file: The file that the failure message names. The default is the caller's.
    ///   - line: The line that the failure message names. The default is the caller's.
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

    /// Returns a copy of this codec in which `rule` sets the kind and other properties of received frames. It replaces
    /// an earlier rule.
    ///
    /// `rule` is called for every frame that the client receives, except heartbeats. At first, the frame is a
    /// `response` and not an error response. The rule may change any property (`kind`, `serial`, `isErrorResponse`,
    /// `status`, `body`) and call ``Frame/markMalformed(_:)`` for an invalid frame. To ignore a frame, set its kind to
    /// `pong`. The rule is called on the event loop, so it must not block.
    ///
    /// A test server also applies the rule to the frames that it sends. It cannot send a frame to which the rule gives
    /// another kind.
    public func reading(_ rule: @escaping @Sendable (inout Frame) -> Void) -> CountedPayloadCodec {
        with(\.reading.rule, rule)
    }

    /// Returns a copy of this codec in which `rule` completes every frame before it is sent. It replaces an earlier
    /// rule.
    ///
    /// The rule sets the head, as in `frame.head = "Content-Length: \(frame.body.count)"`, or adds to it, for example
    /// the serial. It is called for all frames except heartbeats, sent by the client or by a test server. It may be
    /// called more than once for a frame. It is called on the event loop, so it must not block.
    public func writing(_ rule: @escaping @Sendable (inout Frame) -> Void) -> CountedPayloadCodec {
        with(\.writing, rule)
    }

    /// Returns a copy of this codec in which `key` returns the key of a push, for
    /// ``RequestSender/pushes(forKey:buffering:)``.
    /// In NATS, for example, the key is a word of `push.head`. It replaces an earlier closure. For the rules that `key`
    /// must follow, see ``PushKeyCodec/pushKey(of:)``.
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> CountedPayloadCodec {
        with(\.reading.pushKey, key)
    }

    /// Consumes one frame at the front of `input` and returns it, or returns `nil` if it is incomplete.
    ///
    /// - Parameter input: The received bytes that are not decoded yet.
    /// - Throws: An error that ends the link:
    ///   - `illegalLength` if the head does not end within `maximumHeadSize`, and for a frame above `maximumFrameSize`
    ///     as soon as its head has arrived;
    ///   - `malformed` for a head that the closure declares malformed;
    ///   - `unexpectedBytes` if a payload is not followed by `payloadEnd`.
    public mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        // The caller may have switched to another buffer.
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
        guard let body = input.readBytes(payload) else { return nil }
        guard input.consume(payloadEnd) else {
            throw FrameError(.unexpectedBytes, "the payload of \(byteSize(payload)) is not followed by payloadEnd")
        }
        return frame(head, body)
    }

    private mutating func headCount(in input: borrowing ReceiveBuffer) throws(FrameError) -> Int? {
        if let offset = input.firstOffset(of: headEnd, from: searched), offset + headEnd.count <= maximumHeadSize {
            return offset
        }
        guard input.count < maximumHeadSize else {
            throw FrameError(
                exceedingLimit: "the head does not end within \(maximumHeadSize) bytes (maximumHeadSize)"
            )
        }
        searched = max(searched, input.count - headEnd.count + 1)
        return nil
    }

    private func payloadCount(of head: Bytes, isRequest: Bool) throws(FrameError) -> Int? {
        switch isRequest ? requestPayload(head) : responsePayload(head) {
        case .absent: return nil
        case .bytes(let count):
            let most = maximumFrameSize - head.count - headEnd.count - payloadEnd.count
            guard count >= 0 else { throw FrameError(.illegalLength, "invalid payload size \(count)") }
            guard count <= most else {
                throw FrameError(
                    exceedingLimit: "the payload has \(count) bytes: a frame has at most \(maximumFrameSize) bytes"
                        + " (maximumFrameSize)"
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

    /// Appends the head and, if the head says that a payload follows, the body, each with its terminator.
    ///
    /// If `headEnd` is one line end, the head must not contain CR or LF. If it is two line ends, the head may contain
    /// complete line ends between its lines, but no other CR or LF.
    ///
    /// - Parameters:
    ///   - frame: The frame to send.
    ///   - output: The buffer to append to.
    /// - Throws:
    ///   - `illegalLength` for a head above `maximumHeadSize` or a frame above `maximumFrameSize`;
    ///   - `malformed` for a head with a line end that a server could read as the end of the head, for a head that the
    ///     closure declares malformed, for a body whose size differs from what the head says, and for a serial or an
    ///     error response that its receiver would not read as such;
    ///   - `unknownType` for a frame that its receiver would read as another kind of frame, for a ping or pong without
    ///     ``heartbeat(ping:pong:file:line:)``, and for a cancel frame if the codec has neither a rule for
    ///     ``writing(_:)`` nor a rule for reading requests (`requests(payload:reading:)`).
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
            throw FrameError(.malformed, "the body has \(byteSize(body.count)), but its head says \(payload ?? 0)")
        }
        if payload == nil, reading.heartbeatKind(of: head) != nil {
            throw FrameError(.unknownType, "the head is reserved for heartbeats")
        }
        try checkReception(of: frame, as: head, body)
        output.append(head)
        output.append(headEnd)
        guard payload != nil else { return }
        output.append(body)
        output.append(payloadEnd)
    }

    /// A receiver searches from the front and may accept a lone LF or CR as a line end: the terminator must be directly
    /// after `head`.
    private func checkEnd(of head: Bytes) throws(FrameError) {
        guard head.count + headEnd.count <= maximumHeadSize else {
            throw FrameError(
                .illegalLength,
                "the head has \(head.count) bytes; with headEnd it exceeds \(maximumHeadSize) bytes (maximumHeadSize)"
            )
        }
        guard (head + headEnd).firstIndex(of: headEnd) == head.count else {
            throw FrameError(.malformed, "the head contains headEnd")
        }
        guard headEnd.allSatisfy(\.isLineBreak), head.contains(where: \.isLineBreak) else { return }
        let lineEnd = Bytes(headEnd.prefix(headEnd.count / 2))
        let isBlock = ["\r\n", "\n", "\r"].contains(lineEnd) && headEnd == lineEnd + lineEnd
        let lines = isBlock ? head.parts(separatedBy: lineEnd) : [head]
        guard lines[0].first != nil, !lines.contains(where: { $0.contains(where: \.isLineBreak) }) else {
            throw FrameError(.malformed, "the head contains a CR or LF that could be read as its end")
        }
    }

    /// In a protocol matched in order, a frame read as another kind would give every later response to the wrong
    /// request.
    private func checkReception(of frame: Frame, as head: Bytes, _ body: Bytes) throws(FrameError) {
        // On the client side, only cancel frames are checked: a server may handle responses and parts of its clients.
        guard reading.isServerSide || frame.kind == .cancel else { return }
        var received = Frame(reading.isServerSide ? .response : .request, head: head, body: body)
        try reading.checkReception(of: frame, as: &received)
        guard matching.isInOrder || received.serial == frame.serial || frame.kind == .push || frame.kind == .goAway
        else {
            let receiver = reading.receiver
            throw FrameError(.malformed, "the \(receiver) would not read the serial \(frame.serial) from this frame")
        }
    }
}

extension CountedPayloadCodec: NamingCodec, HeartbeatCodec, PushKeyCodec, ServerSideCodec {
    /// Returns the ping that `heartbeat(ping:pong:)` declares, or `nil` if it was not called.
    public func ping(number: UInt64) -> Frame? { reading.heartbeat.map { Frame(.ping, head: $0.ping) } }

    /// Returns the answer that `heartbeat(ping:pong:)` declares, or `nil` if it was not called.
    public func pong(answering ping: Frame) -> Frame? { reading.heartbeat.map { Frame(.pong, head: $0.pong) } }

    /// Whether `heartbeat(ping:pong:)` declares the same text for pings and their answers.
    public var pongsLookLikePings: Bool { reading.heartbeat.map { $0.ping == $0.pong } ?? false }

    /// Returns the key that `keyingPushes(by:)` declares, or `nil` if it was not called.
    public func pushKey(of push: Frame) -> PushKey? { reading.pushKey?(push) }

    /// Returns the server side of the same codec. It decodes requests and encodes responses and pushes.
    public func serverSide() -> any FrameCodec { with(\.reading.isServerSide, true) }

    /// Returns a copy of this codec in which `name` returns the name of a request, for the log and for errors. It
    /// replaces an earlier closure. For the rules that `name` must follow, see ``NamingCodec/name(of:)``.
    public func namingRequests(by name: @escaping @Sendable (Frame) -> String?) -> CountedPayloadCodec {
        with(\.reading.name, name)
    }

    /// Returns the name that ``namingRequests(by:)`` declares, or `nil` if it was not called.
    public func name(of request: Frame) -> String? { reading.name?(request) }

    /// Whether ``namingRequests(by:)`` was called.
    public var namesEachRequest: Bool { reading.name != nil }
}

extension UInt8 {
    fileprivate var isLineBreak: Bool { self == 0x0A || self == 0x0D }
}

extension CountedPayloadCodec: FrameLimitCodec {
    /// Sets `maximumFrameSize`, to at least `maximumHeadSize`.
    public mutating func setMaximumFrameSize(_ size: Int) {
        maximumFrameSize = min(max(size, maximumHeadSize), largestSize)
    }
}

extension Span<UInt8> {
    /// Words are separated by spaces or tabs. A negative `index` counts from the end.
    fileprivate func word(_ index: Int) -> Range<Int>? {
        var left = index
        if index >= 0 {
            var place = 0
            while true {
                while place < count, self[place].isBlank { place += 1 }
                let start = place
                while place < count, !self[place].isBlank { place += 1 }
                if start == place { return nil }
                if left == 0 { return start..<place }
                left -= 1
            }
        }
        var place = count
        while true {
            while place > 0, self[place - 1].isBlank { place -= 1 }
            let end = place
            while place > 0, !self[place - 1].isBlank { place -= 1 }
            if place == end { return nil }
            left += 1
            if left == 0 { return place..<end }
        }
    }

    fileprivate var wordCount: Int {
        var (words, isInWord) = (0, false)
        for index in 0..<count {
            let isBlank = self[index].isBlank
            if !isBlank, !isInWord { words += 1 }
            isInWord = !isBlank
        }
        return words
    }

    fileprivate func endOfLine(from start: Int) -> Int {
        var index = start
        while index + 1 < count {
            if self[index] == 0x0D, self[index + 1] == 0x0A { return index }
            index += 1
        }
        return count
    }

    /// `name` is in lower case; the case of ASCII letters is ignored.
    fileprivate func value(ofField name: [UInt8], in line: Range<Int>) -> Range<Int>? {
        let colon = line.lowerBound + name.count
        guard colon < line.upperBound, self[colon] == UInt8(ascii: ":") else { return nil }
        for offset in 0..<name.count {
            let byte = self[line.lowerBound + offset]
            guard byte != UInt8(ascii: ":"), byte.lowercasedASCII == name[offset] else { return nil }
        }
        var (low, high) = (colon + 1, line.upperBound)
        while low < high, self[low].isBlank { low += 1 }
        while low < high, self[high - 1].isBlank { high -= 1 }
        return low..<high
    }
}

extension UInt8 {
    fileprivate var isBlank: Bool { self == UInt8(ascii: " ") || self == UInt8(ascii: "\t") }
}
