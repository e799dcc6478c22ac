/// A place in the outbound order of one connection; higher goes out later. Never used twice, on any link.
@usableFromInline
package typealias OutboundPosition = UInt64

/// The frames on their way out, in order: partly written, encoded, waiting.
///
/// A frame is kept until its last byte is written, and one that has not started can still be removed and survives the
/// loss of a link. Encoding happens just before writing and only into an empty buffer, a batch at a time; what is
/// encoded but not started is encoded again when a removal or a new link asks for it.
///
///     items:   [ done … | head: partly written | encoded … | waiting … ]
///     buffer:           [ written ▲ unwritten           ]
package struct OutboundQueue: Sendable {
    /// A frame and whom to tell about it.
    @usableFromInline
    package struct Item: Sendable {
        @usableFromInline package var frame: Frame
        /// 0 for a frame that nobody waits for: a cancellation, a pong.
        @usableFromInline package var ticket: Ticket
        /// Whether it is of no use on another link: it is about a request that has started on this one, or nobody's.
        @usableFromInline package var belongsToLink: Bool
        /// Whether its owner wants to hear when its last byte was written.
        @usableFromInline package var reportsWritten: Bool
        /// Taken out: it is passed over.
        fileprivate var isRemoved = false
        /// Where its bytes end in the buffer, once it is encoded.
        fileprivate var end = 0

        package init(
            _ frame: consuming Frame,
            ticket: Ticket,
            reportsWritten: Bool = false,
            belongsToLink: Bool = false
        ) {
            self.frame = frame
            self.ticket = ticket
            self.reportsWritten = reportsWritten
            self.belongsToLink = belongsToLink || ticket == 0
        }
    }

    /// What those need to know who decide about sending more.
    @usableFromInline
    package struct Level: Sendable {
        /// The position that the next appended frame gets.
        @usableFromInline package var nextPosition: OutboundPosition = 1
        /// No byte was written of the frame at this position, nor of any after it.
        @usableFromInline package var unstarted: OutboundPosition = 1
        /// About how many bytes are to be written.
        @usableFromInline package var byteCount = 0
        /// How many frames are to be written that belong to their link: cancellations and pongs.
        @usableFromInline package var linkFrameCount = 0
        /// Whether there is a link that takes them, as the connection knows.
        @usableFromInline package var isReady = false

        package init() {}
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
    /// How many frames with ticket 0 are to be written.
    private var linkFrameCount = 0

    /// How much is encoded at once.
    private static let batchBytes = 256 * 1024

    package init() {}

    private var isHeadStarted: Bool { written > writtenDone }

    /// Whether nothing is left to be written.
    package var isEmpty: Bool { head == items.count }

    package var level: Level {
        var level = Level()
        level.nextPosition = nextPosition
        level.unstarted = firstUnstarted
        level.byteCount = byteCount
        level.linkFrameCount = linkFrameCount
        return level
    }

    /// The position that the next appended frame gets.
    package var nextPosition: OutboundPosition { headPosition + UInt64(items.count - head) }

    /// The position of the first frame of which nothing is written.
    package var firstUnstarted: OutboundPosition { headPosition + (isHeadStarted ? 1 : 0) }

    /// The position of the first frame that is not written to its last byte.
    package var firstUnwritten: OutboundPosition { headPosition }

    /// What a frame is taken to cost, for the watermarks.
    @inlinable
    package static func cost(of frame: Frame) -> Int { frame.byteCount + 32 }

    @discardableResult
    package mutating func append(_ item: Item) -> OutboundPosition {
        count(item)
        items.append(item)
        return nextPosition - 1
    }

    /// Takes `new` over and leaves an empty array, with memory for others unless that is large.
    package mutating func append(taking new: inout [Item]) {
        for item in new { count(item) }
        if items.isEmpty {
            swap(&items, &new)  // nothing is copied, as a rule
        } else {
            items.append(contentsOf: new)
            new.removeAll(keepingCapacity: new.count <= 8192)
        }
    }

    private mutating func count(_ item: borrowing Item) {
        byteCount += Self.cost(of: item.frame)
        if item.ticket == 0 { linkFrameCount += 1 }
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

    /// Takes the frame of `ticket`, not 0, out unless a byte of it was written. Returns whether it did. Looks through all.
    package mutating func remove(of ticket: Ticket) -> Bool {
        guard let index = items[head...].firstIndex(where: { $0.ticket == ticket }) else { return false }
        return remove(headPosition + UInt64(index - head)) != nil
    }

    private mutating func markRemoved(_ index: Int) {
        byteCount -= Self.cost(of: items[index].frame)
        if items[index].ticket == 0 { linkFrameCount -= 1 }
        items[index].isRemoved = true
        (items[index].frame.body, items[index].frame.fields) = (Bytes(), [])
    }

    // MARK: Writing

    /// Encodes the next batch unless encoded bytes are still to be written.
    ///
    /// Returns the frames that could not be encoded; they are out of the queue.
    package mutating func encode(using codec: inout any FrameCodec) -> [(item: Item, error: FrameError)] {
        guard buffer.isEmpty else { return [] }
        var refused: [(item: Item, error: FrameError)] = []
        var index = head
        while index < items.count, buffer.appendedCount < Self.batchBytes {
            if !items[index].isRemoved, let error = encodeItem(at: index, using: &codec) {
                refused.append((items[index], error))
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

    /// Counts `length` bytes as written and appends to `reported` the tickets that want to hear of it.
    package mutating func didWrite(_ length: Int, reporting reported: inout [Ticket]) {
        written += length
        buffer.didWrite(length)
        while encodedCount > 0, items[head].end <= written {
            if items[head].reportsWritten, !items[head].isRemoved { reported.append(items[head].ticket) }
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

    /// Forgets the link: what had started is gone, and so are the frames that belong to the link; the others that had
    /// not started go out on the next one. Returns the tickets of those that are gone and had not started.
    @discardableResult
    package mutating func linkLost() -> [Ticket] {
        if isHeadStarted { finishHead() }
        var unsent: [Ticket] = []
        for index in head..<items.count where items[index].belongsToLink && !items[index].isRemoved {
            if items[index].ticket != 0 { unsent.append(items[index].ticket) }
            markRemoved(index)
        }
        forgetEncoding()
        return unsent
    }

    /// Leaves the link to others: what had started, and what belongs to the link, is handed out, to be written to its end
    /// there. The others go out on the next link.
    package mutating func splitOff() -> OutboundQueue {
        var rest = OutboundQueue()
        if isHeadStarted {
            rest = self
            rest.items.removeSubrange((head + 1)...)
            rest.buffer.truncate(to: items[head].end)
            rest.encodedCount = 1
            rest.byteCount = Self.cost(of: items[head].frame)
            rest.linkFrameCount = items[head].ticket == 0 ? 1 : 0
        }
        for item in items[(head + (isHeadStarted ? 1 : 0))...] where item.belongsToLink && !item.isRemoved {
            var item = item
            item.end = 0
            rest.append(item)
        }
        linkLost()
        return rest
    }

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
