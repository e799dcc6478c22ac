/// A request that is on no link, or about to be put on one.
package struct QueuedRequest: Sendable {
    /// What a link reports about a request before its end.
    package enum Progress: Sendable {
        case none
        /// That it is on the link.
        case admission
        /// That it is on the link, and that its last byte is written.
        case admissionAndWrite
    }

    package let id: RequestID
    package var frame: Frame
    /// Whether the request has a response; false for a one-way message, whose outcome is that it is written.
    package let expectsResponse: Bool
    package let reports: Progress
    /// The estimated cost of the frame in bytes.
    let cost: Int

    package init(id: RequestID, frame: consuming Frame, expectsResponse: Bool, reports: Progress = .none) {
        self.id = id
        cost = OutboundQueue.cost(of: frame)
        self.frame = frame
        self.expectsResponse = expectsResponse
        self.reports = reports
    }

    /// The frame, moved. Reading the property copies it.
    @inline(__always)
    package consuming func contents() -> Frame { frame }
}
