import TrunklineCore

extension JSONRPCCodec {
    /// The form of the ids of requests that this side sends.
    @nonexhaustive
    public enum IDs: Sendable, Hashable {
        /// Numbers: `"id":7`.
        case numbers
        /// Strings of digits: `"id":"7"`.
        case strings
    }
}

/// The ids of the peer's requests on one link, until they are answered or dropped.
///
/// An id in the form of this side's ids is its own serial and needs no memory. Any other id gets a serial, and is
/// remembered as it was written. No id is forgotten before its answer: if too many are remembered, the frame of the
/// next request has the id, and the request is refused. Pings have their ids in their frames, so unanswered ones need
/// no memory.
struct JSONRPCIDs {
    private let form: JSONRPCCodec.IDs
    private var ids: [SerialNumber: Bytes] = [:]
    private var serials: [Bytes: SerialNumber] = [:]
    /// Serials are not used twice.
    private var next = firstSerial
    private var size = 0

    private static let firstSerial: SerialNumber = 1 << 63
    /// A double represents each integer up to 2⁵³.
    private static let largestNumber: SerialNumber = 1 << 53
    /// More than a client keeps requests of the server: at most 24,576 refusals and, by default, 1,088 requests. A
    /// client that serves more at a time may have to refuse some.
    static let capacity = 65_536
    static let maximumTotal = 8 << 20
    /// In bytes.
    static let maximumSize = 512

    init(_ form: JSONRPCCodec.IDs) { self.form = form }

    mutating func serial(of id: Bytes) -> (serial: SerialNumber, isRemembered: Bool) {
        if let serial = knownSerial(of: id) { return (serial, true) }
        guard ids.count < Self.capacity, size + id.count <= Self.maximumTotal else {
            return (serialWithoutMemory(), false)
        }
        let serial = next
        next += 1
        let id = id.compacted
        ids[serial] = id
        serials[id] = serial
        size += id.count
        return (serial, true)
    }

    mutating func serialWithoutMemory() -> SerialNumber {
        defer { next += 1 }
        return next
    }

    /// 0 for an id that needs memory.
    func ownSerial(of id: Bytes) -> SerialNumber { number(id) ?? 0 }

    /// `nil` if no request with this id is unanswered. A number may have been answered.
    func knownSerial(of id: Bytes) -> SerialNumber? { number(id) ?? serials[id] }

    mutating func forget(_ serial: SerialNumber) {
        guard serial >= Self.firstSerial, let id = ids.removeValue(forKey: serial) else { return }
        size -= id.count
        if serials[id] == serial { serials[id] = nil }
    }

    /// `nil` if there is another way to write the value.
    private func number(_ id: Bytes) -> SerialNumber? {
        id.withSpan { span in
            var digits = 0..<span.count
            if form == .strings {
                guard span.count > 2, span.isString(digits) else { return nil }
                digits = 1..<span.count - 1
            }
            guard let value = span.integer(in: digits) else { return nil }
            return value <= Self.largestNumber ? value : nil
        }
    }

    func text(of serial: SerialNumber) throws(FrameError) -> Bytes {
        if serial <= Self.largestNumber { return form == .numbers ? "\(serial)" : "\"\(serial)\"" }
        guard let id = ids[serial] else {
            throw FrameError(.malformed, "the link has no request with the serial \(serial) that could be answered")
        }
        return id
    }
}

extension Span<UInt8> {
    /// At most 16 digits. `nil` for anything else, or a leading zero.
    func integer(in range: Range<Int>) -> SerialNumber? {
        guard let first = range.first, range.count <= 16, range.count == 1 || self[first] != 0x30 else { return nil }
        var value: SerialNumber = 0
        for index in range {
            let digit = self[index] &- 0x30
            guard digit < 10 else { return nil }
            value = value * 10 + SerialNumber(digit)
        }
        return value
    }
}
