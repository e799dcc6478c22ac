import Trunkline

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

/// The ids of the peer's requests on one link, until they are answered.
///
/// An id in the form of this side's ids is its own serial, so it needs no memory. Any other id, such as a string or a
/// fraction, gets a serial of its own, and is remembered as it was written.
struct JSONRPCIDs {
    private let form: JSONRPCCodec.IDs
    /// The remembered ids by their serials, and the serials by the ids.
    private var ids: [SerialNumber: Bytes] = [:]
    private var serials: [Bytes: SerialNumber] = [:]
    /// The serial of the next id. Serials are not used twice.
    private var next = firstSerial
    /// No remembered id has a lower serial.
    private var oldest = firstSerial

    private static let firstSerial: SerialNumber = 1 << 63
    /// The largest integer up to which a double represents each one: 2⁵³.
    private static let largestNumber: SerialNumber = 1 << 53
    /// The number of ids that are remembered. More than a client keeps requests of the server, which are at most
    /// 8,192 refusals and, by default, 1,088 requests.
    static let capacity = 16_384
    /// The size of an id in bytes.
    static let maximumSize = 512

    init(_ form: JSONRPCCodec.IDs) { self.form = form }

    // MARK: Received ids

    /// The serial of the request with `id`, a number or a string as it was written.
    mutating func serial(of id: Bytes) -> SerialNumber {
        if let serial = knownSerial(of: id) { return serial }
        let serial = remember(id.compacted)
        serials[id.compacted] = serial
        return serial
    }

    /// The serial of a request without a valid id. Its answer has the id `null` (JSON-RPC 2.0, section 5).
    mutating func serialWithoutID() -> SerialNumber { remember("null") }

    /// The serial of an unanswered request; `nil` if there is none with this id, though a number may have been answered.
    func knownSerial(of id: Bytes) -> SerialNumber? { number(id) ?? serials[id] }

    private mutating func remember(_ id: Bytes) -> SerialNumber {
        if ids.count == Self.capacity { forgetOldest() }
        defer { next += 1 }
        ids[next] = id
        return next
    }

    private mutating func forgetOldest() {
        while oldest < next, ids[oldest] == nil { oldest += 1 }
        forget(oldest)
    }

    /// Forgets the id of a request that was answered, or that needs no answer.
    mutating func forget(_ serial: SerialNumber) {
        guard serial >= Self.firstSerial, let id = ids.removeValue(forKey: serial) else { return }
        if serials[id] == serial { serials[id] = nil }
    }

    /// The value of an id in the form of this side's ids, if it is the only way to write that value.
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

    // MARK: Sent ids

    /// The id of a request, as it is written.
    func text(of serial: SerialNumber) throws(FrameError) -> Bytes {
        if serial <= Self.largestNumber { return form == .numbers ? "\(serial)" : "\"\(serial)\"" }
        guard let id = ids[serial] else {
            throw FrameError(.malformed, "the link has no request with the serial \(serial) that could be answered")
        }
        return id
    }
}

extension Span<UInt8> {
    /// The integer that consists of the digits in `range`, at most 16. `nil` if there is anything else, or a leading zero.
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
