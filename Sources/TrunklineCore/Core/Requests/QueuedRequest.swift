/// A request that is on no link, or about to be put on one.
struct QueuedRequest: Sendable {
    enum Progress: Sendable {
        case none
        case admission
        case admissionAndWrite
    }

    let id: RequestID
    var frame: Frame
    /// False for a one-way message, whose outcome is that it is written.
    let expectsResponse: Bool
    let reports: Progress
    let cost: Int

    init(id: RequestID, frame: consuming Frame, expectsResponse: Bool, reports: Progress = .none) {
        self.id = id
        cost = frame.queueCost
        self.frame = frame
        self.expectsResponse = expectsResponse
        self.reports = reports
    }

    /// Moves the frame. Reading the property copies it.
    @inline(__always)
    consuming func contents() -> Frame { frame }
}

/// Where a request on a link is found.
enum PlaceOnLink: Sendable, Equatable {
    /// It waits for the response with this number: its serial number, if responses are matched by serial.
    case response(SerialNumber)
    case written
}
