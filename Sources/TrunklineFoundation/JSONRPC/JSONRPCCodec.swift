public import TrunklineCore

/// A codec for JSON-RPC 2.0 (jsonrpc.org/specification), as language servers, servers of the Model Context Protocol and
/// many daemons speak it. <doc:JSONRPC> has examples.
///
/// ```swift
/// let client = Client(to: .unix(path: "/run/analyzer.sock"), speaking: JSONRPCCodec.languageServer)
/// ```
///
/// A frame holds a message as follows. `method` is a named field: `frame[bytes: "method"]`.
///
/// | Message | ``/Trunkline/Frame/kind-swift.property`` | `method` | ``/Trunkline/Frame/body``: JSON text |
/// |---|---|---|---|
/// | request | `request` | its method | the parameters; empty for none |
/// | notification | `push` if received; a posted `request` if sent | its method | the parameters; empty for none |
/// | result | `response` | none | the result |
/// | error | `response`, ``/Trunkline/Frame/isErrorResponse`` | none | the whole error object |
/// | cancellation of the ``Dialect`` | `cancel` | none | empty |
/// | ping of the ``Dialect`` and its answer | `ping`, `pong` | none | empty |
///
/// **Ids.** The ids of the client's requests are the numbers 1 to 1,999,999,999, or the same as strings (``ids``). The
/// pings have the numbers from there to 2,099,999,999. A response may repeat an id as a number or as a string,
/// whichever was sent. Requests of the server may have any string or number of up to 512 bytes as their id. It is sent
/// back as it came, byte by byte. A link remembers up to 65,536 such ids, of 8 MiB in all, until the requests are
/// answered; a further request is refused with -32000. The number of requests that wait for the client is limited by
/// ``JSONRPCCall/serve(_:maximumConcurrent:maximumWaiting:_:)``. A ping of the server whose id is not a number of that
/// kind has the id in the named field `id`, which its answer repeats.
///
/// **Pushes.** Select notifications by their method: `client.pushes(forKey: "textDocument/publishDiagnostics")`.
///
/// **Errors.** ``/Trunkline/Frame/reason`` has the code and the message of an error, and its name in JSON-RPC 2.0 or
/// the dialect, such as `MethodNotFound`, if it has one. ``JSONRPCError`` also has the data. An error with the id
/// `null` (section 5.1: the server could not read the id) ends no request, because it may concern a notification: it is
/// a response without a request, and the log has the server's text.
///
/// **Malformed messages.** Text that is not JSON, has no `"jsonrpc":"2.0"`, names a member twice, or breaks another
/// rule of the specification costs at most one request, because the end of the message is known. The frame has a
/// ``/Trunkline/Frame/malformedReason``. A response fails its request, if the text before the mistake has its id;
/// otherwise it counts as a response without a request (`unknownResponses`). A request is answered with -32600. A
/// malformed header, and a message that exceeds ``maximumMessageSize``, end the link.
///
/// **Batches.** The messages of a received array are decoded one by one, at most 10,000. Requests among them are
/// answered each by itself. The codec sends no batches: requests share the link without them.
///
/// **Parsing.** Each message is checked to be JSON, and only its outermost members are looked at. The body is a part of
/// its text, which callers decode in their own tasks. Values may be nested 512 levels deep.
public struct JSONRPCCodec: FrameCodec, NamingCodec, CancellingCodec, ServingCodec, HeartbeatCodec, ClosingCodec,
    SentFrameCodec, PushKeyCodec, FrameLimitCodec, ServerSideCodec
{
    /// What the protocol adds to JSON-RPC 2.0.
    public let dialect: Dialect
    /// How messages follow each other.
    public let framing: Framing
    /// The form of the ids of this side's requests.
    public let ids: IDs
    /// The size of the largest message in bytes, without its header or line end, in both directions. At least 128: less
    /// counts as that.
    public private(set) var maximumMessageSize: Int

    private var isServerSide = false

    private var frames: JSONRPCFrames
    /// The messages of the batch at the front, last one first.
    private var batch: [JSONRPCFrames.Extent] = []
    private var peer: JSONRPCIDs
    private var uncancellable: Set<SerialNumber> = []

    static let method = "method"
    /// The id of a request or a ping of the peer that is not remembered, and of its answer.
    private static let id = "id"
    private static let requests: ClosedRange<SerialNumber> = 1...1_999_999_999
    private static let pings: ClosedRange<SerialNumber> = 2_000_000_000...2_099_999_999
    private static let maximumBatch = 10_000
    /// In bytes: more than a `ServerReason` shows.
    private static let shownMessage = 2048

    /// Creates a codec.
    ///
    /// - Parameters:
    ///   - framing: How messages follow each other.
    ///   - dialect: What the protocol adds to JSON-RPC 2.0. Default: nothing.
    ///   - ids: The form of the ids of this side's requests. Default: numbers.
    ///   - maximumMessageSize: The size of the largest message in bytes, without its header or line end, in both
    ///     directions. At least 128: less counts as that. Default 16 MiB. An incomplete message is kept in memory up to
    ///     this size.
    public init(
        _ framing: Framing,
        dialect: Dialect = .plain,
        ids: IDs = .numbers,
        maximumMessageSize: Int = 16 * 1024 * 1024
    ) {
        (self.framing, self.dialect, self.ids) = (framing, dialect, ids)
        self.maximumMessageSize = max(128, maximumMessageSize)
        frames = JSONRPCFrames(framing)
        peer = JSONRPCIDs(ids)
    }

    /// The Language Server Protocol: ``Framing-swift.enum/contentLength`` and ``Dialect-swift.struct/languageServer``.
    public static let languageServer = JSONRPCCodec(.contentLength, dialect: .languageServer)

    /// The Model Context Protocol over a stream of bytes: ``Framing-swift.enum/lines`` and
    /// ``Dialect-swift.struct/modelContext``.
    public static let modelContext = JSONRPCCodec(.lines, dialect: .modelContext)

    /// Responses are matched by their ids: `.serial(1...1_999_999_999)`.
    public var matching: ResponseMatching { .serial(Self.requests) }

    /// Consumes one message, or an empty line, and returns its frame. Returns `nil` if the message is incomplete.
    ///
    /// - Throws:
    ///   - `malformed` for a header without a valid `Content-Length`, or with a character set other than UTF-8;
    ///   - `illegalLength` for a header of more than 4,096 bytes, a length that is no number or too large for one, a
    ///     message of more than ``maximumMessageSize``, and a batch of more than 10,000 messages.
    public mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        if batch.isEmpty {
            guard let extent = try frames.next(in: &input, upTo: maximumMessageSize) else { return nil }
            guard try beginBatch(extent, input) else {
                guard let text = text(of: extent, &input) else { return nil }
                return framing == .lines && text.isBlank ? Frame(.ignored) : frame(of: text)
            }
        }
        guard let extent = batch.popLast(), let text = text(of: extent, &input) else { return nil }
        return frame(of: text)
    }

    private func text(of extent: JSONRPCFrames.Extent, _ input: inout ReceiveBuffer) -> Bytes? {
        guard input.skip(extent.before), let text = input.readBytes(extent.message), input.skip(extent.after) else {
            return nil
        }
        return text
    }

    /// Returns false if the message at the front is not an array of JSON values: then it is malformed.
    private mutating func beginBatch(
        _ whole: JSONRPCFrames.Extent,
        _ input: ReceiveBuffer
    ) throws(FrameError) -> Bool {
        var found: [JSONRPCFrames.Extent] = []
        var isTooLong = false
        input.withSpan { span in
            let text = span.extracting(whole.before..<whole.before + whole.message)
            var scanner = JSONScanner()
            scanner.skipSpace(in: text)
            guard scanner.place < text.count, text[scanner.place] == UInt8(ascii: "[") else { return }
            var end = 0
            do throws(FrameError) {
                try scanner.elements(in: text) { element throws(FrameError) in
                    isTooLong = found.count == Self.maximumBatch
                    if isTooLong { throw FrameError(.illegalLength, "") }
                    found.append(.init(before: element.lowerBound - end, message: element.count))
                    end = element.upperBound
                }
                try scanner.expectEnd(of: text)
                if !found.isEmpty {
                    found[0].before += whole.before
                    found[found.count - 1].after = text.count - end + whole.after
                }
            } catch {
                found = []
            }
        }
        if isTooLong { throw FrameError(exceedingLimit: "a batch of more than \(Self.maximumBatch) messages") }
        batch = found.reversed()
        return !batch.isEmpty
    }

    private mutating func frame(of text: Bytes) -> Frame {
        let message = JSONRPCMessage(text)
        let id = message.id.map { text.part($0) }
        var frame =
            message.method == nil
            ? response(message, text, id) : call(message, text, text.part(message.method ?? 0..<0), id)
        if let problem = message.problem { frame.markMalformed(because: FrameError(.malformed, problem.message)) }
        return frame
    }

    private mutating func call(_ message: JSONRPCMessage, _ text: Bytes, _ method: Bytes, _ id: Bytes?) -> Frame {
        let params = message.params.map { text.part($0) } ?? Bytes()
        let name = method.jsonString
        if message.problem == nil, let name {
            if let id, let method = dialect.ping, name.isEqual(to: method) { return ping(id) }
            if id == nil, let cancellation = dialect.cancellation, name.isEqual(to: cancellation.method) {
                return cancel(params, cancellation.parameter)
            }
        }
        var frame = Frame(id == nil ? (isServerSide ? .request : .push) : .request, body: params)
        if let id { setID(id, of: &frame, isMalformed: message.problem != nil) }
        if let name {
            frame[bytes: Self.method] = name
        } else {
            frame.markMalformed(because: FrameError(.malformed, "the method is not a valid string"))
        }
        return frame
    }

    /// If too many requests are unanswered, the frame has the id, and is refused. A malformed request is answered with
    /// its id if that is a string or a number, and otherwise with the id `null` (section 5).
    private mutating func setID(_ id: Bytes, of frame: inout Frame, isMalformed: Bool) {
        let isID = id.first.map { $0 == 0x22 || $0 == 0x2D || $0 &- 0x30 < 10 } ?? false
        guard !isMalformed || isID && id.count <= JSONRPCIDs.maximumSize else {
            frame.serial = peer.serialWithoutMemory()
            frame[bytes: Self.id] = "null"
            return
        }
        let isRemembered: Bool
        (frame.serial, isRemembered) = peer.serial(of: id)
        guard !isRemembered else { return }
        frame[bytes: Self.id] = id.compacted
        frame.markMalformed(.illegalLength)
    }

    /// Whether a ping is answered is up to the link, so nothing is remembered.
    private func ping(_ id: Bytes) -> Frame {
        var frame = Frame(.ping, serial: peer.ownSerial(of: id))
        if frame.serial == 0 { frame[bytes: Self.id] = id.compacted }
        return frame
    }

    private func id(answeredBy frame: Frame) throws(FrameError) -> String {
        guard let id = frame[bytes: Self.id] else { return String(try peer.text(of: frame.serial)) }
        _ = try id.withSpan { span throws(FrameError) in try JSONScanner.onlyValue(in: span) }
        return String(id)
    }

    private mutating func cancel(_ params: Bytes, _ parameter: String) -> Frame {
        var id: Bytes?
        let parameter = Array(parameter.utf8)
        do throws(FrameError) {
            try params.withSpan { span throws(FrameError) in
                var scanner = JSONScanner()
                try scanner.members(in: span) { name, value throws(FrameError) in
                    if span.isJSONString(parameter, in: name) { id = params.part(value) }
                }
            }
        } catch {
            id = nil
        }
        guard let id else {
            var malformed = Frame(.push)
            malformed.markMalformed(because: FrameError(.malformed, "the cancellation names no request"))
            return malformed
        }
        // The answer may have crossed the cancellation.
        guard let serial = peer.knownSerial(of: id) else { return Frame(.ignored) }
        if dialect.cancellation?.isAnswered == false { peer.forget(serial) }
        return Frame(.cancel, serial: serial)
    }

    private mutating func response(_ message: JSONRPCMessage, _ text: Bytes, _ id: Bytes?) -> Frame {
        let serial = id.flatMap { Self.number($0) } ?? 0
        if Self.pings.contains(serial) { return Frame(.pong, serial: serial) }
        // No request has the serial 0, so this answers none.
        var frame = Frame(.response, serial: Self.requests.contains(serial) || isServerSide ? serial : 0)
        uncancellable.remove(serial)
        guard let error = message.error else {
            frame.body = message.result.map { text.part($0) } ?? Bytes()
            return frame
        }
        frame.body = text.part(error)
        frame.isErrorResponse = true
        if let error = JSONRPCError(parsing: frame.body, messageUpTo: Self.shownMessage) {
            let code = error.code.rawValue
            frame.reason = ServerReason(dialect.errorName(of: code) ?? "", code: code, text: error.message)
        }
        return frame
    }

    /// As a number (`7`, `7.0`) or as a string (`"7"`).
    private static func number(_ id: Bytes) -> SerialNumber? {
        id.withSpan { span in
            let isString = span.count >= 2 && span.isString(0..<span.count)
            let range = isString ? 1..<span.count - 1 : 0..<span.count
            return span.integer(in: range) ?? span.integer(ofJSONNumber: range)
        }
    }

    /// Appends a message with its header or its line end. A request with the serial 0 is a notification.
    ///
    /// - Throws:
    ///   - `malformed` for a body that is not one JSON value of the kind that its message needs: an object or an array
    ///     for parameters, an object with a code for an error; for a request without the field `method`, or with one
    ///     that is not valid UTF-8; and for an answer to a request that was not received on this link, or was answered;
    ///   - `illegalLength` for a message of more than ``maximumMessageSize``;
    ///   - `unknownType` for a kind of frame that the dialect does not have.
    public mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        switch frame.kind {
        case .request where frame.serial != 0:
            try append(
                "\"id\":\(ids.text(of: frame.serial)),\(methodMember(of: frame))",
                params(of: frame),
                to: &output
            )
        case .request, .push: try append(methodMember(of: frame), params(of: frame), to: &output)
        case .response:
            let id = "\"id\":\(try id(answeredBy: frame))"
            if frame.isErrorResponse {
                guard JSONRPCError(parsing: frame.body) != nil else {
                    throw FrameError(.malformed, "the body of an error is not an object with an integer code")
                }
                try append(id, (",\"error\":", frame.body), to: &output)
            } else {
                try append(id, (",\"result\":", frame.body.isEmpty ? "null" : frame.body), to: &output)
            }
        case .pong: try append("\"id\":\(try id(answeredBy: frame)),\"result\":{}", nil, to: &output)
        case .ping:
            guard let ping = dialect.ping else { throw FrameError(.unknownType, "the dialect has no ping") }
            // A test server sends pings without a serial.
            let id = ids.text(of: frame.serial == 0 ? Self.pings.lowerBound : frame.serial)
            try append("\"id\":\(id),\"method\":\(JSONText.quoted(ping))", nil, to: &output)
        case .cancel:
            guard let cancellation = dialect.cancellation else {
                throw FrameError(.unknownType, "the dialect has no cancellation")
            }
            let params = "{\(JSONText.quoted(cancellation.parameter)):\(ids.text(of: frame.serial))}"
            try append("\"method\":\(JSONText.quoted(cancellation.method)),\"params\":\(params)", nil, to: &output)
        default: throw FrameError(.unknownType, "JSON-RPC has no frames of the kind \(frame.kind)")
        }
    }

    private func methodMember(of frame: Frame) throws(FrameError) -> String {
        guard let method = frame[bytes: Self.method], let name = String(validating: method, as: UTF8.self) else {
            throw FrameError(.malformed, "the field method is missing, or is not valid UTF-8")
        }
        return "\"method\":\(JSONText.quoted(name))"
    }

    private func params(of frame: Frame) throws(FrameError) -> (String, Bytes)? {
        frame.body.isEmpty ? nil : (",\"params\":", frame.body)
    }

    private func append(
        _ members: String,
        _ last: (name: String, text: Bytes)?,
        to output: inout SendBuffer
    ) throws(FrameError) {
        let text = try last.map { last throws(FrameError) in
            try checked(last.text, isParams: last.name.contains("params"))
        }
        let head = "{\"jsonrpc\":\"2.0\",\(members)\(last?.name ?? "")"
        let size = head.utf8.count + (text?.count ?? 0) + 1
        guard size <= maximumMessageSize else {
            throw FrameError(
                exceedingLimit: "a message of \(size) bytes: at most \(maximumMessageSize) (maximumMessageSize)"
            )
        }
        if framing == .contentLength { output.append("Content-Length: \(size)\r\n\r\n".utf8) }
        output.append(head.utf8)
        if let text { output.append(text) }
        output.append(UInt8(ascii: "}"))
        if framing == .lines { output.append(0x0A as UInt8) }
    }

    private func checked(_ body: Bytes, isParams: Bool) throws(FrameError) -> Bytes {
        let first = try body.withSpan { span throws(FrameError) in span[try JSONScanner.onlyValue(in: span).lowerBound]
        }
        guard !isParams || first == UInt8(ascii: "{") || first == UInt8(ascii: "[") else {
            throw FrameError(.malformed, "the parameters are neither an object nor an array")
        }
        // In valid JSON, line breaks are only between values: strings contain none.
        guard framing == .lines, body.contains(0x0A) || body.contains(0x0D) else { return body }
        return Bytes(body.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 })
    }

    /// Forgets the id of a request of the peer that was answered.
    public mutating func noteSent(_ frame: Frame) {
        switch frame.kind {
        case .response: peer.forget(frame.serial)
        case .request where frame.serial != 0 && !dialect.uncancellable.isEmpty:
            if let method = frame[bytes: Self.method], dialect.uncancellable.contains(String(method)) {
                uncancellable.insert(frame.serial)
            }
        default: break
        }
    }
}

extension JSONRPCCodec {
    /// Returns the notification of the dialect that cancels a request, or `nil` if it has none, or if the request must
    /// not be cancelled.
    public func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        dialect.cancellation == nil || uncancellable.contains(serial) ? nil : Frame(.cancel, serial: serial)
    }

    /// Returns whether the server answers a request that was cancelled, as the dialect says.
    public func cancelKind(ofType type: UInt32) -> CancelKind {
        dialect.cancellation?.isAnswered == false ? .unanswered : .answered
    }

    /// Returns the error that tells the server why its request is not served: -32601 if the client does not serve,
    /// -32000 if too many requests wait, -32603 if the handler failed, -32600 for a malformed request, and -32800 for a
    /// cancelled one, if the dialect wants it to be answered.
    public func refusal(of request: Frame, because reason: ServingRefusal) -> Frame? {
        var frame = error(refusing: request, because: reason)
        frame?[bytes: Self.id] = request[bytes: Self.id]
        return frame
    }

    /// Forgets the id of a request that gets no answer.
    public mutating func noteUnanswered(_ request: Frame) { peer.forget(request.serial) }

    private func error(refusing request: Frame, because reason: ServingRefusal) -> Frame? {
        switch reason {
        case .notServed: JSONRPCError.unknownMethod.response
        case .overloaded: JSONRPCError(.overloaded, "Too many requests").response
        case .malformed: JSONRPCError(.invalidRequest, "Invalid Request").response
        case .cancelled:
            dialect.cancellation?.isAnswered == false
                ? nil : JSONRPCError(.requestCancelled, "Request cancelled").response
        default: JSONRPCError(.internalError, "Internal error").response
        }
    }

    /// Returns the method of a request or notification.
    public func name(of request: Frame) -> String? { request[bytes: Self.method].map { String($0) } }

    /// Returns the ping of the dialect, or `nil` if it has none.
    public func ping(number: UInt64) -> Frame? {
        let count = Self.pings.upperBound - Self.pings.lowerBound + 1
        return dialect.ping.map { _ in Frame(.ping, serial: Self.pings.lowerBound + number % count) }
    }

    /// Returns the answer to a ping of the server.
    public func pong(answering ping: Frame) -> Frame? {
        var pong = Frame(.pong, serial: ping.serial)
        pong[bytes: Self.id] = ping[bytes: Self.id]
        return pong
    }

    /// Returns the farewell of the dialect, or `nil` if it has none.
    public func closingFrame() -> Frame? {
        dialect.farewell.map { method in
            var frame = Frame(.request)
            frame[bytes: Self.method] = Bytes(method)
            return frame
        }
    }

    /// Returns the method of a notification.
    public func pushKey(of push: Frame) -> PushKey? { push[bytes: Self.method].map { .name($0) } }

    /// Sets ``maximumMessageSize``, to at least 128.
    public mutating func setMaximumFrameSize(_ size: Int) { maximumMessageSize = max(128, size) }

    /// Returns the server side of the same codec. It decodes notifications as requests with the serial 0.
    public func serverSide() -> any FrameCodec {
        var codec = self
        codec.isServerSide = true
        return codec
    }
}

extension JSONRPCCodec.IDs {
    fileprivate func text(of serial: SerialNumber) -> String { self == .numbers ? "\(serial)" : "\"\(serial)\"" }
}

extension Bytes {
    fileprivate var isBlank: Bool {
        withSpan { span in
            for index in span.indices {
                guard span[index] == 0x20 || span[index] == 0x09 || span[index] == 0x0D else { return false }
            }
            return true
        }
    }

    /// `nil` if these bytes, which are a valid JSON value, are not a string of valid UTF-8.
    fileprivate var jsonString: Bytes? {
        let bytes = withSpan { span -> Bytes? in
            guard span.count >= 2, span.isString(0..<span.count) else { return nil }
            let range = 1..<span.count - 1
            return span.hasEscapes(inJSONString: range)
                ? span.bytes(ofJSONString: range).map { Bytes($0) } : part(range)
        }
        guard let bytes, String(validating: bytes, as: UTF8.self) != nil else { return nil }
        return bytes
    }

    fileprivate func isEqual(to text: String) -> Bool { count == text.utf8.count && elementsEqual(text.utf8) }
}
