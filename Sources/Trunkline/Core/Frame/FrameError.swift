/// Why bytes are not a frame, or a frame cannot become bytes.
///
/// Appears as the `cause` of a `ClientError`: `protocolViolation` when thrown by decoding (the peer's fault, the link
/// is replaced), `invalidRequest` when thrown by encoding (the caller's fault, nothing is written).
public struct FrameError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What kind of mistake it is. There may be more in a later version.
    @nonexhaustive
    public enum Code: Sendable, Hashable {
        /// A length below the minimum, above the limit, or not what its field can hold.
        case illegalLength
        /// A frame without a body where the protocol asks for one.
        case missingBody
        /// Bytes that should have been constant are not.
        case unexpectedBytes
        /// The checksum does not match.
        case checksumMismatch
        /// A repeated field (a trailer) differs from its first occurrence.
        case repetitionMismatch
        /// A response does not repeat what the protocol says it repeats of its request.
        case responseMismatch
        /// A type number that the protocol does not have.
        case unknownType
        /// Anything else a codec wants to refuse.
        case malformed
    }

    /// What kind of mistake it is.
    public var code: Code
    /// What was found and what was expected, for people: one line.
    public var message: String

    /// Makes an error, for codecs.
    ///
    /// The message goes into logs. Control characters, line separators and format characters in it are escaped, and it is
    /// cut off after 2,048 scalars. Leave out what may be a secret: bytes of a body, tokens.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message.asMessage
    }

    /// The code and the message.
    public var description: String { "\(code): \(message)" }
}
