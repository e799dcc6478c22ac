/// What a recorder keeps of a frame: the header and the size of the body.
package struct FrameHead: Sendable {
    package var kind: Frame.Kind
    package var type: UInt32
    package var serial: SerialNumber
    package var status: UInt32
    package var isErrorResponse: Bool
    package var isMalformed: Bool
    package var endsLink: Bool
    package var hasExtras: Bool
    package var bodyCount: Int

    /// Reads single properties: passing the frame itself would copy it.
    @inline(__always)
    package init(of frame: borrowing Frame) {
        kind = frame.kind
        type = frame.type
        serial = frame.serial
        status = frame.status
        isErrorResponse = frame.isErrorResponse
        isMalformed = frame.malformedReason != nil
        endsLink = frame.linkEnding != nil
        hasExtras = frame.namedFields != nil
        bodyCount = frame.body.count
    }
}
