/// A place in the outbound order of one connection; higher goes out later. Never used twice, on any link.
@usableFromInline
package typealias OutboundPosition = UInt64

/// The frames on their way out, in order: waiting, encoded, partly written.
///
/// A frame is kept until its first byte is written, so that one that has not started can still be removed, and
/// survives the loss of a link. Encoding happens just before writing and only into an empty buffer, a batch at a time;
/// what is encoded but not started is encoded again when a removal or a new link asks for it.
@usableFromInline
package struct OutboundQueue: Sendable {
    /// A frame and whom to tell about it.
    @usableFromInline
    package struct Item: Sendable {
        package var frame: Frame
        /// 0 for a frame that belongs to its link and is of no use on another: a cancellation, a pong.
        package var ticket: Ticket
        /// Whether its owner wants to hear when its last byte was written.
        package var reportsWritten: Bool

        package init(_ frame: Frame, ticket: Ticket, reportsWritten: Bool = false) {
            self.frame = frame
            self.ticket = ticket
            self.reportsWritten = reportsWritten
        }
    }

    /// Frames of which no byte was written; `nil` marks a removed one. The first has position `firstPosition`.
    private var waiting = Deque<Item?>()
    private var firstPosition: OutboundPosition = 1
    /// The encoded bytes of the frame that is partly written and of the first frames of `waiting`.
    private var buffer = SendBuffer()
    /// Where the encoded frames lie in `buffer`, in order.
    private var encoded = Deque<Encoded>()
    /// Whether the first of `encoded` is partly written and so no longer in `waiting`.
    private var hasStartedFirst = false
    /// Bytes of `buffer` that were written.
    private var written = 0
    /// An estimate of the bytes in `waiting`, for the watermarks.
    private var waitingBytes = 0

    private struct Encoded {
        /// Its bytes in `buffer`. Empty for a removed frame between others, which keeps positions in step.
        var start: Int
        var end: Int
        /// Where to `rollBack(to:)` so that this frame is the last one.
        var mark: SendBuffer.Mark
        var ticket: Ticket
        var reportsWritten: Bool
    }

    /// How much is encoded at once.
    private static let batchBytes = 256 * 1024
    /// What a frame is taken to cost beside its body.
    private static let overhead = 32

    package init() {}

    /// About how many bytes are to be written.
    package var byteCount: Int { waitingBytes + (hasStartedFirst ? buffer.count : 0) }

    /// Whether nothing is left to be written.
    package var isEmpty: Bool { waiting.isEmpty && buffer.isEmpty }

    /// The position that the next appended frame gets.
    package var nextPosition: OutboundPosition { firstPosition + UInt64(waiting.count) }

    @discardableResult
    package mutating func append(_ item: Item) -> OutboundPosition {
        waiting.append(item)
        waitingBytes += Self.cost(item)
        return nextPosition - 1
    }

    /// No byte was written of the frame at this position, nor of any after it.
    package var unstartedPosition: OutboundPosition { firstPosition }

    /// Whether any byte of the frame at `position` was ever written.
    package func hasStarted(_ position: OutboundPosition) -> Bool { position < firstPosition }

    /// Takes the frame at `position` out unless a byte of it was written; `nil` then, or when it is out already.
    @discardableResult
    package mutating func remove(_ position: OutboundPosition) -> Item? {
        guard position >= firstPosition, position - firstPosition < UInt64(waiting.count) else { return nil }
        let index = Int(position - firstPosition)
        guard let item = waiting[index] else { return nil }
        let isEncoded = index < encoded.count - (hasStartedFirst ? 1 : 0)
        waiting[index] = nil
        if isEncoded { unencode() }
        waitingBytes -= Self.cost(item)
        if encoded.isEmpty { forgetEncoding() }
        return item
    }

    // MARK: Writing

    /// Encodes the next batch unless encoded bytes are still to be written.
    ///
    /// Returns the frames that could not be encoded; they are out of the queue.
    package mutating func encode(using codec: inout any FrameCodec) -> [(item: Item, error: FrameError)] {
        guard buffer.isEmpty else { return [] }
        var refused: [(item: Item, error: FrameError)] = []
        var index = 0
        while index < waiting.count, buffer.appendedCount < Self.batchBytes {
            let before = buffer.mark
            let start = buffer.appendedCount
            if let item = waiting[index] {
                do throws(FrameError) {
                    try codec.encode(item.frame, into: &buffer)
                    guard buffer.appendedCount > start else {
                        throw FrameError(.malformed, "the codec encoded the frame as no bytes")
                    }
                } catch {
                    buffer.rollBack(to: before)
                    refused.append((item, error))
                    waiting[index] = nil
                    waitingBytes -= Self.cost(item)
                }
            }
            let item = waiting[index]
            encoded.append(
                Encoded(
                    start: start,
                    end: buffer.appendedCount,
                    mark: buffer.mark,
                    ticket: item?.ticket ?? 0,
                    reportsWritten: item?.reportsWritten ?? false
                )
            )
            index += 1
        }
        if buffer.isEmpty { forgetEncoding() }
        return refused
    }

    /// Calls `body` with the encoded bytes that are to be written next.
    package func withUnwritten<Result>(_ body: ([UnsafeRawBufferPointer]) -> Result) -> Result {
        unsafe buffer.withUnwritten { unsafe body($0) }
    }

    /// How many encoded bytes are to be written.
    package var encodedCount: Int { buffer.count }

    /// Counts `length` bytes as written and appends to `reported` the tickets that want to hear of it.
    package mutating func didWrite(_ length: Int, reporting reported: inout [Ticket]) {
        written += length
        buffer.didWrite(length)
        while let first = encoded.first, first.start < written {
            if !hasStartedFirst { start() }
            hasStartedFirst = first.end > written
            if hasStartedFirst { return }
            if first.reportsWritten { reported.append(first.ticket) }
            _ = encoded.popFirst()
        }
        if buffer.isEmpty { forgetEncoding() }
    }

    /// The first frame of `waiting` has started.
    private mutating func start() {
        guard let slot = waiting.popFirst() else { return }
        firstPosition += 1
        if let item = slot { waitingBytes -= Self.cost(item) }
    }

    /// Forgets the link: what had started is gone, and so are the frames that belong to the link; the others that had
    /// not started go out on the next one.
    package mutating func linkLost() {
        for index in 0..<waiting.count {
            guard let item = waiting[index], item.ticket == 0 else { continue }
            waiting[index] = nil
            waitingBytes -= Self.cost(item)
        }
        forgetEncoding()
    }

    /// Takes back the encoding of every frame that has not started.
    private mutating func unencode() {
        guard hasStartedFirst, let first = encoded.first else { return forgetEncoding() }
        buffer.rollBack(to: first.mark)
        encoded.removeAll()
        encoded.append(first)
    }

    private mutating func forgetEncoding() {
        buffer.reset()
        encoded.removeAll()
        hasStartedFirst = false
        written = 0
        // Nothing encoded counts on removed frames at the front any more.
        while case .some(.none) = waiting.first {
            _ = waiting.popFirst()
            firstPosition += 1
        }
    }

    private static func cost(_ item: Item) -> Int { item.frame.body.count + overhead }

    /// Takes every frame out that has not started, for those who wait for them to be told.
    package mutating func removeAll() -> [Item] {
        unencode()
        var items: [Item] = []
        while let slot = waiting.popFirst() {
            firstPosition += 1
            if let item = slot { items.append(item) }
        }
        waitingBytes = 0
        return items
    }
}
