/// A place in the outbound order of one link; higher goes out later. From 1; never used twice.
package typealias OutboundPosition = UInt64

/// The frames on their way out on one link, in order: partly written, encoded, waiting.
///
/// A frame is kept until its last byte is written, and one that has not started can still be removed, or go out on
/// another link. Encoding happens just before writing and only into an empty buffer, a batch at a time; what is encoded
/// but not started is encoded again after a removal.
///
///     items:   [ done … | head: partly written | encoded … | waiting … ]
///     buffer:           [ written ▲ unwritten           ]
package struct OutboundQueue: Sendable {
    /// A frame and whom to tell about it.
    package struct Item: Sendable {
        package var frame: Frame
        /// 0 for a frame that nobody waits for: a cancellation, a pong.
        package var id: RequestID
        /// Whether it is of no use on another link: it is about a request that has started on this one, or nobody's.
        package var belongsToLink: Bool
        /// Whether its owner wants to hear when its last byte was written.
        package var reportsWritten: Bool
        /// Taken out: it is passed over.
        fileprivate var isRemoved = false
        /// Where its bytes end in the buffer, once it is encoded.
        fileprivate var end = 0

        package init(
            _ frame: consuming Frame,
            id: RequestID,
            reportsWritten: Bool = false,
            belongsToLink: Bool = false
        ) {
            self.frame = frame
            self.id = id
            self.reportsWritten = reportsWritten
            self.belongsToLink = belongsToLink || id == 0
        }
    }

    /// A frame that could not be encoded.
    package struct Refusal: Sendable {
        package let item: Item
        package let position: OutboundPosition
        package let error: FrameError
    }

    /// `items[..<head]` are done; they are dropped together.
    private var items: [Item] = []
    private var head = 0
    private var headPosition: OutboundPosition = 1
    /// How many items from `head` on are in `buffer`. None of them is removed unless it was when they were encoded.
    private var encodedCount = 0
    private var buffer = SendBuffer()
    /// Bytes of `buffer` that were written, and how many of them belong to items that are done.
    private var written = 0
    private var writtenDone = 0
    /// About how many bytes are to be written, for the watermarks.
    package private(set) var byteCount = 0
    /// How many frames with id 0 are to be written: cancellations and heartbeats.
    package private(set) var linkFrameCount = 0

    /// How much is encoded at once.
    private static let batchBytes = 256 * 1024

    package init() {}

    private var isHeadStarted: Bool { written > writtenDone }

    /// Whether nothing is left to be written.
    package var isEmpty: Bool { head == items.count }

    /// The position that the next appended frame gets.
    package var nextPosition: OutboundPosition { headPosition + UInt64(items.count - head) }

    /// The position of the first frame of which nothing is written.
    package var firstUnstarted: OutboundPosition { headPosition + (isHeadStarted ? 1 : 0) }

    /// The position of the first frame that is not written to its last byte.
    package var firstUnwritten: OutboundPosition { headPosition }

    /// What a frame is taken to cost, for the watermarks.
    package static func cost(of frame: Frame) -> Int { frame.byteCount + 32 }

    @discardableResult
    package mutating func append(_ item: consuming Item) -> OutboundPosition {
        count(item)
        items.append(item)
        return nextPosition - 1
    }

    private mutating func count(_ item: borrowing Item) {
        byteCount += Self.cost(of: item.frame)
        if item.id == 0 { linkFrameCount += 1 }
    }

    /// Whether any byte of the frame at `position` was ever written.
    package func hasStarted(_ position: OutboundPosition) -> Bool {
        position < headPosition || (position == headPosition && isHeadStarted)
    }

    /// Takes the frame at `position` out unless a byte of it was written; `nil` then, or when it is out already.
    @discardableResult
    package mutating func remove(_ position: OutboundPosition) -> Item? {
        guard !hasStarted(position), position < nextPosition else { return nil }
        let index = head + Int(position - headPosition)
        let item = items[index]
        guard !item.isRemoved else { return nil }
        markRemoved(index)
        if index < head + encodedCount { unencode() }
        dropDone()
        return item
    }

    /// Takes the frame of `id`, not 0, out unless a byte of it was written. Returns whether it did. Looks through all.
    package mutating func remove(of id: RequestID) -> Bool {
        guard let index = items[head...].firstIndex(where: { $0.id == id }) else { return false }
        return remove(headPosition + UInt64(index - head)) != nil
    }

    private mutating func markRemoved(_ index: Int) {
        byteCount -= Self.cost(of: items[index].frame)
        if items[index].id == 0 { linkFrameCount -= 1 }
        items[index].isRemoved = true
        (items[index].frame.body, items[index].frame.fields) = (Bytes(), [])
    }

    // MARK: Writing

    /// Encodes the next batch unless encoded bytes are still to be written.
    ///
    /// Returns the frames that could not be encoded; they are out of the queue.
    package mutating func encode(using codec: inout any FrameCodec) -> [Refusal] {
        guard buffer.isEmpty else { return [] }
        var refused: [Refusal] = []
        var index = head
        while index < items.count, buffer.appendedCount < Self.batchBytes {
            if !items[index].isRemoved, let error = encodeItem(at: index, using: &codec) {
                refused.append(Refusal(item: items[index], position: headPosition + UInt64(index - head), error: error))
                markRemoved(index)
            }
            items[index].end = buffer.appendedCount
            index += 1
        }
        encodedCount = index - head
        if buffer.isEmpty { forgetEncoding() }
        return refused
    }

    private mutating func encodeItem(at index: Int, using codec: inout any FrameCodec) -> FrameError? {
        let mark = buffer.mark
        let start = buffer.appendedCount
        do throws(FrameError) {
            try codec.encode(items[index].frame, into: &buffer)
            if buffer.appendedCount > start { return nil }
            return FrameError(.malformed, "the codec encoded the frame as no bytes")
        } catch {
            buffer.rollBack(to: mark)
            return error
        }
    }

    /// Calls `body` with the encoded bytes that are to be written next.
    package func withUnwritten<Result>(_ body: ([UnsafeRawBufferPointer]) -> Result) -> Result {
        unsafe buffer.withUnwritten { unsafe body($0) }
    }

    /// How many encoded bytes are to be written.
    package var unwrittenCount: Int { buffer.count }

    /// Calls `body` with every frame whose first byte is among the next `length` bytes, in order. To be called before
    /// `didWrite(_:reporting:)`, which lets go of their bodies.
    package func forEachStarting(within length: Int, _ body: (Frame) -> Void) {
        var (index, start) = (head, writtenDone)
        while index < head + encodedCount, start < written + length {
            // What was removed before it was encoded has no bytes.
            if start >= written, !items[index].isRemoved { body(items[index].frame) }
            start = items[index].end
            index += 1
        }
    }

    /// Counts `length` bytes as written and appends to `reported` the IDs that want to hear of it.
    package mutating func didWrite(_ length: Int, reporting reported: inout [RequestID]) {
        written += length
        buffer.didWrite(length)
        while encodedCount > 0, items[head].end <= written {
            if items[head].reportsWritten, !items[head].isRemoved { reported.append(items[head].id) }
            writtenDone = items[head].end
            finishHead()
        }
        dropDone()
        if buffer.isEmpty { forgetEncoding() }
    }

    /// The first item is done with.
    private mutating func finishHead() {
        if !items[head].isRemoved { markRemoved(head) }
        head += 1
        headPosition += 1
        if encodedCount > 0 { encodedCount -= 1 }
    }

    /// Passes over removed items at the head that nothing encoded counts on, and drops what is done when that is cheap.
    private mutating func dropDone() {
        while encodedCount == 0, head < items.count, items[head].isRemoved { finishHead() }
        if head == items.count {
            items.removeAll(keepingCapacity: items.capacity <= 8192)
            head = 0
        } else if head > 1024, head > items.count / 2 {
            items.removeSubrange(..<head)
            head = 0
        }
    }

    /// Takes out every frame that has not started and may go out on another link, in order.
    package mutating func takeUnstarted() -> [Item] {
        unencode()
        var taken: [Item] = []
        for index in unstartedIndices where !items[index].isRemoved && !items[index].belongsToLink {
            taken.append(items[index])
            markRemoved(index)
        }
        dropDone()
        return taken
    }

    /// The frames, not with id 0, of which nothing is written.
    package var unstartedIDs: [RequestID] {
        unstartedIndices.filter { !items[$0].isRemoved && items[$0].id != 0 }.map { items[$0].id }
    }

    private var unstartedIndices: Range<Int> { (head + (isHeadStarted ? 1 : 0))..<items.count }

    /// Takes back the encoding of every frame that has not started.
    private mutating func unencode() {
        guard isHeadStarted else { return forgetEncoding() }
        buffer.truncate(to: items[head].end)
        encodedCount = 1
    }

    private mutating func forgetEncoding() {
        buffer.reset()
        encodedCount = 0
        written = 0
        writtenDone = 0
        dropDone()
    }

    /// Drops everything. The link, if there is one, can't be used any more: a frame may be half written.
    package mutating func removeAll() {
        while head < items.count { finishHead() }
        forgetEncoding()
    }
}
