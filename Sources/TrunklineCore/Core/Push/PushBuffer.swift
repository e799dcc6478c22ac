/// The pushes that the reader has not taken yet, bounded by count and by bytes.
package struct PushBuffer: Sendable {
    enum Overflow: Sendable, Equatable {
        case fail, dropOldest, dropNewest, suspendReading
    }

    package enum Element: Sendable, Equatable {
        case frame(Frame)
        /// This many pushes are missing here.
        case dropped(Int)
        /// Pushes may have been missed here.
        case reconnected
    }

    enum Offer: Equatable, Sendable {
        case taken
        /// No more pushes should be offered until `isRoomy`.
        case takenButFull
        /// The push was not taken, and the stream must end.
        case overflow
    }

    private var elements = Deque<Element>()
    private var frameCount = 0
    private var byteCount = 0
    private let maximumCount: Int
    private let maximumBytes: Int
    private let policy: Overflow
    private(set) var overflowCount = 0
    /// Includes those that were dropped later.
    private(set) var takenCount = 0

    init(maximumCount: Int, maximumBytes: Int, policy: Overflow) {
        self.maximumCount = max(1, maximumCount)
        self.maximumBytes = max(1, maximumBytes)
        self.policy = policy
    }

    var isEmpty: Bool { elements.isEmpty }

    var isRoomy: Bool { frameCount <= maximumCount / 2 && byteCount <= maximumBytes / 2 }

    /// `mayExceed`: under `suspendReading`, whether a full buffer takes the push; otherwise the push leaves a gap.
    mutating func offer(_ frame: Frame, mayExceed: Bool = true) -> Offer {
        if frame.malformedReason != nil {
            noteDropped(1)
            return .taken
        }
        let size = frame.byteCount
        let isFull = frameCount >= maximumCount || (frameCount > 0 && byteCount + size > maximumBytes)
        if isFull {
            switch policy {
            case .fail:
                overflowCount += 1
                return .overflow
            case .suspendReading where mayExceed: break
            case .suspendReading, .dropNewest:
                overflowCount += 1
                noteDropped(1)
                return .taken
            case .dropOldest: dropOldest(toFit: size)
            }
        }
        elements.append(.frame(frame))
        takenCount += 1
        frameCount += 1
        byteCount += size
        let isNowFull = frameCount >= maximumCount || byteCount >= maximumBytes
        return policy == .suspendReading && isNowFull ? .takenButFull : .taken
    }

    mutating func noteReconnected() {
        // Unread elements must not grow without bound. Under `suspendReading`, frames may exceed the maximum.
        guard elements.last != .reconnected, elements.count / 2 <= max(maximumCount, frameCount) else { return }
        elements.append(.reconnected)
    }

    mutating func removeAll() {
        elements = Deque()
        (frameCount, byteCount) = (0, 0)
    }

    mutating func next() -> Element? {
        guard let element = elements.popFirst() else { return nil }
        if case .frame(let frame) = element {
            frameCount -= 1
            byteCount -= frame.byteCount
        }
        return element
    }

    mutating func noteDropped(_ count: Int) {
        if case .dropped(let before)? = elements.last {
            elements[elements.count - 1] = .dropped(before + count)
        } else if elements.last == .reconnected, elements.count >= 2,
            case .dropped(let before) = elements[elements.count - 2]
        {
            // The count goes before the reconnect instead of after it, so that unread gaps do not grow without bound.
            elements[elements.count - 2] = .dropped(before + count)
        } else {
            elements.append(.dropped(count))
        }
    }

    /// A push did not fit, and no later one is taken. The last element reports it.
    mutating func noteOverflow() {
        if case .dropped? = elements.last { noteDropped(1) } else { elements.append(.dropped(1)) }
    }

    private mutating func dropOldest(toFit size: Int) {
        var dropped = 0
        while frameCount > 0, frameCount >= maximumCount || byteCount + size > maximumBytes, let element = next() {
            switch element {
            case .frame:
                dropped += 1
                overflowCount += 1
            case .dropped(let count): dropped += count
            case .reconnected: break  // replaced by the gap, which carries the same information
            }
        }
        if case .dropped(let count)? = elements.first {
            elements[0] = .dropped(count + dropped)
        } else {
            elements.prepend(.dropped(dropped))
        }
    }
}
