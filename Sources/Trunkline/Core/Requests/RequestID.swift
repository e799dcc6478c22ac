/// Names one request, or one-way message, within its client, from the call until after it is over. Never used twice.
package typealias RequestID = UInt64

/// A request that is on no link, or about to be put on one.
package struct QueuedRequest<Waiter> {
    package let id: RequestID
    package var frame: Frame
    /// Who waits for it.
    package var waiter: Waiter
    /// Whether a response is to come; false for a one-way message, which waits to be written only.
    package let expectsResponse: Bool
}

extension QueuedRequest: Sendable where Waiter: Sendable {}
