import Trunkline

/// A codec for simple queries to PostgreSQL ("Frontend/Backend Protocol" in its manual, protocol version 3.0).
///
/// A query is a request, the first column of each of its rows is a part, and ReadyForQuery is its response. Another
/// query may not follow before that: a cancellation would not know which one it meets.
///
/// `COPY … FROM STDIN` is a request of `open`: CopyInResponse is its first part, its data are CopyData, and CopyDone
/// ends them. Of `COPY … TO STDOUT`, each CopyData is a part.
struct PostgresCodec: FrameCodec, PipeliningCodec, ClosingCodec, UploadCodec, CancellingCodec, SentFrameCodec {
    enum Message: UInt32 {
        /// The first message of a connection has no type. These two are StartupMessage and CancelRequest.
        case startup = 0, cancelRequest = 1
        case query = 0x51, terminate = 0x58
        case copyData = 0x64, copyDone = 0x63, copyFail = 0x66

        func callAsFunction(_ body: Bytes) -> Request { Request(type: rawValue, body: body) }
    }

    private var key: Bytes = ""
    private var failure: ServerReason?
    /// Whether the latest message was a piece of a COPY, and not its end.
    private var isCopying = false

    var matching: ResponseMatching { .inOrder }
    func mayPipeline(behind request: Frame) -> Bool { false }
    func closingFrame() -> Frame? { Frame(.request, type: Message.terminate.rawValue) }

    // CopyFail ends the data of an abandoned COPY, and the server drops it if the COPY has ended already.
    var abandoningEndsLink: Bool { false }
    mutating func noteSent(_ frame: Frame) { isCopying = frame.kind == .part }
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        isCopying ? Frame(.cancel, type: Message.copyFail.rawValue, body: "abandoned") : nil
    }

    static func query(_ text: String) -> Request { Message.query(Bytes(text)) }

    static func startup(database: String) -> Request {
        Message.startup(Bytes("\0\u{3}\0\0user\0postgres\0database\0\(database)\0\0"))
    }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let type = input.byte(at: 0), let length = input.integer(at: 1, as: UInt32.self) else { return nil }
        guard 4...1_048_576 ~= length else { throw FrameError(.illegalLength, "a message of \(length) bytes") }
        input.await(1 + Int(length))
        guard input.count > Int(length), input.skip(5), let body = input.readBytes(Int(length) - 4) else { return nil }
        switch Character(UnicodeScalar(type)) {
        case "R":
            guard body == "\0\0\0\0" else { throw FrameError(.malformed, "authentication is not supported") }
        case "K": key = body
        case "D": return Frame(.part, body: Bytes(body.dropFirst(6)))
        case "G": return Frame(.part)  // CopyInResponse
        case "d": return Frame(.part, body: body)
        case "E":
            let fields = Self.fields(of: body)
            let reason = ServerReason(fields["C"] ?? "", text: fields["M"] ?? "")
            guard fields["S"] == "ERROR" else {
                // FATAL: the server closes the connection.
                var farewell = Frame(.goAway)
                farewell.markLinkEnding(.now)
                farewell.reason = reason
                return farewell
            }
            failure = reason
        case "Z":
            var response = Frame(.response, body: key)
            if let reason = failure {
                (response.isErrorResponse, response.status) = (true, 1)
                response.reason = reason
            }
            (key, failure) = ("", nil)
            return response
        case "C", "H", "I", "N", "S", "T", "c": break
        default: throw FrameError(.unknownType, "a message of type \(type)")
        }
        return Frame(.ignored)
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard let message = Message(rawValue: frame.type) else {
            throw FrameError(.unknownType, "no message of type \(frame.type)")
        }
        if message != .startup && message != .cancelRequest { output.append(UInt8(frame.type)) }
        let isText = message == .query || message == .copyFail
        output.append(integer: UInt32(4 + frame.body.count + (isText ? 1 : 0)))
        output.append(frame.body)
        if isText { output.append(0) }
    }

    /// "Error and Notice Message Fields": a letter and a string, until a zero.
    private static func fields(of body: Bytes) -> [Character: String] {
        var fields: [Character: String] = [:]
        for field in Array(body).split(separator: 0) {
            guard let letter = field.first else { continue }
            fields[Character(UnicodeScalar(letter))] = String(decoding: field.dropFirst(), as: UTF8.self)
        }
        return fields
    }
}
