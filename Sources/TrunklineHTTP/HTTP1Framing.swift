import TrunklineCore

/// The fields of a head that determine where the message ends and whether its link ends with it (RFC 9112 §6, §9).
///
/// Rejects every message that two readers could understand differently: request smuggling depends on such messages.
struct HTTP1Framing {
    private(set) var contentLength: Int?
    private(set) var isChunked = false
    private(set) var closes = false
    /// HTTP/1.0 needs `Connection: keep-alive` to keep the link open.
    private(set) var keepsAlive = false
    private(set) var hasHost = false
    private let minor: Int
    private let maximumFields: Int
    private var fieldCount = 0

    init(minor: Int, maximumFields: Int) { (self.minor, self.maximumFields) = (minor, maximumFields) }

    init(_ bytes: Span<UInt8>, _ range: Range<Int>, minor: Int, maximumFields: Int) throws(FrameError) {
        self.init(minor: minor, maximumFields: maximumFields)
        try add(bytes, range)
    }

    /// `range` consists of complete lines. Throws as soon as the fields so far cannot belong to a valid head.
    mutating func add(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(FrameError) {
        var lines = HTTP1FieldLines(range)
        while let (name, value) = try lines.next(in: bytes) {
            fieldCount += 1
            guard fieldCount <= maximumFields else {
                throw FrameError(
                    exceedingLimit: "the head exceeds the limit of \(maximumFields) fields (maximumFields)"
                )
            }
            try note(bytes, name, value)
        }
    }

    private func checkChunks() throws(FrameError) {
        guard isChunked else { return }
        guard contentLength == nil else {
            throw FrameError(.malformed, "both Content-Length and Transfer-Encoding (RFC 9112 §6.3)")
        }
        guard minor > 0 else {
            throw FrameError(.malformed, "Transfer-Encoding in an HTTP/1.0 message (RFC 9112 §6.1)")
        }
    }

    /// Compares the length of the name first: few fields matter here.
    private mutating func note(_ bytes: Span<UInt8>, _ name: Range<Int>, _ value: Range<Int>) throws(FrameError) {
        switch name.count {
        case 4 where HTTP1Grammar.isEqual(bytes, name, "host"):
            guard !hasHost else { throw FrameError(.malformed, "more than one Host (RFC 9112 §3.2)") }
            hasHost = true
        case 10 where HTTP1Grammar.isEqual(bytes, name, "connection"): noteConnection(bytes, value)
        case 14 where HTTP1Grammar.isEqual(bytes, name, "content-length"):
            guard contentLength == nil else {
                throw FrameError(.malformed, "more than one Content-Length (RFC 9112 §6.3)")
            }
            contentLength = try Self.length(bytes, value)
            try checkChunks()
        case 17 where HTTP1Grammar.isEqual(bytes, name, "transfer-encoding"):
            guard !isChunked else { throw FrameError(.malformed, "more than one Transfer-Encoding") }
            // A peer sends other codings only if the request has a TE field.
            guard HTTP1Grammar.isEqual(bytes, value, "chunked") else {
                throw FrameError(.malformed, "a Transfer-Encoding other than chunked (RFC 9112 §6.1)")
            }
            isChunked = true
            try checkChunks()
        default: break
        }
    }

    /// Only digits: no sign, and no list, not even of equal values (RFC 9112 §6.3 permits a reader to reject it).
    private static func length(_ bytes: Span<UInt8>, _ value: Range<Int>) throws(FrameError) -> Int {
        guard !value.isEmpty else { throw FrameError(.malformed, "a Content-Length without a value") }
        var length = 0
        for index in value {
            guard (0x30...0x39).contains(bytes[index]) else {
                throw FrameError(.malformed, "a Content-Length that is not a number (RFC 9112 §6.3)")
            }
            let (product, overflow) = length.multipliedReportingOverflow(by: 10)
            let (sum, carry) = product.addingReportingOverflow(Int(bytes[index]) - 0x30)
            guard !overflow, !carry else {
                throw FrameError(exceedingLimit: "a Content-Length that is too large to represent (RFC 9110 §8.6)")
            }
            length = sum
        }
        return length
    }

    private mutating func noteConnection(_ bytes: Span<UInt8>, _ value: Range<Int>) {
        var start = value.lowerBound
        for index in value.lowerBound...value.upperBound {
            guard index == value.upperBound || bytes[index] == HTTP1Grammar.comma else { continue }
            let option = HTTP1Grammar.trimmed(bytes, start..<index)
            switch option.count {
            case 5 where HTTP1Grammar.isEqual(bytes, option, "close"): closes = true
            case 10 where HTTP1Grammar.isEqual(bytes, option, "keep-alive"): keepsAlive = true
            default: break
            }
            start = index + 1
        }
    }

    /// Whether the link carries no other message after this one (RFC 9112 §9.3).
    var endsLink: Bool { closes || minor == 0 && !keepsAlive }
}
