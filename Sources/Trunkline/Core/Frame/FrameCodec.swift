/// The rule by which the responses of a protocol are matched with their requests.
public enum ResponseMatching: Sendable, Hashable {
    /// Matched by a serial number, which the response repeats. The client uses the numbers of the range in ascending
    /// order and starts over after the last one.
    case serial(ClosedRange<SerialNumber>)
    /// Matched in the order of the requests (pipelining).
    ///
    /// If the server answers out of order, omits a response or answers a one-way message, every later response goes to
    /// the wrong request. Nothing in such a protocol can detect this.
    case inOrder
}

/// A type that turns the frames of one protocol into bytes and back.
///
/// ``FrameLayout`` and the other codecs of this module conform. Write your own codec for a protocol that they cannot
/// describe; <doc:WritingACodec> shows how. Three members are required:
///
/// ```swift
/// struct NoteCodec: FrameCodec {
///     var matching: ResponseMatching { .serial(1...0xFFFF) }
///
///     mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
///         guard let length = input.integer(at: 0, as: UInt16.self) else { return nil }
///         guard length <= 1000 else { throw FrameError(.illegalLength, "length \(length)") }
///         input.await(4 + Int(length))
///         guard input.skip(2), let serial = input.readInteger(as: UInt16.self),
///             let body = input.readBytes(Int(length))
///         else { return nil }
///         return Frame(.response, serial: SerialNumber(serial), body: body)
///     }
///
///     mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
///         guard frame.body.count <= 1000 else { throw FrameError(.illegalLength, "\(frame.body.count) bytes") }
///         output.append(integer: UInt16(frame.body.count))
///         output.append(integer: UInt16(truncatingIfNeeded: frame.serial))
///         output.append(frame.body)
///     }
/// }
/// ```
///
/// A codec is a value that holds the state of *one* link for one side of the protocol. Every new link starts with a
/// fresh copy of the codec that was passed to the client. Its methods are called on the event loop, so they must not
/// block. If they enter their client or connection with `assumeIsolated`, the program may end.
///
/// The codec decides the ``Frame/kind-swift.property``, ``Frame/serial``, ``Frame/status`` and
/// ``Frame/isErrorResponse`` of each received frame. It marks a frame that is malformed (``Frame/markMalformed(_:)``)
/// and a response that is the last one on its link (``Frame/markLinkEnding()``).
///
/// Check a codec with the conformance kit of TrunklineTesting: ``/TrunklineTesting/CodecConformance``.
///
/// ### The copy that a member is called on
///
/// Members that concern one link are called on the copy of that link, by the client and by the test server, so they may
/// depend on what was sent and received on it. Members that concern the protocol are called on the codec that was passed
/// to the client, some of them in the task of a caller.
///
/// | Called on | Members |
/// |---|---|
/// | the copy of the link | `decode`, `encode`, `decodeEnd`, `noteSent`, `check`, `setDefaults`, `mayPipeline`, `ping`, `pong`, `cancelFrame`, `closingFrame`, `retryAfter` |
/// | the codec that was passed to the client | `matching`, `checksResponses`, `pongsLookLikePings`, `mayPost`, `mayCache`, `isWindowUpdate`, `pushKey`, `serverSide` |
///
/// To find out what the protocol has, the client also calls `ping(number: 0)` and `cancelFrame(for: 0, type:)` on the
/// codec that was passed to it.
///
/// ### Optional capabilities
///
/// For each further capability of a wire protocol there is a Swift protocol, to which the codec also conforms:
///
/// | The protocol has | Conform to |
/// |---|---|
/// | heartbeats | ``HeartbeatCodec`` |
/// | a frame that cancels a request | ``CancellingCodec`` |
/// | a final frame before an orderly close | ``ClosingCodec`` |
/// | a retry delay in its `goAway` frames | ``GoAwayCodec`` |
/// | messages that the end of the connection completes | ``EndOfStreamCodec`` |
/// | responses that depend on what was sent | ``SentFrameCodec`` |
/// | responses that repeat a value of their request | ``ResponseCheckingCodec`` |
/// | requests that must be answered before the next is sent | ``PipeliningCodec`` |
/// | requests that are always answered, so must not be posted | ``PostingCodec`` |
/// | responses that must not be cached | ``CachingCodec`` |
/// | pushes with a topic | ``PushKeyCodec`` |
/// | fields whose values hold for a link | ``FieldDefaultsCodec`` |
/// | frames by which a client accepts more bytes of a reply | ``WindowedCodec`` |
/// | a server side that differs, for test servers | ``ServerSideCodec`` |
///
/// A conformance counts wherever it is declared: with the codec, in another module, by a subclass, or under a condition.
/// A codec that wraps another codec must conform to every protocol whose calls it forwards.
public protocol FrameCodec: Sendable {
    /// How responses are matched with their requests.
    var matching: ResponseMatching { get }

    /// Consumes exactly one frame at the front of `input` and returns it, or returns `nil` if the frame is incomplete.
    ///
    /// Follow these rules:
    /// - Before waiting for the body, check its length against your limit. Then call ``ReceiveBuffer/await(_:)``, so
    ///   that large frames are read in one piece.
    /// - Returning `nil` needs no clean-up. The caller puts back everything that was consumed, except what was
    ///   discarded (``ReceiveBuffer/discard(_:)``), and calls again when more bytes have arrived. The codec's own
    ///   properties keep their values.
    /// - A returned frame must consume at least one byte.
    /// - For a malformed frame whose end is known, return a frame with ``Frame/markMalformed(_:)``: it fails at most
    ///   one request. To make the client ignore a frame, return it with the kind `pong`.
    /// - Whatever the bytes are, the method must not trap, hang or use unlimited memory.
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
    ///   appended is removed, and only the caller of this frame fails, with `invalidRequest`, fate `notSent`. For a ping
    ///   it means that the link has none now: see ``HeartbeatCodec``.
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

    /// Returns a copy of this codec with `value` at `path`.
    func with<Value>(_ path: WritableKeyPath<Self, Value>, _ value: Value) -> Self {
        var codec = self
        codec[keyPath: path] = value
        return codec
    }
}
