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
/// An id in the form of this side's ids is its own serial, so it needs no memory. Any other id, such as a string or a
/// fraction, gets a serial of its own, and is remembered as it was written. No id is forgotten before its answer: the id
/// of a request that is not remembered, because too many are, must be in its frame, and the request is refused. Pings
/// have their ids in their frames too, so that those that stay unanswered need no memory.
struct JSONRPCIDs {
    private let form: JSONRPCCodec.IDs
    /// The remembered ids by their serials, and the serials by the ids.
    private var ids: [SerialNumber: Bytes] = [:]
    private var serials: [Bytes: SerialNumber] = [:]
    /// The serial of the next id. Serials are not used twice.
    private var next = firstSerial
    /// The size of the remembered ids.
    private var size = 0

    private static let firstSerial: SerialNumber = 1 << 63
    /// The largest integer up to which a double represents each one: 2⁵³.
    private static let largestNumber: SerialNumber = 1 << 53
    /// The number of ids that are remembered, and their size in bytes. More than a client keeps requests of the server,
    /// which are at most 24,576 refusals and, by default, 1,088 requests; a client that serves more of them at a time may
    /// have to refuse some.
    static let capacity = 65_536
    static let maximumTotal = 8 << 20
    /// The size of an id in bytes.
    static let maximumSize = 512

    init(_ form: JSONRPCCodec.IDs) { self.form = form }

    // MARK: Received ids

    /// The serial of the request with `id`, a number or a string as it was written, and whether the id is remembered.
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

    /// A serial that nothing is remembered of.
    mutating func serialWithoutMemory() -> SerialNumber {
        defer { next += 1 }
        return next
    }

    /// The serial of an id that needs no memory; 0 for another one.
    func ownSerial(of id: Bytes) -> SerialNumber { number(id) ?? 0 }

    /// The serial of an unanswered request; `nil` if there is none with this id, though a number may have been answered.
    func knownSerial(of id: Bytes) -> SerialNumber? { number(id) ?? serials[id] }

    /// Forgets the id of a request that was answered, or that needs no answer.
    mutating func forget(_ serial: SerialNumber) {
        guard serial >= Self.firstSerial, let id = ids.removeValue(forKey: serial) else { return }
        size -= id.count
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
