/// A request that is on no link, or about to be put on one.
package struct QueuedRequest: Sendable {
    package enum Progress: Sendable {
        case none
        case admission
        case admissionAndWrite
    }

    package let id: RequestID
    package var frame: Frame
    /// False for a one-way message, whose outcome is that it is written.
    package let expectsResponse: Bool
    package let reports: Progress
    let cost: Int

    package init(id: RequestID, frame: consuming Frame, expectsResponse: Bool, reports: Progress = .none) {
        self.id = id
        cost = OutboundQueue.cost(of: frame)
        self.frame = frame
        self.expectsResponse = expectsResponse
        self.reports = reports
    }

    /// Moves the frame. Reading the property copies it.
    @inline(__always)
    package consuming func contents() -> Frame { frame }
}
