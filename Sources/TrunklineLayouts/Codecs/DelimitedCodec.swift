public import TrunklineCore

/// A codec for frames that end with a delimiter of one or more bytes, such as lines of text. Responses are matched in
/// order. <doc:DescribingYourProtocol#Frames-that-end-with-a-delimiter> has an example.
///
///     body  delimiter
///     body  delimiter  body  delimiter        with `parts: 2`: a header, a separator and a body
///
/// The body of a frame with several parts holds everything except the last delimiter, in both directions.
/// `frame.body.parts(separatedBy: "\r\n")` splits it.
///
/// Encoding rejects a body that contains the whole delimiter, but not a body that contains a part of it: with `"\r\n"`,
/// a lone LF or CR is sent as it is. Many servers end a line there, so remove both from text that does not come from
/// your own code.
///
/// A received frame that is too long does not end the link. It is delivered with the ``Frame/malformedReason``
/// `illegalLength` and the beginning of its body, up to the maximum size of a body. The rest, up to the last delimiter
/// of the frame, is discarded as it arrives.
public struct DelimitedCodec: FrameCodec {
    /// In bytes, delimiters included, in both directions.
    private(set) var maximumFrameSize: Int

    private let delimiter: Bytes
    private let parts: Int
    private var reading = FrameReading()
    /// The lengths at which a prefix of the delimiter is also a suffix of it. If a body ends with the bytes of the
    /// delimiter that precede such a suffix, the receiver would find a delimiter that begins within the body.
    private let overlaps: [Int]

    private var searched = 0
    private var found = 0
    /// The number of delimiters still to be skipped of a frame that was too long.
    private var passing = 0

    /// Creates a codec for frames that end with `delimiter`, or that consist of several parts with a delimiter after
    /// each. An empty delimiter stops the program.
    ///
    /// - Parameters:
    ///   - delimiter: The bytes after each part, at least one byte, such as `"\n"`, `"\r\n"` or `[0xFF]`. The codec
    ///     searches for it from the beginning of each frame.
    ///   - parts: The number of parts in a frame, each followed by a delimiter; at least 1, less counts as 1. The
    ///     default is 1.
    ///   - maximumFrameSize: The largest whole frame in bytes, delimiters included, in both directions. At least the
    ///     size of the delimiters, less counts as that. The default is 8,192. An incomplete frame is kept in memory up
    ///     to this size.
    ///   - file: The file that the failure message names. The default is the caller's.
    ///   - line: The line that the failure message names. The default is the caller's.
    public init(
        delimiter: Bytes,
        parts: Int = 1,
        maximumFrameSize: Int = 8192,
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        require(!delimiter.isEmpty, "DelimitedCodec: the delimiter is empty", file, line)
        self.delimiter = delimiter
        self.parts = max(1, parts)
        self.maximumFrameSize = 0
        overlaps = (1..<delimiter.count).filter { Bytes(delimiter.suffix($0)) == Bytes(delimiter.prefix($0)) }
        setMaximumFrameSize(maximumFrameSize)
    }

    package init(
        delimiter: UInt8,
        parts: Int = 1,
        maximumFrameSize: Int = 8192,
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        self.init(delimiter: [delimiter], parts: parts, maximumFrameSize: maximumFrameSize, file: file, line: line)
    }

    /// Returns a copy of this codec with heartbeats: frames with the body `ping`, answered by frames with the body
    /// `pong`.
    ///
    /// Both sides may send pings. No other frame may have these bodies. A body that cannot be sent, for example because
    /// it contains the delimiter, stops the program.
    ///
    /// - Parameters:
    ///   - ping: The body of a ping.
    ///   - pong: The body of its answer.
    ///   - file: The file that the failure message names. The default is the caller's.
    ///   - line: The line that the failure message names. The default is the caller's.
    public func heartbeat(
        ping: Bytes,
        pong: Bytes,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> DelimitedCodec {
        do throws(FrameError) {
            for text in [ping, pong] { try check(text) }
        } catch {
            fatalError("DelimitedCodec: a heartbeat cannot be sent: \(error)", file: file, line: line)
        }
        return with(\.reading.heartbeat, (ping, pong))
    }

    /// Returns a copy of this codec in which `rule` sets the kind and other properties of received frames. It replaces
    /// an earlier rule.
    ///
    /// `rule` is called for every frame that the client receives, except heartbeats. At first, the frame is a
    /// `response` and not an error response. The rule may change any property (`kind`, `isErrorResponse`, `status`,
    /// `type`) and call ``Frame/markMalformed(_:)`` for an invalid frame. To ignore a frame, set its kind to `ignored`.
    /// The rule also receives frames that are too long; they stay malformed. It is called on the event loop, so it must
    /// not block.
    ///
    /// A test server also applies the rule to the frames that it sends. It cannot send a frame to which the rule gives
    /// another kind.
    public func reading(_ rule: @escaping @Sendable (inout Frame) -> Void) -> DelimitedCodec {
        with(\.reading.rule, rule)
    }

    /// Always ``ResponseMatching/inOrder``: frames have no serial number.
    public var matching: ResponseMatching { .inOrder }

    /// Returns a copy of this codec in which `key` returns the key of a push, for
    /// ``RequestSender/pushes(forKey:buffering:)``.
    /// It replaces an earlier closure. For the rules that `key` must follow, see ``PushKeyCodec/pushKey(of:)``.
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> DelimitedCodec {
        with(\.reading.pushKey, key)
    }

    /// Consumes one frame at the front of `input` and returns it, or returns `nil` if its last delimiter has not
    /// arrived. Never throws.
    public mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard passRest(in: &input) else { return nil }
        // The caller may have switched to another buffer.
        if searched > input.count { (searched, found) = (0, 0) }
        while let offset = input.firstOffset(of: delimiter, from: searched) {
            let end = offset + delimiter.count
            guard end <= maximumFrameSize else { break }
            searched = end
            found += 1
            if found == parts {
                (searched, found) = (0, 0)
                guard let body = input.readBytes(offset) else { return nil }
                input.skip(delimiter.count)
                if let kind = reading.heartbeatKind(of: body) { return Frame(kind, body: body) }
                return frame(body)
            }
        }
        guard input.count >= maximumFrameSize else {
            searched = max(searched, input.count - delimiter.count + 1)
            return nil
        }
        return endlessFrame(in: &input)
    }

    private mutating func endlessFrame(in input: inout ReceiveBuffer) -> Frame? {
        let limit = maximumFrameSize - delimiter.count
        guard let body = input.readBytes(limit) else { return nil }
        // Skip a delimiter that was found but ends after `limit`. Skip at least one byte: `limit` may be 0, and a
        // returned frame must consume something.
        input.skip(max(1, searched - limit))
        passing = parts - found
        (searched, found) = (0, 0)
        return frame(body, malformedReason: .illegalLength)
    }

    private mutating func passRest(in input: inout ReceiveBuffer) -> Bool {
        while passing > 0 {
            guard let offset = input.firstOffset(of: delimiter) else {
                input.discard(input.count - delimiter.count + 1)
                return false
            }
            input.discard(offset + delimiter.count)
            passing -= 1
        }
        return true
    }

    private func frame(_ body: Bytes, malformedReason: FrameError.Code? = nil) -> Frame {
        var frame = Frame(.response, body: body)
        if let malformedReason { frame.markMalformed(malformedReason) }
        reading.apply(to: &frame)
        return frame
    }

    /// Appends the body of `frame` and the delimiter.
    ///
    /// - Parameters:
    ///   - frame: The frame to send.
    ///   - output: The buffer to append to.
    /// - Throws:
    ///   - `illegalLength` for a frame that is too long;
    ///   - `malformed` for a body with too many or too few delimiters, and for a body whose last bytes together with
    ///     the delimiter contain an earlier delimiter;
    ///   - `unknownType` for a frame that its receiver would read as another kind of frame, for a ping or pong without
    ///     ``heartbeat(ping:pong:file:line:)``, and for a cancellation.
    public mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        let body = try reading.body(of: frame)
        try check(body)
        output.append(body)
        output.append(delimiter)
    }

    private func check(_ body: Bytes) throws(FrameError) {
        guard body.count <= maximumFrameSize - delimiter.count else {
            let sizes = "a body of \(body.count) bytes and a delimiter of \(delimiter.count) bytes"
            throw FrameError(.illegalLength, "\(sizes) exceed \(maximumFrameSize) bytes (maximumFrameSize)")
        }
        // A receiver that searches for delimiters from the front must find the last one directly after `body`.
        var start = 0
        var count = 0
        while let index = body.firstIndex(of: delimiter, from: start) {
            start = index + delimiter.count
            count += 1
        }
        // After the body "a\n--", the delimiter "\n--\n" would be found in "a\n--\n--\n" from the second byte on.
        let startsEarly = overlaps.contains { length in
            let tail = delimiter.count - length
            return body.count - tail >= start && Bytes(body.suffix(tail)) == Bytes(delimiter.prefix(tail))
        }
        guard count == parts - 1, !startsEarly else {
            let reason =
                parts == 1
                ? "the body contains the delimiter"
                : "the body has \(count + 1) parts, but a frame of this codec has \(parts)"
            throw FrameError(
                .malformed,
                startsEarly ? "the body ends with bytes of the delimiter, so the frame would end too early" : reason
            )
        }
    }
}

extension DelimitedCodec: NamingCodec, HeartbeatCodec, PushKeyCodec, ServerSideCodec {
    /// Returns the ping that `heartbeat(ping:pong:)` declares, or `nil` if it was not called.
    public func ping(number: UInt64) -> Frame? { reading.heartbeat.map { Frame(.ping, body: $0.ping) } }

    /// Returns the answer that `heartbeat(ping:pong:)` declares, or `nil` if it was not called.
    public func pong(answering ping: Frame) -> Frame? { reading.heartbeat.map { Frame(.pong, body: $0.pong) } }

    /// Whether `heartbeat(ping:pong:)` declares the same text for pings and their answers.
    public var pongsLookLikePings: Bool { reading.heartbeat.map { $0.ping == $0.pong } ?? false }

    /// Returns the key that `keyingPushes(by:)` declares, or `nil` if it was not called.
    public func pushKey(of push: Frame) -> PushKey? { reading.pushKey?(push) }

    /// Returns the server side of the same codec. It decodes requests and encodes responses and pushes.
    public func serverSide() -> any FrameCodec { with(\.reading.isServerSide, true) }

    /// Returns a copy of this codec in which `name` returns the name of a request, for the log and for errors. It
    /// replaces an earlier closure. For the rules that `name` must follow, see ``NamingCodec/name(of:)``.
    public func namingRequests(by name: @escaping @Sendable (Frame) -> String?) -> DelimitedCodec {
        with(\.reading.name, name)
    }

    /// Returns the name that ``namingRequests(by:)`` declares, or `nil` if it was not called.
    public func name(of request: Frame) -> String? { reading.name?(request) }

    /// Whether ``namingRequests(by:)`` was called.
    public var namesEachRequest: Bool { reading.name != nil }
}

extension DelimitedCodec: FrameLimitCodec {
    /// Sets `maximumFrameSize`, to at least the size of the delimiters.
    public mutating func setMaximumFrameSize(_ size: Int) {
        let (delimiters, overflow) = parts.multipliedReportingOverflow(by: delimiter.count)
        maximumFrameSize = max(size, overflow ? .max : delimiters)
    }
}
