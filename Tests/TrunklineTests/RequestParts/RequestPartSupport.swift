import Synchronization
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// A part of a request with more to come, in `.standard`.
func piece(_ body: Bytes) -> Request { Request(type: 0x404, body: body) }

/// The last part of a request, or a whole request.
func whole(_ body: Bytes) -> Request { Request(type: 0x403, body: body) }

/// A window update: how many more bytes of the reply the client takes.
func update(_ body: Bytes) -> Request { Request(type: 0x405, body: body) }

/// The code and the fate of the error of a post, or `nil` if it succeeds.
func failure(
    posting request: Request,
    isPart: Bool = false,
    to stream: ReplyStream<Response>
) async -> String? {
    do throws(ClientError) {
        try await stream.post(request, isPart: isPart)
        return nil
    } catch {
        return "\(error.code) \(error.fate)"
    }
}

/// The lines that a reaction adds, in order.
final class Notes: Sendable {
    private let lines = Lock<[String]>([])
    func add(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }
}

/// Replies with the bodies of all parts of the request, joined.
@Sendable func join(_ exchange: ServerExchange) async throws {
    var body = Array(exchange.request.body)
    var isOver = exchange.request.kind != .part
    while !isOver, let frame = try await exchange.next() {
        body += frame.body
        isOver = frame.kind != .part
    }
    try await exchange.reply(Frame(.response, type: 0x403, body: Bytes(body)))
}

/// The standard layout with very few serials.
func pieceLayout(serials: ClosedRange<UInt64>) -> FrameLayout {
    FrameLayout {
        Field.type(UInt32.self)
        Field.serial(UInt32.self)
        Field.length(UInt32.self, counting: .body)
        Field.body
    }
    .roles {
        $0.ping = 0x1
        $0.push = .types(0x2...0x400)
        $0.cancel = 0x401
        $0.part = 0x404
        $0.serials = serials
    }
}

extension Client {
    /// The ID of the latest request.
    nonisolated var latestRequest: RequestID { RequestID(requestIDs.load(ordering: .relaxed)) }

    /// Adds a part to `request` without waiting until it is written.
    nonisolated func addPart(_ part: Request, isPart: Bool, of request: RequestID, _ stream: ReplyStream<Response>) {
        var frame = part.frame
        if isPart { frame.kind = .part }
        let part = RequestPart(id: commandQueue.nextRequestPartID(), request: request, frame: frame)
        commandQueue.postRequest(.addPart(part, stream.channel))
    }
}

extension ReplyStream<Response> {
    /// The channel of a request of a client.
    fileprivate var channel: ReplyChannel {
        guard let channel = reading.source as? ReplyChannel else { preconditionFailure("not the stream of a client") }
        return channel
    }
}
