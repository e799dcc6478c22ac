import Synchronization
import Trunkline
import TrunklineTesting

/// The messages of PostgreSQL's protocol 3.0 ("Message Formats") that a simple query and its cancellation need.
///
///     StartupMessage    length (4)  196608 (4)    names and values         the request of the handshake
///     CancelRequest     16 (4)      80877102 (4)  process (4)  key (4)     a message on a connection of its own
///     Query             'Q'         length (4)    text, 0                  a request
///     Terminate         'X'         4 (4)                                  the closing frame
///     others            type        length (4)    …                        parts of a reply; ReadyForQuery ('Z') ends it
///
/// A frame has the type of its message, and in `body` what follows the length. The server's side puts the number of its
/// process in front of the body, as a text: the server starts a process for each connection.
struct PostgresCodec: FrameCodec, ServerSideCodec, ClosingCodec, PipeliningCodec {
    static let startup: UInt32 = 196_608
    static let cancel: UInt32 = 80_877_102
    static let query = UInt32(UInt8(ascii: "Q"))

    /// Whether queries may follow others before these are answered.
    var pipelines = false
    private let isServer: Bool
    private let processes: Processes
    /// The number of the process of this connection, on the server's side.
    private var process = 0
    /// The error of the query whose reply is being received.
    private var failure: ServerReason?

    /// The number of processes so far. All connections of a server share it.
    private final class Processes: Sendable { let count = Atomic(0) }

    init(pipelines: Bool = false) { self.init(pipelines, isServer: false) }

    private init(_ pipelines: Bool, isServer: Bool) {
        (self.pipelines, self.isServer, processes) = (pipelines, isServer, Processes())
    }

    var matching: ResponseMatching { .inOrder }
    func serverSide() -> any FrameCodec { PostgresCodec(pipelines, isServer: true) }
    func closingFrame() -> Frame? { Frame(.request, type: UInt32(UInt8(ascii: "X"))) }
    func mayPipeline(behind request: Frame) -> Bool { pipelines }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        let isFirst = isServer && process == 0
        guard let length = input.integer(at: isFirst ? 0 : 1, as: UInt32.self) else { return nil }
        guard (4...10_000).contains(length) else { throw FrameError(.illegalLength, "\(length)") }
        guard input.count >= Int(length) + (isFirst ? 0 : 1) else { return nil }
        guard !isFirst else { return try decodeFirst(&input, Int(length)) }
        guard let type = input.readInteger(as: UInt8.self), input.skip(4), let body = input.readBytes(Int(length) - 4)
        else {
            return nil
        }
        if isServer { return Frame(.request, type: UInt32(type), body: Bytes("\(process) ") + body) }
        switch type {
        case UInt8(ascii: "Z"):
            var frame = Frame(.response, type: UInt32(type), isErrorResponse: failure != nil)
            (frame.reason, failure) = (failure, nil)
            return frame
        case UInt8(ascii: "E"): failure = ServerReason("query_canceled", code: 57014)
        default: break
        }
        return Frame(.part, type: UInt32(type), body: body)
    }

    private mutating func decodeFirst(_ input: inout ReceiveBuffer, _ length: Int) throws(FrameError) -> Frame? {
        guard length >= 8, input.skip(4), let code = input.readInteger(as: UInt32.self),
            let body = input.readBytes(length - 8)
        else { throw FrameError(.malformed, "the first message has \(length) bytes") }
        process = processes.count.add(1, ordering: .relaxed).newValue
        return Frame(.request, type: code, body: code == Self.startup ? Bytes("\(process) ") : body)
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard frame.type != Self.startup, frame.type != Self.cancel else {
            output.append(integer: UInt32(frame.body.count + 8))
            output.append(integer: frame.type)
            return output.append(frame.body)
        }
        let type = UInt8(exactly: frame.type) ?? UInt8(ascii: "D")
        output.append(frame.kind == .response ? UInt8(ascii: "Z") : type)
        output.append(integer: UInt32(frame.body.count + 4))
        output.append(frame.body)
    }
}

/// What cancels queries of a connection: the contents of BackendKeyData.
struct BackendKey: Sendable, Hashable {
    let process, secret: UInt32

    init(process: UInt32, secret: UInt32) { (self.process, self.secret) = (process, secret) }

    init?(_ bytes: Bytes) {
        guard let process = bytes.integer(at: 0, as: UInt32.self), let secret = bytes.integer(at: 4, as: UInt32.self)
        else {
            return nil
        }
        self.init(process: process, secret: secret)
    }

    var bytes: Bytes {
        var bytes = Bytes()
        bytes.append(integer: process)
        bytes.append(integer: secret)
        return bytes
    }
}

extension Bytes {
    fileprivate static func + (left: Bytes, right: Bytes) -> Bytes {
        var joined = left
        joined.append(contentsOf: right)
        return joined
    }
}
