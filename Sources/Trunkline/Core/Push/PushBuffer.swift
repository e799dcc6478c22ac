/// What the reader of pushes has not yet taken, bounded by count and by bytes.
package struct PushBuffer: Sendable {
    /// What to do with a push when the buffer is full.
    package enum Overflow: Sendable, Equatable {
        case fail, dropOldest, dropNewest, suspendReading
    }

    package enum Element: Sendable, Equatable {
        case frame(Frame)
        /// So many pushes are missing at this place.
        case dropped(Int)
        /// The link was replaced at this place; what was pushed meanwhile is not known.
        case reconnected
    }

    package enum Offer: Equatable, Sendable {
        case taken
        /// It was taken, but nothing more should come until `isRoomy` again.
        case takenButFull
        /// The policy is to end the stream.
        case overflow
    }

    private var elements = Deque<Element>()
    private var frameCount = 0
    private var byteCount = 0
    private let maximumCount: Int
    private let maximumBytes: Int
    private let policy: Overflow

    package init(maximumCount: Int, maximumBytes: Int, policy: Overflow) {
        self.maximumCount = max(1, maximumCount)
        self.maximumBytes = max(1, maximumBytes)
        self.policy = policy
    }

    package var isEmpty: Bool { elements.isEmpty }

    /// Whether reading, suspended because this buffer was full, may go on.
    package var isRoomy: Bool { frameCount <= maximumCount / 2 && byteCount <= maximumBytes / 2 }

    package mutating func offer(_ frame: Frame) -> Offer {
        if frame.malformedReason != nil {
            noteDropped(1)
            return .taken
        }
        let size = frame.byteCount
        let isFull = frameCount >= maximumCount || (frameCount > 0 && byteCount + size > maximumBytes)
        if isFull {
            switch policy {
            case .fail: return .overflow
            case .suspendReading: break
            case .dropNewest:
                noteDropped(1)
                return .taken
            case .dropOldest: dropOldest(toFit: size)
            }
        }
        elements.append(.frame(frame))
        frameCount += 1
        byteCount += size
        let isNowFull = frameCount >= maximumCount || byteCount >= maximumBytes
        return policy == .suspendReading && isNowFull ? .takenButFull : .taken
    }

    package mutating func noteReconnected() {
        // Unread repetitions would grow without bound. Of frames there may be more than the maximum, under `suspendReading`.
        guard elements.last != .reconnected, elements.count / 2 <= max(maximumCount, frameCount) else { return }
        elements.append(.reconnected)
    }

    /// Drops everything.
    package mutating func removeAll() {
        elements = Deque()
        (frameCount, byteCount) = (0, 0)
    }

    package mutating func next() -> Element? {
        guard let element = elements.popFirst() else { return nil }
        if case .frame(let frame) = element {
            frameCount -= 1
            byteCount -= frame.byteCount
        }
        return element
    }

    /// So many pushes that were for this reader, or may have been, are lost.
    package mutating func noteDropped(_ count: Int) {
        if case .dropped(let before)? = elements.last {
            elements[elements.count - 1] = .dropped(before + count)
        } else if elements.last == .reconnected, elements.count >= 2,
            case .dropped(let before) = elements[elements.count - 2]
        {
            // Told before the reconnect instead of after it, so that unread gaps do not grow without bound.
            elements[elements.count - 2] = .dropped(before + count)
        } else {
            elements.append(.dropped(count))
        }
    }

    /// A push found no room, and none that come after it are taken: the last element says so.
    package mutating func noteOverflow() {
        if case .dropped? = elements.last { noteDropped(1) } else { elements.append(.dropped(1)) }
    }

    /// Drops frames from the front until one of `size` bytes fits, and leaves one gap in their place.
    private mutating func dropOldest(toFit size: Int) {
        var dropped = 0
        while frameCount > 0, frameCount >= maximumCount || byteCount + size > maximumBytes, let element = next() {
            switch element {
            case .frame: dropped += 1
            case .dropped(let count): dropped += count
            case .reconnected: break  // the gap that takes its place says as much
            }
        }
        if case .dropped(let count)? = elements.first {
            elements[0] = .dropped(count + dropped)
        } else {
            elements.prepend(.dropped(dropped))
        }
    }
}
