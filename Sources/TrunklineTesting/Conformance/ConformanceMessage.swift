package import Trunkline

/// A frame, or the parts of one message put together: where they are cut depends on how the bytes arrive.
package struct ConformanceMessage: Equatable {
    let last: Frame
    /// The bodies of all parts; `nil` for a message that came in one.
    let parts: [UInt8]?

    /// The messages of `frames` whose end is there.
    package static func complete(in frames: some Sequence<Frame>) -> [ConformanceMessage] {
        var open: [SerialNumber: [UInt8]] = [:]
        var messages: [ConformanceMessage] = []
        for frame in frames {
            if frame.kind == .part {
                open[frame.serial, default: []] += frame.body
            } else if frame.kind == .response, let parts = open.removeValue(forKey: frame.serial) {
                messages.append(ConformanceMessage(last: frame, parts: parts + frame.body))
            } else {
                messages.append(ConformanceMessage(last: frame, parts: nil))
            }
        }
        return messages
    }

    /// Whether both are the same to one who puts the parts together.
    package static func == (a: ConformanceMessage, b: ConformanceMessage) -> Bool {
        if a.parts == nil, b.parts == nil { return a.last == b.last }
        return a.last.kind == b.last.kind && a.last.serial == b.last.serial && a.last.endsLink == b.last.endsLink
            && a.last.isRejection == b.last.isRejection && a.body == b.body
    }

    private var body: [UInt8] { parts ?? Array(last.body) }
}
