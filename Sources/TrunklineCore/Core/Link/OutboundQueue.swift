/// The outbound frames of one link, in order. A frame of which nothing was written can be removed, or moved to another
/// link. Frames are encoded just before writing, one batch at a time, and only into an empty buffer. After a removal,
/// the frames that were encoded but not started are encoded again.
///
///     items:   [ done … | head: partly written | encoded … | waiting … ]
///     buffer:           [ written ▲ unwritten           ]
package struct OutboundQueue: Sendable {
    struct Item: Sendable {
        var frame: Frame
        /// `nil` for a frame that is no request, such as a cancel frame or a pong.
        var id: RequestID?
        /// Whether the frame concerns a request that has started on this link, or is no request.
        var belongsToLink: Bool
        var reportsWritten: Bool
        fileprivate var isRemoved = false
        fileprivate var end = 0

        init(
            _ frame: consuming Frame,
            id: RequestID?,
            reportsWritten: Bool = false,
            belongsToLink: Bool = false
        ) {
            self.frame = frame
            self.id = id
            self.reportsWritten = reportsWritten
            self.belongsToLink = belongsToLink || id == nil
        }
    }

    package struct Refusal: Sendable {
        let item: Item
        let position: OutboundPosition
        let error: FrameError
    }

    /// The items before `head` are complete. They are removed together.
    private var items: [Item] = []
    private var head = 0
    private var headPosition = OutboundPosition.first
    /// The number of items from `head` on in `buffer`. None of these was removed after it was encoded.
    private var encodedCount = 0
    private var buffer = SendBuffer()
    /// The number of bytes of `buffer` that were written, and how many of these belong to complete items.
    private var written = 0
    private var writtenDone = 0
    private(set) var byteCount = 0
    private(set) var linkFrameCount = 0

    private static let batchBytes = 256 * 1024

    private let maximumFrameSize: Int

    init(maximumFrameSize: Int = .max) { self.maximumFrameSize = maximumFrameSize }

    private var isHeadStarted: Bool { written > writtenDone }

    var isEmpty: Bool { head == items.count }

    var nextPosition: OutboundPosition { headPosition.advanced(by: items.count - head) }

    var firstUnstarted: OutboundPosition { headPosition.advanced(by: isHeadStarted ? 1 : 0) }

    var firstUnwritten: OutboundPosition { headPosition }

    var firstUnencoded: OutboundPosition { headPosition.advanced(by: encodedCount) }

    @discardableResult
    mutating func append(_ item: consuming Item) -> OutboundPosition {
        count(item)
        items.append(item)
        return nextPosition.advanced(by: -1)
    }

    private mutating func count(_ item: borrowing Item) {
        byteCount += item.frame.queueCost
        if item.id == nil { linkFrameCount += 1 }
    }

    func hasStarted(_ position: OutboundPosition) -> Bool {
        position < headPosition || (position == headPosition && isHeadStarted)
    }

    /// Returns `nil` if a byte of the frame was written, or if it was removed already.
    @discardableResult
    mutating func remove(_ position: OutboundPosition) -> Item? {
        guard !hasStarted(position), position < nextPosition else { return nil }
        let index = head + headPosition.distance(to: position)
        let item = items[index]
        guard !item.isRemoved else { return nil }
        markRemoved(index)
        if index < head + encodedCount { unencode() }
        dropDone()
        return item
    }

    private mutating func markRemoved(_ index: Int) {
        byteCount -= items[index].frame.queueCost
        if items[index].id == nil { linkFrameCount -= 1 }
        items[index].isRemoved = true
        (items[index].frame.body, items[index].frame.namedFields) = (Bytes(), nil)
    }

    // MARK: Writing

    /// Returns the frames that could not be encoded. They are removed from the queue.
    package mutating func encode(using codec: inout any FrameCodec) -> [Refusal] {
        guard buffer.isEmpty, head < items.count else { return [] }
        var refusals: [Refusal] = []
        encode(using: &codec, &refusals)
        if buffer.isEmpty { forgetEncoding() }
        return refusals
    }

    /// The codec is opened here once, and not for each frame.
    private mutating func encode(using codec: inout some FrameCodec, _ refusals: inout [Refusal]) {
        var index = head
        while index < items.count, buffer.appendedCount < Self.batchBytes {
            if !items[index].isRemoved,
                let error = items[index].encode(into: &buffer, using: &codec, maximumFrameSize)
            {
                let position = headPosition.advanced(by: index - head)
                refusals.append(Refusal(item: items[index], position: position, error: error))
                markRemoved(index)
            }
            items[index].end = buffer.appendedCount
            index += 1
        }
        encodedCount = index - head
    }

    func withUnwritten<Result>(_ body: (BytePieces) -> Result) -> Result {
        unsafe buffer.withUnwritten { unsafe body($0) }
    }

    func withUnwrittenFrames<Result>(_ body: (BytePieces) -> Result) -> Result {
        unsafe buffer.withAllBytes { bytes in
            var pieces: [UnsafeRawBufferPointer] = unsafe []
            var start = writtenDone
            for item in items[head..<head + encodedCount] where item.end > start {
                unsafe pieces.append(UnsafeRawBufferPointer(rebasing: bytes[start..<item.end]))
                start = item.end
            }
            return unsafe pieces.withUnsafeBufferPointer(body)
        }
    }

    var unwrittenCount: Int { buffer.count }

    /// Call this before `didWrite(_:reporting:)`, which releases the bodies of the frames.
    func forEachStarting(within length: Int, _ body: (Frame) -> Void) {
        var (index, start) = (head, writtenDone)
        while index < head + encodedCount, start < written + length {
            // A frame that was removed before encoding has no bytes.
            if start >= written, !items[index].isRemoved { body(items[index].frame) }
            start = items[index].end
            index += 1
        }
    }

    /// For recorders. No frame is copied.
    @inline(__always)
    package func forEachHeadStarting(
        within length: Int,
        _ body: (FrameHead, RequestID?, _ isReported: Bool, OutboundPosition) -> Void
    ) {
        let span = items.span
        var start = writtenDone
        for index in head..<head + encodedCount {
            if start >= written + length { break }
            if start >= written, !span[index].isRemoved {
                let position = headPosition.advanced(by: index &- head)
                body(FrameHead(of: span[index].frame), span[index].id, span[index].reportsWritten, position)
            }
            start = span[index].end
        }
    }

    package func frame(at position: OutboundPosition) -> Frame? {
        guard position >= headPosition, position < nextPosition else { return nil }
        let item = items[head + headPosition.distance(to: position)]
        return item.isRemoved ? nil : item.frame
    }

    /// Appends to `reported` the IDs of the frames that are now complete and asked for a report.
    @discardableResult
    mutating func didWrite(_ length: Int, reporting reported: inout [RequestID]) -> Int {
        var requests: [RequestID] = []
        return didWrite(length, reporting: &reported, requests: &requests, isEveryRequestWanted: false)
    }

    /// Also appends to `requests` the IDs of all requests that are now complete, without parts of requests.
    mutating func didWrite(
        _ length: Int,
        reporting reported: inout [RequestID],
        requests: inout [RequestID],
        isEveryRequestWanted: Bool = true
    ) -> Int {
        var count = 0
        written += length
        buffer.didWrite(length)
        while encodedCount > 0, items[head].end <= written {
            if !items[head].isRemoved {
                count += 1
                if items[head].reportsWritten, let id = items[head].id { reported.append(id) }
                if isEveryRequestWanted, !items[head].belongsToLink, let id = items[head].id { requests.append(id) }
            }
            writtenDone = items[head].end
            finishHead()
        }
        dropDone()
        if buffer.isEmpty { forgetEncoding() }
        return count
    }

    private mutating func finishHead() {
        if !items[head].isRemoved { markRemoved(head) }
        head += 1
        headPosition = headPosition.advanced(by: 1)
        if encodedCount > 0 { encodedCount -= 1 }
    }

    private mutating func dropDone() {
        while encodedCount == 0, head < items.count, items[head].isRemoved { finishHead() }
        if head == 0 { return }
        if head == items.count {
            // With one request at a time, `removeAll` would take 100 instructions more.
            let isSmall = items.capacity <= 8192
            if head == 1, isSmall { items.removeLast() } else { items.removeAll(keepingCapacity: isSmall) }
            head = 0
        } else if head > 1024, head > items.count / 2 {
            items.removeSubrange(..<head)
            head = 0
        }
    }

    mutating func takeUnstarted() -> [Item] {
        unencode()
        var taken: [Item] = []
        for index in unstartedIndices where !items[index].isRemoved && !items[index].belongsToLink {
            taken.append(items[index])
            markRemoved(index)
        }
        dropDone()
        return taken
    }

    var unstartedIDs: [RequestID] {
        unstartedIndices.compactMap { items[$0].isRemoved ? nil : items[$0].id }
    }

    private var unstartedIndices: Range<Int> { (head + (isHeadStarted ? 1 : 0))..<items.count }

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

    /// The link cannot be used any more, because a frame may be partly written.
    mutating func removeAll() {
        while head < items.count { finishHead() }
        forgetEncoding()
    }
}

extension OutboundQueue.Item {
    /// The frame is moved out and back: passed from its place, it would be copied, with four atomic operations.
    @inline(__always)
    fileprivate mutating func encode(
        into buffer: inout SendBuffer,
        using codec: inout some FrameCodec,
        _ maximumSize: Int
    ) -> FrameError? {
        let frame = exchange(&self.frame, with: Frame(.pong))
        defer { self.frame = frame }
        let mark = buffer.mark
        let start = buffer.appendedCount
        do throws(FrameError) {
            try codec.encode(frame, into: &buffer)
            let size = buffer.appendedCount &- start
            if size > maximumSize {
                buffer.rollBack(to: mark)
                return .exceedingDatagram(size, maximumSize)
            }
            if size > 0 { return nil }
            return FrameError(.malformed, "the codec encoded the frame as zero bytes")
        } catch {
            buffer.rollBack(to: mark)
            return error
        }
    }
}

extension FrameError {
    @inline(never)
    fileprivate static func exceedingDatagram(_ size: Int, _ maximum: Int) -> FrameError {
        let limit = "connecting.maximumDatagramSize is \(maximum)"
        return FrameError(exceedingLimit: "the frame of \(size) bytes does not fit into a datagram (\(limit))")
    }
}
