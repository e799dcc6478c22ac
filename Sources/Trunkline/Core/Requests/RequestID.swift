/// Names one request, or one-way message, within its client, from the call until after it is over. Never used twice.
@usableFromInline
package typealias RequestID = UInt64

/// A request that is on no link, or about to be put on one.
@usableFromInline
package struct QueuedRequest<Waiter> {
    @usableFromInline package let id: RequestID
    @usableFromInline package var frame: Frame
    /// Who waits for it.
    @usableFromInline package var waiter: Waiter
    /// Whether a response is to come; false for a one-way message, which waits to be written only.
    @usableFromInline package let expectsResponse: Bool

    @inlinable
    package init(id: RequestID, frame: consuming Frame, waiter: consuming Waiter, expectsResponse: Bool) {
        self.id = id
        self.frame = frame
        self.waiter = waiter
        self.expectsResponse = expectsResponse
    }
}

extension QueuedRequest: Sendable where Waiter: Sendable {}
