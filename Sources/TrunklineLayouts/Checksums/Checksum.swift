public import TrunklineCore

/// A checksum that a ``FrameLayout`` puts into frames and verifies.
///
/// Two checksums are equal if they have the same name and width.
public struct Checksum: Sendable, Hashable {
    /// The bytes of a frame that a checksum covers.
    public enum Scope: Sendable, Hashable {
        /// Only the body.
        case body
        /// Everything before the body, and the body. The checksum must come after the body.
        case headerAndBody
    }

    /// Covers a header, which is often empty, and a body, as if they were one run of bytes.
    package enum Algorithm: Sendable {
        /// At most 8 bytes, sent in the byte order of the field.
        case integer(@Sendable (_ header: borrowing RawSpan, _ body: borrowing RawSpan) -> UInt64)
        /// In the order in which they are sent; `nil` if they cannot be computed.
        case bytes(@Sendable (_ header: borrowing RawSpan, _ body: borrowing RawSpan) -> [UInt8]?)
        case unavailable(String)
    }

    package let name: String
    let width: Int
    /// Not compared, because closures cannot be.
    private let uncompared: Uncompared<Algorithm>

    var algorithm: Algorithm { uncompared.value }

    init(_ name: String, width: Int, _ algorithm: Algorithm) {
        self.name = name
        self.width = width
        uncompared = Uncompared(algorithm)
    }

    var isNumber: Bool { if case .integer = algorithm { true } else { false } }

    /// Returns the checksum of `bytes` as an integer, or `nil` for a checksum that is not an integer, such as a digest:
    /// see ``bytes(of:)``.
    public func value(of bytes: Bytes) -> UInt64? {
        guard case .integer(let compute) = algorithm else { return nil }
        return bytes.withSpans(compute)
    }

    /// Returns the bytes of the checksum of `bytes`, or `nil` if this system cannot compute it. An integer is returned
    /// in big-endian order, whatever the byte order of its field.
    public func bytes(of bytes: Bytes) -> [UInt8]? {
        switch algorithm {
        case .integer(let compute):
            let value = bytes.withSpans(compute)
            return (0..<width).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
        case .bytes(let compute): return bytes.withSpans(compute)
        case .unavailable: return nil
        }
    }

    /// Creates a custom checksum that is an unsigned integer. It is as wide as its type (at most 8 bytes) and is sent
    /// in the byte order of its field.
    ///
    /// ```swift
    /// let xor = Checksum("xor") { bytes in bytes.reduce(0 as UInt8, ^) }
    /// ```
    ///
    /// - Parameters:
    ///   - name: The name that errors and byte tables show.
    ///   - compute: Returns the checksum of the covered bytes. It must return the same number for the same bytes.
    ///     Called on the event loop.
    public init<Value: FixedWidthInteger & UnsignedInteger & SendableMetatype>(
        _ name: String,
        _ compute: @escaping @Sendable (_ bytes: Bytes) -> Value
    ) {
        let compute: @Sendable (borrowing RawSpan, borrowing RawSpan) -> UInt64 = { header, body in
            UInt64(truncatingIfNeeded: compute(Bytes(joining: header, body)))
        }
        self.init(name, width: MemoryLayout<Value>.size, .integer(compute))
    }

    /// Creates a custom checksum of `width` bytes, which are sent as `compute` returns them.
    ///
    /// - Parameters:
    ///   - name: The name that errors and byte tables show.
    ///   - width: The number of bytes, 1 to 65,535.
    ///   - compute: Returns the checksum of the covered bytes. If it returns more or fewer than `width` bytes, sending
    ///     the frame fails with `malformed` and receiving it with `checksumMismatch`. Called on the event loop.
    public init(_ name: String, width: Int, _ compute: @escaping @Sendable (_ bytes: Bytes) -> [UInt8]) {
        self.init(name, width: width, .bytes { compute(Bytes(joining: $0, $1)) })
    }
}

extension Bytes {
    fileprivate func withSpans<Result>(_ body: (borrowing RawSpan, borrowing RawSpan) -> Result) -> Result {
        body(RawSpan(), unsafe storage.span.bytes.extracting(start..<start + count))
    }

    fileprivate init(joining first: borrowing RawSpan, _ second: borrowing RawSpan) {
        let storage = unsafe first.withUnsafeBytes { first in
            unsafe second.withUnsafeBytes { second in unsafe Array(first) + Array(second) }
        }
        self.init(storage)
    }
}
