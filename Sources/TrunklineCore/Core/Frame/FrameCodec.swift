/// The rule by which the responses of a protocol are matched with their requests.
public enum ResponseMatching: Sendable, Hashable {
    /// Matched by a serial number, which the response repeats. The client uses the numbers of the range in ascending
    /// order and starts over after the last one, unless the codec has them drawn at random (``SerialNumberingCodec``).
    ///
    /// A one-way message has the serial 0, which no request has if the range begins at 1. If the range begins at 0, the
    /// server must not answer a one-way message: the client would take the answer for that to the request 0.
    case serial(ClosedRange<SerialNumber>)
    /// Matched in the order of the requests (pipelining).
    ///
    /// If the server answers out of order, omits a response or answers a one-way message, every later response goes to
    /// the wrong request. Nothing in such a protocol can detect this.
    case inOrder
    /// Matched in the order of the requests of a channel, of which a link has several. The codec says which channel a
    /// frame belongs to (``ChannelCodec``).
    case inOrderByChannel
}

extension ResponseMatching {
    package var isInOrder: Bool { self == .inOrder || self == .inOrderByChannel }
}

/// A type that turns the frames of one protocol into bytes and back.
///
/// ``FrameLayout`` and the other codecs of `TrunklineLayouts` conform. Write your own codec for a protocol that they
/// cannot describe. Three members are required: ``matching``, ``decode(_:)`` and ``encode(_:into:)``. For each further
/// capability of a protocol, such as heartbeats, there is a Swift protocol to which the codec also conforms.
/// <doc:WritingACodec> has examples, the rules and all capabilities.
///
/// A codec is a value that holds the state of *one* link for one side of the protocol. Every new link starts with a
/// fresh copy of the codec that was passed to the client. Its methods are called on the event loop, some of them also
/// in the task of a caller (<doc:WritingACodec#The-copy-that-a-member-is-called-on>). They must not block. If they
/// enter their client or connection with `assumeIsolated`, the program may end.
///
/// Check a codec with the conformance kit of TrunklineTesting: ``/TrunklineTesting/CodecConformance``.
public protocol FrameCodec: Sendable {
    /// How responses are matched with their requests.
    var matching: ResponseMatching { get }

    /// Consumes exactly one frame at the front of `input` and returns it, or returns `nil` if the frame is incomplete.
    ///
    /// The codec decides the ``Frame/kind-swift.property``, ``Frame/serial``, ``Frame/status`` and
    /// ``Frame/isErrorResponse`` of the frame, which must consume at least one byte. If the method returns `nil`, the
    /// caller puts back everything that was consumed, except what was discarded (``ReceiveBuffer/discard(_:)``).
    /// Whatever the bytes are, the method must not trap, hang or use unlimited memory. For a malformed frame whose end
    /// is known, return a frame with ``Frame/markMalformed(_:)``: it fails at most one request. See
    /// <doc:WritingACodec#Rules> and <doc:WritingACodec#What-decode-decides>.
    ///
    /// - Parameter input: The received bytes that are not decoded yet.
    /// - Returns: The frame, or `nil` if more bytes are needed.
    /// - Throws: An error for bytes that can never become a frame. It ends the link: requests that were written fail
    ///   with `protocolViolation`, fate `unknown`. For a frame that exceeds a limit of the codec, throw
    ///   ``FrameError/init(exceedingLimit:announcedSize:)``: the code is `overloaded` then, and the request is not
    ///   retried.
    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame?

    /// Appends the bytes of `frame`, at least one, to `output`.
    ///
    /// It may be called more than once for a frame, and for frames that are then not sent, so do not record anything
    /// about sent frames here; see ``SentFrameCodec``.
    ///
    /// - Parameters:
    ///   - frame: The frame to send.
    ///   - output: The buffer to append to. It may hold other frames already.
    /// - Throws: An error for a frame that cannot be sent, for example because it is too long. Everything that was
    ///   appended is removed, and only the caller of this frame fails, with `invalidRequest`, fate `notSent`. For a
    ///   ping it means that the link has none now: see ``HeartbeatCodec``.
    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError)

    /// Decodes at most `limit` complete frames of `input` and appends them to `frames`. The library calls it for each
    /// batch of received bytes; codecs need not implement it.
    ///
    /// It is a requirement so that a batch costs one dynamic call: the compiler specializes the default implementation
    /// for each codec, and calls its `decode` directly.
    mutating func _decodeAll(_ input: inout ReceiveBuffer, into frames: inout [Frame], limit: Int) throws(FrameError)
}

extension FrameCodec {
    /// Calls `decode` until it has no frame, or `limit` times.
    @inlinable
    public mutating func _decodeAll(
        _ input: inout ReceiveBuffer,
        into frames: inout [Frame],
        limit: Int
    ) throws(FrameError) {
        var rest = limit
        while rest > 0, !input.isEmpty {
            rest &-= 1
            let mark = input.position
            guard let frame = try decode(&input) else { return input.rewind(to: mark) }
            guard input.position > mark else {
                throw FrameError(.malformed, "the codec returned a frame but consumed no bytes")
            }
            input.stopAwaiting()
            frames.append(frame)
        }
    }
}

extension FrameCodec {
    /// Decodes all complete frames of `input` and appends them to `frames`, for tests of codecs.
    ///
    /// - Parameters:
    ///   - input: The bytes to decode. The bytes of an incomplete frame remain in it.
    ///   - frames: The array to append to. Frames before an error are appended too.
    /// - Throws: The errors of ``decode(_:)``, and `malformed` if it returns a frame without consuming a byte.
    public mutating func decodeAll(_ input: inout ReceiveBuffer, into frames: inout [Frame]) throws(FrameError) {
        try _decodeAll(&input, into: &frames, limit: .max)
    }

    package func with<Value>(_ path: WritableKeyPath<Self, Value>, _ value: Value) -> Self {
        var codec = self
        codec[keyPath: path] = value
        return codec
    }
}
