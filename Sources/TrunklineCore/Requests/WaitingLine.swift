/// Requests that wait their turn, with their frames, in the order in which they came.
///
/// Whoever is given up leaves at once, with the memory of the frame; only the ticket stays behind until it comes up, or
/// until such tickets outnumber the others.
@usableFromInline
package struct WaitingLine: Sendable {
    private var tickets = Deque<Ticket>()
    @usableFromInline var frames = SequentialMap<Frame>()
    /// What the frames cost.
    package private(set) var byteCount = 0

    package init() {}

    @inlinable
    package var isEmpty: Bool { frames.isEmpty }

    /// Whose turn is next; `nil` when nobody waits.
    package mutating func first() -> Ticket? {
        while let ticket = tickets.first {
            if frames.contains(ticket) { return ticket }
            _ = tickets.popFirst()
        }
        return nil
    }

    /// `ticket` must not be in the line.
    package mutating func append(_ ticket: Ticket, _ frame: consuming Frame) {
        byteCount += OutboundQueue.cost(of: frame)
        frames.insert(frame, for: ticket)
        tickets.append(ticket)
        dropDead()
    }

    /// Drops the tickets of requests that left when they outnumber the others.
    package mutating func dropDead() {
        guard tickets.count > 2 * frames.count + 64 else { return }
        let frames = frames
        tickets.removeAll { !frames.contains($0) }
    }

    /// The number of requests for which there is memory.
    package var capacity: Int { max(tickets.capacity, frames.capacity) }

    /// Takes a request out, wherever it is; `nil` when it is not in the line.
    @discardableResult
    package mutating func remove(_ ticket: Ticket) -> Frame? {
        guard let frame = frames.remove(ticket) else { return nil }
        byteCount -= OutboundQueue.cost(of: frame)
        return frame
    }

    package mutating func removeAll() { self = WaitingLine() }
}
