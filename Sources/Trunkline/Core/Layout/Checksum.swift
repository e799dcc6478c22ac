/// A checksum that a `FrameLayout` puts into frames and verifies.
///
/// Two checksums are equal when their names and widths are.
public struct Checksum: Sendable, Hashable {
    /// The part of the frame that a checksum is computed over.
    public enum Scope: Sendable, Hashable {
        /// The body alone.
        case body
        /// Everything before the body, and the body. The checksum itself comes after the body.
        case headerAndBody
    }

    /// How it is computed, always over a header (often empty) and a body, as if they were one run of bytes.
    package enum Algorithm: Sendable {
        /// A number of at most eight bytes, sent in the byte order of its field.
        case integer(@Sendable (_ header: borrowing RawSpan, _ body: borrowing RawSpan) -> UInt64)
        /// Bytes in the order in which they are sent; `nil` when they cannot be computed.
        case bytes(@Sendable (_ header: borrowing RawSpan, _ body: borrowing RawSpan) -> [UInt8]?)
        /// Not to be had on this system, for this reason.
        case unavailable(String)
    }

    package let name: String
    /// The number of bytes it takes in a frame.
    let width: Int
    /// What closures do cannot be compared.
    private let uncompared: Uncompared<Algorithm>

    var algorithm: Algorithm { uncompared.value }

    package init(_ name: String, width: Int, _ algorithm: Algorithm) {
        self.name = name
        self.width = width
        uncompared = Uncompared(algorithm)
    }

    /// Whether it is a number, and so has a byte order.
    var isNumber: Bool { if case .integer = algorithm { true } else { false } }

    /// The checksum of `bytes`; `nil` for one that is no number of at most eight bytes, as the digests are not.
    public func value(of bytes: Bytes) -> UInt64? {
        guard case .integer(let compute) = algorithm else { return nil }
        return bytes.withSpans(compute)
    }

    /// The checksum of `bytes` as it is sent, a number in big-endian order; `nil` when this system cannot compute it.
    public func bytes(of bytes: Bytes) -> [UInt8]? {
        switch algorithm {
        case .integer(let compute):
            let value = bytes.withSpans(compute)
            return (0..<width).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
        case .bytes(let compute): return bytes.withSpans(compute)
        case .unavailable: return nil
        }
    }

    // MARK: The user's own

    /// A checksum of the protocol's own that is an unsigned integer, as wide as its type (at most 8 bytes) and in the
    /// field's byte order.
    ///
    /// ```swift
    /// let xor = Checksum("xor") { bytes in bytes.reduce(0 as UInt8, ^) }
    /// ```
    ///
    /// `compute` is given the bytes that the checksum covers, and must give the same number for the same bytes.
    public init<Value: FixedWidthInteger & UnsignedInteger & SendableMetatype>(
        _ name: String,
        _ compute: @escaping @Sendable (_ bytes: Bytes) -> Value
    ) {
        let compute: @Sendable (borrowing RawSpan, borrowing RawSpan) -> UInt64 = { header, body in
            UInt64(truncatingIfNeeded: compute(Bytes(joining: header, body)))
        }
        self.init(name, width: MemoryLayout<Value>.size, .integer(compute))
    }

    /// A checksum of the protocol's own that has `width` bytes (1 to 65535), sent as `compute` returns them.
    ///
    /// `compute` is given the bytes that the checksum covers. A frame for which it returns more or fewer than `width`
    /// bytes is refused as `malformed` when sent and as `checksumMismatch` when received.
    public init(_ name: String, width: Int, _ compute: @escaping @Sendable (_ bytes: Bytes) -> [UInt8]) {
        self.init(name, width: width, .bytes { compute(Bytes(joining: $0, $1)) })
    }
}

extension Bytes {
    /// Calls `body` with no bytes, as a header, and with these.
    fileprivate func withSpans<Result>(_ body: (borrowing RawSpan, borrowing RawSpan) -> Result) -> Result {
        body(RawSpan(), unsafe storage.span.bytes.extracting(start..<start + count))
    }

    /// A copy of `first` and then `second`.
    fileprivate init(joining first: borrowing RawSpan, _ second: borrowing RawSpan) {
        let storage = unsafe first.withUnsafeBytes { first in
            unsafe second.withUnsafeBytes { second in unsafe Array(first) + Array(second) }
        }
        self.init(storage)
    }
}
