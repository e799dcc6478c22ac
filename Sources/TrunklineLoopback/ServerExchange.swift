public import TrunklineCore

/// One request and its reply, handled by the body of ``Reaction/perform(_:)``.
///
/// The methods may be called from several tasks at once. They throw `CancellationError`, and write nothing more, once
/// the client has cancelled the request, its connection has ended, or the server was stopped.
public struct ServerExchange: Sendable {
    /// The request, or its first part, whose kind is `part`.
    public let request: Frame
    let server: LoopbackServer
    let open: OpenExchange

    /// Writes a part of the reply, and returns when the kernel has accepted it.
    ///
    /// So a client that reads slowly slows down the body, and at most one part is buffered in memory.
    ///
    /// - Throws: `FrameError` if the codec cannot encode the part, which closes the connection, or if the reply was
    ///   already sent. `CancellationError` if the exchange has ended.
    public func part(_ body: Bytes) async throws { try await part(Frame(.part, body: body)) }

    /// Writes `frame` as a part of the reply, and returns when the kernel has accepted it.
    ///
    /// Its kind is set to `part`. Its other values are set as in ``Reaction/reply(_:)-(Frame)``, except for the type in
    /// protocols whose parts have separate types. With ``/Trunkline/Frame/answers``, it belongs to other requests of
    /// the connection too, if the codec encodes that.
    ///
    /// - Throws: `FrameError` if the codec cannot encode the part, which closes the connection, or if the reply was
    ///   already sent. `CancellationError` if the exchange has ended.
    public func part(_ frame: Frame) async throws {
        var frame = frame
        frame.kind = .part
        try await server.write(frame, of: open)
    }

    /// Replies with `body`, and returns without waiting for the kernel.
    ///
    /// This closes the exchange: ``next()`` returns `nil`. Parts of the request that were not read, or that the client
    /// sends later, are discarded.
    ///
    /// - Throws: `FrameError` if the codec cannot encode the reply, which closes the connection, or if a reply was
    ///   already sent. `CancellationError` if the exchange has ended.
    public func reply(_ body: Bytes) async throws { try await reply(Frame(.response, body: body)) }

    /// Replies with `frame`, and returns without waiting for the kernel. This closes the exchange.
    ///
    /// - The serial is always that of the request.
    /// - The type is that of the request (of its last part, if it came in parts) if the frame's is 0.
    /// - The status is a status of success if the frame's is 0 and it is not an error response.
    ///
    /// - Throws: `FrameError` if the codec cannot encode the reply, which closes the connection, or if a reply was
    ///   already sent. `CancellationError` if the exchange has ended.
    public func reply(_ frame: Frame) async throws { try await server.reply(frame, to: open) }

    /// Waits for the next frame with the request's serial, and returns it: a further part of the request, or a window
    /// update.
    ///
    /// Returns `nil` after the reply, and always in protocols without serials.
    ///
    /// Frames that the body has not read are buffered. When 256 frames or 1 MiB are buffered, the server reads nothing
    /// more from the connection, not even cancel frames and pings, until at most half of that is left.
    ///
    /// - Throws: `CancellationError` if the exchange has ended, or if the calling task is cancelled.
    public func next() async throws -> Frame? { try await server.next(of: open) }

    /// Sends a request to the client on the connection of this exchange and returns the client's answer, as
    /// ``LoopbackServer/request(_:)`` does.
    public func request(_ frame: Frame) async throws -> Frame { try await server.call(frame, on: open.link) }
}

/// A request whose reaction runs a body, now or later.
///
/// Unchecked `Sendable`: confined to the server's loop; other code only hands it back to the server.
final class OpenExchange: @unchecked Sendable {
    enum State {
        case open
        case replied
        /// The request was cancelled, or its connection has ended.
        case ended
    }

    typealias Reader = Continuation<Result<Frame?, CancellationError>>

    let link: UInt64
    let request: Frame
    /// Further frames with the request's serial are routed to the exchange.
    var isAddressed: Bool
    var state = State.open
    var program: Program?
    var task: Task<Void, Never>?
    var isComplete: Bool
    var type: UInt32
    var inbox = Deque<Frame>()
    var inboxBytes = 0
    var isCrowded = false
    var readers: [(id: RequestID, continuation: Reader)] = []

    init(_ request: Frame, on link: UInt64, isAddressed: Bool) {
        self.link = link
        self.request = request
        self.isAddressed = isAddressed
        isComplete = request.kind != .part
        type = isComplete ? request.type : 0
    }

    var isFull: Bool { inbox.count >= 256 || inboxBytes >= 1024 * 1024 }
    var isRoomy: Bool { inbox.count <= 128 && inboxBytes <= 512 * 1024 }
}

/// Waits until the kernel has accepted a part. It leaves its link once and is resumed once.
struct PartWriter {
    let id: RequestID
    let open: OpenExchange
    let mark: Int
    /// The `sentMark` of TLS at which the kernel has accepted this part; `nil` until it is written.
    var takenMark: Int?
    let continuation: Continuation<CancellationError?>
}
