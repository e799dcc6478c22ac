/// Frames that end with a delimiter of one or several bytes, as lines of text do. Responses match requests in order.
///
///     body  delimiter
///     body  delimiter  body  delimiter        with `parts: 2`: a header, a separator and a body
///
/// ```swift
/// let lines = DelimitedCodec(delimiter: "\r\n")
///     .heartbeat(ping: "PING", pong: "PONG")
///     .reading { frame in
///         if frame.body.hasPrefix("-ERR") { frame.isErrorResponse = true }
///         if frame.body.hasPrefix("MSG ") { frame.kind = .push }
///     }
/// ```
///
/// A frame of several parts is seen with everything but its last delimiter in `frame.body`, and is sent so:
/// `frame.body.parts(separatedBy: "\r\n")` takes it apart.
///
/// `encode` looks for the whole delimiter only, so with `"\r\n"` a lone LF or CR in a body is sent as it is: remove both from
/// bodies that come from elsewhere, since many servers end a line there.
///
/// A received frame that is too long costs that frame and nothing else: it is delivered with the `malformedReason`
/// `illegalLength` and the first bytes of its body, as many as a frame may have, and what follows up to its last
/// delimiter is dropped as it arrives.
public struct DelimitedCodec: FrameCodec {
    /// The largest whole frame in bytes, delimiters included, both ways.
    package let maximumFrameSize: Int

    private let delimiter: Bytes
    private let parts: Int
    private var reading = FrameReading()
    /// The lengths at which the delimiter's beginning is its end as well: behind a body that ends with all the rest of it,
    /// it would be found before the body has ended.
    private let overlaps: [Int]

    // MARK: Of the frame at the front of the input

    /// No delimiter that has not been found begins before here.
    private var searched = 0
    /// How many of its delimiters were found.
    private var found = 0
    /// How many delimiters are still to be passed of a frame that was too long.
    private var passing = 0

    /// Frames of `parts` bodies, each with `delimiter` behind it.
    ///
    /// - Parameters:
    ///   - delimiter: One byte or more: `"\n"`, `"\r\n"`, `[0xFF]`. Looked for from the front of each frame.
    ///   - parts: How many delimiters a frame has, at least 1.
    ///   - maximumFrameSize: The largest whole frame in bytes, delimiters included, both ways.
    ///   - file, line: Named when the program is stopped for arguments that make no codec.
    public init(
        delimiter: Bytes,
        parts: Int = 1,
        maximumFrameSize: Int = 8192,
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        func demand(_ condition: Bool, _ mistake: String) {
            require(condition, "DelimitedCodec: \(mistake)", file, line)
        }
        demand(!delimiter.isEmpty, "the delimiter is empty")
        demand(parts >= 1, "a frame has at least one part, not \(parts)")
        let hasRoom = maximumFrameSize / delimiter.count >= parts
        demand(hasRoom, "maximumFrameSize \(maximumFrameSize) leaves no room for the delimiters")
        self.delimiter = delimiter
        self.parts = parts
        self.maximumFrameSize = maximumFrameSize
        overlaps = (1..<delimiter.count).filter { Bytes(delimiter.suffix($0)) == Bytes(delimiter.prefix($0)) }
    }

    /// Frames of `parts` bodies, each with the byte `delimiter` behind it; see `init(delimiter:parts:maximumFrameSize:)`.
    package init(
        delimiter: UInt8,
        parts: Int = 1,
        maximumFrameSize: Int = 8192,
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        self.init(delimiter: [delimiter], parts: parts, maximumFrameSize: maximumFrameSize, file: file, line: line)
    }

    /// The same with heartbeats: a client sends a frame with the body `ping`, which the server answers with the body
    /// `pong`, or the other way round. No other frame may have these bodies. A body that cannot be sent, for one because
    /// the delimiter is in it, stops the program.
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

    /// The same with a say about every frame that a client receives and that is no heartbeat; in place of an earlier one.
    ///
    /// `rule` gets it as a `response` that is not an error response and may change everything about it: `kind`,
    /// `isErrorResponse`, `status`, `type`; or call `markMalformed(_:)` for one that is not acceptable. A frame that is to be
    /// ignored is a `pong`. It gets malformed frames too, which are what they are for all that. Called on the client's
    /// loop: it must not block.
    ///
    /// A test server asks it whether the client would take a frame for what it is meant to be, and sends none that it would
    /// not.
    public func reading(_ rule: @escaping @Sendable (inout Frame) -> Void) -> DelimitedCodec {
        with(\.reading.rule, rule)
    }

    /// In order.
    public var matching: ResponseMatching { .inOrder }

    /// The same codec, for which `key` says what a push is about (`Client.pushes(forKey:buffering:)`).
    public func keyingPushes(by key: @escaping @Sendable (Frame) -> PushKey?) -> DelimitedCodec {
        with(\.reading.pushKey, key)
    }

    // MARK: Bytes in

    /// Takes one frame from the front of `input`; `nil` when its last delimiter is not there yet. Throws nothing.
    public mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard passRest(in: &input) else { return nil }
        // In case somebody has changed buffers.
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

    /// The beginning of a frame that is too long, with which it is done. The rest is left to be passed over.
    private mutating func endlessFrame(in input: inout ReceiveBuffer) -> Frame? {
        let limit = maximumFrameSize - delimiter.count
        guard let body = input.readBytes(limit) else { return nil }
        // A delimiter that begins right behind this would be found already, as is one that ends a little later. A byte more
        // is taken in any case: where only empty frames are allowed the body has none.
        input.skip(max(1, searched - limit))
        passing = parts - found
        (searched, found) = (0, 0)
        return frame(body, malformedReason: .illegalLength)
    }

    /// Drops what there is of a frame that was too long. Returns whether its end has come.
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

    // MARK: Bytes out

    /// Appends the body of `frame` and the delimiter.
    ///
    /// Throws `illegalLength` for a frame that is too long; `malformed` for a body in which the delimiter stands, or with
    /// whose end it would come too early, unless between two parts; and `unknownType` for a frame that its receiver would
    /// take for something else, for a ping without `heartbeat` and for a cancellation.
    public mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        let body = try reading.body(of: frame)
        try check(body)
        output.append(body)
        output.append(delimiter)
    }

    private func check(_ body: Bytes) throws(FrameError) {
        guard body.count <= maximumFrameSize - delimiter.count else {
            let sizes = "\(body.count) bytes and a delimiter of \(delimiter.count)"
            throw FrameError(.illegalLength, "\(sizes) are more than \(maximumFrameSize)")
        }
        // Who looks for delimiters from the front has to find the last one right behind `body`.
        var start = 0
        var count = 0
        while let index = body.firstIndex(of: delimiter, from: start) {
            start = index + delimiter.count
            count += 1
        }
        // As "\n--\n" would behind the body "a\n--": it stands in "a\n--\n--\n" from the second byte on.
        let startsEarly = overlaps.contains { length in
            let tail = delimiter.count - length
            return body.count - tail >= start && Bytes(body.suffix(tail)) == Bytes(delimiter.prefix(tail))
        }
        guard count == parts - 1, !startsEarly else {
            let reason =
                parts == 1
                ? "the delimiter stands within the body"
                : "the body has \(count + 1) parts, and the frame \(parts)"
            throw FrameError(.malformed, startsEarly ? "the body ends with the beginning of the delimiter" : reason)
        }
    }
}

// What the library asks of `HeartbeatCodec`, `PushKeyCodec` and `ServerSideCodec`, answered as `FrameCodec` wants it: only
// who wraps a codec would call those.
// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension DelimitedCodec {
    public func _ping(number: UInt64) -> Frame? { reading.heartbeat.map { Frame(.ping, body: $0.ping) } }
    public func _pong(answering ping: Frame) -> Frame? { reading.heartbeat.map { Frame(.pong, body: $0.pong) } }
    public var _pongsLookLikePings: Bool { reading.heartbeat.map { $0.ping == $0.pong } ?? false }
    public func _pushKey(of push: Frame) -> PushKey? { reading.pushKey?(push) }
    public func _serverSide() -> any FrameCodec { with(\.reading.isServerSide, true) }
}
