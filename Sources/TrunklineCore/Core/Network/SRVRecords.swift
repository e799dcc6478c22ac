// DNS messages with SRV records (RFC 1035 §4, RFC 2782). Numbers are in network byte order.

package struct SRVRecord: Hashable, Sendable {
    package let priority: UInt16
    let weight: UInt16
    package let port: UInt16
    /// Without the final dot. Empty if the service is decidedly not available.
    package let target: String

    init(priority: UInt16, weight: UInt16, port: UInt16, target: String) {
        (self.priority, self.weight, self.port, self.target) = (priority, weight, port, target)
    }
}

package enum SRVError: Error, Hashable, Sendable, LoggableError {
    case malformed(String, offset: Int)
    /// The RCODE (RFC 1035 §4.1.1).
    case refused(code: UInt8)
    case noRecords
    case notAvailable

    package var description: String {
        switch self {
        case .malformed(let reason, let offset): "malformed answer: \(reason) at byte \(offset)"
        case .refused(2): "the name server failed (SERVFAIL)"
        case .refused(3): "the name does not exist (NXDOMAIN)"
        case .refused(5): "the name server refused the question (REFUSED)"
        case .refused(let code): "the name server reported the error \(code)"
        case .noRecords: "the name has no SRV records"
        case .notAvailable: "the service is not available: the target of its SRV record is \".\""
        }
    }
}

package struct SRVRecords: Equatable, Sendable {
    let all: [SRVRecord]

    init(_ records: [SRVRecord]) { all = records }

    /// | Offset | Size | Field |
    /// |---|---|---|
    /// | 0 | 2 | identifier |
    /// | 2 | 2 | flags: 0x8000 response, 0x0200 truncated, 0x000f error |
    /// | 4 | 2 | number of questions |
    /// | 6 | 2 | number of answers |
    /// | 8 | 4 | numbers of other records, which are not read |
    /// | 12 | – | questions: name, type (2), class (2) |
    /// | – | – | answers: name, type (2), class (2), lifetime (4), length (2), data |
    ///
    /// SRV data: priority (2), weight (2), port (2), target. Some servers compress the target, which RFC 2782 forbids.
    package init(reading message: [UInt8]) throws(SRVError) {
        var reader = DNSReader(message)
        _ = try reader.integer("identifier")
        let flags = try reader.integer("flags")
        guard flags & 0x8000 != 0 else { throw .malformed("not a response", offset: 2) }
        guard flags & 0x000f == 0 else { throw .refused(code: UInt8(flags & 0x000f)) }
        guard flags & 0x0200 == 0 else { throw .malformed("truncated by the name server", offset: 2) }
        let (questions, answers) = (try reader.integer("number of questions"), try reader.integer("number of answers"))
        try reader.skip(4, "header")
        for _ in 0..<questions {
            _ = try reader.name()
            try reader.skip(4, "question")
        }
        var records: [SRVRecord] = []
        for _ in 0..<answers {
            _ = try reader.name()
            let (type, kind) = (try reader.integer("type"), try reader.integer("class"))
            try reader.skip(4, "lifetime")
            let length = Int(try reader.integer("length"))
            let start = reader.offset
            guard type == 33, kind == 1 else {
                try reader.skip(length, "record")
                continue
            }
            let (priority, weight) = (try reader.integer("priority"), try reader.integer("weight"))
            let (port, target) = (try reader.integer("port"), try reader.hostName())
            guard reader.offset == start + length else {
                throw .malformed("the length of an SRV record is \(length)", offset: start)
            }
            records.append(SRVRecord(priority: priority, weight: weight, port: port, target: target))
        }
        all = records
    }

    /// All records of weight 0 together count as one of weight 1, which is their chance by the algorithm of RFC 2782.
    package func preferred() throws(SRVError) -> [(record: SRVRecord, weight: Double)] {
        // A target "." beside others, and port 0, lead nowhere.
        let usable = all.filter { !$0.target.isEmpty && $0.port != 0 }
        guard let priority = usable.map(\.priority).min() else {
            throw all.contains { $0.target.isEmpty } ? .notAvailable : .noRecords
        }
        let chosen = usable.filter { $0.priority == priority }
        let zeros = chosen.count { $0.weight == 0 }
        return chosen.map { ($0, $0.weight == 0 ? 1 / Double(zeros) : Double($0.weight)) }
    }
}

private struct DNSReader {
    private let bytes: [UInt8]
    private(set) var offset = 0

    /// As many as a name can have labels.
    private static let maximumPointers = 127

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    mutating func integer(_ what: String) throws(SRVError) -> UInt16 {
        guard bytes.count - offset >= 2 else { throw .malformed("the message ends in the \(what)", offset: offset) }
        defer { offset += 2 }
        return UInt16(bytes[offset]) << 8 | UInt16(bytes[offset + 1])
    }

    mutating func skip(_ count: Int, _ what: String) throws(SRVError) {
        guard bytes.count - offset >= count else {
            throw .malformed("the message ends in the \(what)", offset: offset)
        }
        offset += count
    }

    /// A label may contain any byte. The system would read a dot or a zero in it as something else.
    mutating func hostName() throws(SRVError) -> String {
        let start = offset
        let labels = try name()
        let isValid = labels.joined().allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"): true
            default: false
            }
        }
        guard isValid else { throw .malformed("the target of an SRV record is not the name of a host", offset: start) }
        return labels.map { String(decoding: $0, as: UTF8.self) }.joined(separator: ".")
    }

    /// RFC 1035 §4.1.4. Each pointer must lead to a place before the labels that it ends, so a loop is impossible. A
    /// limit for their number, too: thousands of names may each lead to thousands of pointers.
    mutating func name() throws(SRVError) -> [ArraySlice<UInt8>] {
        var labels: [ArraySlice<UInt8>] = []
        var pointers = 0
        var (position, start, length) = (offset, offset, 0)
        /// After the name; `nil` before the first pointer.
        var end: Int?
        while true {
            guard position < bytes.count else { throw .malformed("the message ends in a name", offset: position) }
            let first = Int(bytes[position])
            switch first {
            case 0:
                offset = end ?? position + 1
                return labels
            case 1...63:
                guard bytes.count - position > first else {
                    throw .malformed("the message ends in a name", offset: position)
                }
                length += first + 1
                guard length < 255 else { throw .malformed("a name of more than 255 bytes", offset: position) }
                labels.append(bytes[position + 1...position + first])
                position += first + 1
            case 0xc0...:
                guard bytes.count - position > 1 else {
                    throw .malformed("the message ends in a name", offset: position)
                }
                let target = (first & 0x3f) << 8 | Int(bytes[position + 1])
                guard target < start else { throw .malformed("a pointer that leads forward", offset: position) }
                pointers += 1
                guard pointers <= Self.maximumPointers else {
                    throw .malformed("a name with more than \(Self.maximumPointers) pointers", offset: position)
                }
                if end == nil { end = position + 2 }
                (position, start) = (target, target)
            default: throw .malformed("a label of an unknown kind", offset: position)
            }
        }
    }
}
