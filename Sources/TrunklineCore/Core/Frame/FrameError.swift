/// The reason why bytes are not a valid frame, or why a frame cannot be encoded.
///
/// It appears as the ``ClientError/cause`` of a ``ClientError``. If decoding threw it, the link ends, and the code is
/// `protocolViolation`, or `overloaded` if the error ``exceedsLimit``. If encoding threw it, nothing was written, and
/// the code is `invalidRequest`.
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
        /// A response or part that answers no request, although its serial number is that of one: the request goes on
        /// waiting. See ``ResponseCheckingCodec/check(_:against:)``.
        case unrelatedResponse
        /// A type number that the protocol does not have.
        case unknownType
        /// The bytes or the frame are invalid for another reason.
        case malformed
    }

    /// The kind of the error.
    public var code: Code
    /// Whether the bytes may be valid, but exceed a limit that this side sets, such as `maximumFrameSize`. The sender
    /// has not violated the protocol then, and a request that fails because of it is not sent again.
    public private(set) var exceedsLimit = false
    /// What was found and what was expected: one line, for logs.
    public var message: String
    /// The size in a binary length field, which is also what arbitrary bytes look like.
    private var announcedSize: UInt64?

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

    /// Creates an error for bytes or a frame that exceed a limit of this side, for codecs. Its code is `illegalLength`.
    ///
    /// Throw it for a limit that the user of the codec can change, or that the protocol does not know. Lengths that the
    /// protocol itself does not allow are not a matter of limits: use ``init(_:_:)``.
    ///
    /// - Parameters:
    ///   - message: What was found, and the limit with its name and its value, as in ``init(_:_:)``.
    ///   - announcedSize: The size in bytes that a binary length field announced, or `nil`. If it exceeds
    ///     ``ClientOptions/Inbound-swift.struct/maximumUndecoded`` too, the client takes it for arbitrary bytes, and
    ///     reports a violation of the protocol.
    public init(exceedingLimit message: String, announcedSize: UInt64? = nil) {
        self.init(.illegalLength, message)
        exceedsLimit = true
        self.announcedSize = announcedSize
    }

    /// A violation of the protocol, if the announced size exceeds `maximum`.
    func judged(byMaximum maximum: Int) -> FrameError {
        guard let announcedSize, announcedSize > UInt64(clamping: maximum) else { return self }
        var error = self
        error.exceedsLimit = false
        return error
    }

    /// The code and the message.
    public var description: String { .labelled("\(code)", message) }
}
