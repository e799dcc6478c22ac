/// The reason why bytes are not a valid frame, or why a frame cannot be encoded.
///
/// It appears as the ``ClientError/cause`` of a ``ClientError``: of a `protocolViolation` if decoding threw it, which
/// ends the link, and of an `invalidRequest` if encoding threw it, in which case nothing was written.
public struct FrameError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of a frame error. Later versions may add cases.
    @nonexhaustive
    public enum Code: Sendable, Hashable {
        /// A length that is below the minimum, above the limit or too large for its field.
        case illegalLength
        /// A frame without a body where the protocol requires one.
        case missingBody
        /// Bytes that differ from the constant that the protocol requires.
        case unexpectedBytes
        /// The checksum does not match the bytes that it covers.
        case checksumMismatch
        /// A repeated field, such as a trailer, differs from its first occurrence.
        case repetitionMismatch
        /// A response does not repeat a value of its request that it should repeat.
        case responseMismatch
        /// A type number that the protocol does not have.
        case unknownType
        /// The bytes or the frame are invalid for another reason.
        case malformed
    }

    /// The kind of the error.
    public var code: Code
    /// What was found and what was expected: one line, for logs.
    public var message: String

    /// Creates an error, for codecs.
    ///
    /// - Parameters:
    ///   - code: The kind of the error.
    ///   - message: What was found and what was expected. It appears in logs, so it must not contain secrets, such as
    ///     the bytes of a body or a token. Control characters, line separators and format characters are escaped, and
    ///     the message is cut off after 2,048 scalars.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message.asMessage
    }

    /// The code and the message.
    public var description: String { "\(code): \(message)" }
}
