/// Where a request on a link is found.
enum PlaceOnLink: Sendable, Equatable {
    /// It waits for the response with this number: its serial number, if responses are matched by serial.
    case response(SerialNumber)
    case written
}
