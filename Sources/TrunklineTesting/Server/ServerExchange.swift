public import Trunkline

/// One request and its reply, in the hands of the body of `Reaction.perform`.
///
/// Its methods may be called from several tasks at once. When the client has cancelled the request, its connection has
/// ended or the server was stopped, they throw `CancellationError`, and nothing more is written.
public struct ServerExchange: Sendable {
    /// The request, or its first piece: its kind is `part` then.
    public let request: Frame
    let server: LoopbackServer
    let open: OpenExchange

    /// Writes a part of the reply and returns when the kernel has it, so that a client that is slow to read holds up the
    /// body, and no more than this part waits in memory.
    ///
    /// Throws `FrameError` when the codec cannot encode it, which closes the connection.
    public func part(_ body: Bytes) async throws { try await part(Frame(.part, body: body)) }

    /// Writes `frame` as a part of the reply. It is filled in as for `reply`, but its type, where parts have types of their
    /// own.
    public func part(_ frame: Frame) async throws {
        var frame = frame
        frame.kind = .part
        try await server.write(frame, of: open)
    }

    /// Replies with `body`, and returns without waiting for the kernel.
    ///
    /// The exchange is over then: `next` returns `nil`, what is left unread of the request is dropped, and what the client still
    /// sends of it as well.
    public func reply(_ body: Bytes) async throws { try await reply(Frame(.response, body: body)) }

    /// Replies with `frame`. It gets the request's serial, the request's type if its own is 0 (that of the last piece, if
    /// the request came in pieces), and a status of success if its own is 0 and it is not an error response.
    ///
    /// Throws `FrameError` when the codec cannot encode it, which closes the connection, or when there was a reply already.
    public func reply(_ frame: Frame) async throws { try await server.reply(frame, to: open) }

    /// The next frame of the client with the request's serial: a piece of the request, or how much more of the reply it
    /// will take. `nil` after the reply; in protocols without serials there are none.
    ///
    /// Of what nobody asks for, 256 frames or 1 MiB are held; then nothing more is read from the connection, cancel frames and
    /// pings included, until half of that is taken.
    public func next() async throws -> Frame? { try await server.next(of: open) }
}

/// A request whose reaction runs a body, or will. Confined to the server's loop.
///
/// Sendable although it is not checked: those who hold it elsewhere only hand it back to the server, in whose isolation all
/// of it is touched.
final class OpenExchange: @unchecked Sendable {
    enum State {
        case open
        case replied
        /// The client does not want the reply any more, or is gone.
        case ended
    }

    typealias Reader = Continuation<Result<Frame?, CancellationError>>

    let link: UInt64
    let request: Frame
    /// Whether frames of the client find it by its serial.
    let isAddressed: Bool
    var state = State.open
    /// What performs it while the body runs.
    var program: Program?
    var task: Task<Void, Never>?
    /// Whether the client has sent all of the request.
    var isComplete: Bool
    /// The type that a reply has unless it says otherwise.
    var type: UInt32
    /// Frames that nobody has asked for yet, and about how many bytes they are.
    var inbox = Deque<Frame>()
    var inboxBytes = 0
    /// Whether reading is paused on account of these.
    var isCrowded = false
    /// Who waits for a frame.
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

/// A body that waits until the kernel has what it wrote. Leaves its link once, and is told once.
struct PartWriter {
    let id: RequestID
    let open: OpenExchange
    /// How many bytes of the link will have been written then.
    let mark: Int
    /// The transport's `sentMark` at which the kernel has them; `nil` until they are written.
    var takenMark: Int?
    let continuation: Continuation<CancellationError?>
}
