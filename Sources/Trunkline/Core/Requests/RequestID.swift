/// The number of one request, or one-way message, within its client, from the call until after its end. Never reused.
package typealias RequestID = UInt64

/// A request that is on no link, or about to be put on one.
package struct QueuedRequest<Waiter> {
    package let id: RequestID
    package var frame: Frame
    /// The waiter for its outcome.
    package var waiter: Waiter
    /// Whether the request has a response; false for a one-way message, whose outcome is that it is written.
    package let expectsResponse: Bool
    /// The estimated cost of the frame in bytes.
    let cost: Int

    package init(id: RequestID, frame: consuming Frame, waiter: consuming Waiter, expectsResponse: Bool) {
        self.id = id
        cost = OutboundQueue.cost(of: frame)
        self.frame = frame
        self.waiter = waiter
        self.expectsResponse = expectsResponse
    }

    /// The frame and the waiter, moved. Reading the properties copies them; see `RequestQueue.popFirst()`.
    @inline(__always)
    package consuming func contents() -> (frame: Frame, waiter: Waiter) { (frame, waiter) }
}

extension QueuedRequest: Sendable where Waiter: Sendable {}
