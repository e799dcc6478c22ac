/// How the responses of a protocol find their requests.
public enum ResponseMatching: Sendable, Hashable {
    /// By a serial number that the response repeats, one of `serials`, handed out in order and wrapping.
    case serial(ClosedRange<SerialNumber>)
    /// In the order of the requests (pipelining).
    ///
    /// A server that answers out of turn, leaves an answer out or answers a one-way message shifts all that follow to
    /// the wrong requests, and nothing in such a protocol can tell.
    case inOrder
}

/// Turns the frames of one protocol into bytes and back.
///
/// A codec is a value with the state of *one* link and one direction of view; every new link starts with a fresh copy
/// of the codec that the client was made with. `FrameLayout` is a codec that is declared; write one of your own for a
/// protocol that no layout describes.
///
/// The codec decides each received frame's `kind`, `serial`, `status` and `isErrorResponse`, and marks a frame that is
/// malformed or the last of its link (`Frame.markMalformed(_:)`, `Frame.markLinkEnding()`).
///
/// Three members make a codec. What else a protocol has is a protocol of its own, to which the codec conforms as well:
///
/// | The protocol has | The codec is a |
/// |---|---|
/// | heartbeats | ``HeartbeatCodec`` |
/// | a frame that cancels a request | ``CancellingCodec`` |
/// | a frame that is the last of a link | ``ClosingCodec`` |
/// | a retry delay in its goAway frames | ``GoAwayCodec`` |
/// | messages that the end of the connection ends | ``EndOfStreamCodec`` |
/// | responses that depend on what was sent | ``SentFrameCodec`` |
/// | responses that repeat something of their request | ``ResponseCheckingCodec`` |
/// | requests that must be answered before the next is sent | ``PipeliningCodec`` |
/// | requests that are always answered | ``PostingCodec`` |
/// | responses that must not be kept | ``CachingCodec`` |
/// | pushes about different things | ``PushKeyCodec`` |
/// | fields whose values hold for a link | ``FieldDefaultsCodec`` |
/// | frames by which a client takes more of a reply | ``WindowedCodec`` |
/// | a server side that differs, and test servers | ``ServerSideCodec`` |
///
/// Conform where `FrameCodec` is conformed to, or elsewhere in the same module. A conformance that another module adds, one
/// that a subclass adds, and one that depends on a generic parameter, are not seen by the client. A codec that wraps another conforms to everything
/// that it forwards.
public protocol FrameCodec: Sendable {
    /// How responses find their requests.
    var matching: ResponseMatching { get }

    /// Takes exactly one frame from the front of `input`, or returns `nil` when it is not complete yet.
    ///
    /// Whatever was read before returning `nil` is put back by the caller, unless it was discarded (`input.discard(_:)`): the
    /// next call sees it again at the front, with more behind it. What the codec remembers of it, it may keep. Check a length
    /// against your limit *before* waiting for the body, then call `input.await(_:)` with it so that large frames are read in
    /// one piece. Throw only for bytes that can never become a frame: the link is closed then. A malformed frame whose end is
    /// known can be returned with a mark instead (`Frame.markMalformed(_:)`): it costs one request.
    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame?

    /// Appends the bytes of `frame` to `output`.
    ///
    /// May be called more than once for a frame, and for frames that are then not sent after all.
    ///
    /// Throw for a frame that cannot be sent (too long, a forbidden byte); what was appended is taken back, nothing of
    /// it is written and only this frame's caller sees the error.
    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError)

    // What the library asks, by one call through the witness table of `any FrameCodec`. The names with an underscore are no
    // part of the documented interface and are not for codecs to implement: the extension of each refinement
    // (`CodecRefinements.swift`) does it for codecs that conform to that, and the extension of `FrameCodec` for all others.
    // The compiler chooses the more specialised of the two where a codec declares its conformance to `FrameCodec`.

    mutating func _decodeAll(_ input: inout ReceiveBuffer, into frames: inout [Frame], limit: Int) throws(FrameError)
    mutating func _decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame?
    var _notesSent: Bool { get }
    mutating func _noteSent(_ frame: Frame)
    var _checksResponses: Bool { get }
    func _check(_ response: Frame, against request: Frame) throws(FrameError)
    func _mayPipeline(behind request: Frame) -> Bool
    func _mayPost(_ message: Frame) -> Bool
    func _mayCache(_ response: Frame) -> Bool
    mutating func _setDefaults(from frame: Frame) throws(FrameError)
    func _cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame?
    func _isWindowUpdate(_ frame: Frame) -> Bool
    func _ping(number: UInt64) -> Frame?
    func _pong(answering ping: Frame) -> Frame?
    var _pongsLookLikePings: Bool { get }
    func _closingFrame() -> Frame?
    func _pushKey(of push: Frame) -> PushKey?
    func _retryAfter(in goAway: Frame) -> Duration?
    func _serverSide() -> any FrameCodec
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension FrameCodec {
    /// One dynamic call for a batch of bytes.
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

    public mutating func _decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { nil }
    public var _notesSent: Bool { false }
    public mutating func _noteSent(_ frame: Frame) {}
    public var _checksResponses: Bool { false }
    public func _check(_ response: Frame, against request: Frame) throws(FrameError) {}
    public func _mayPipeline(behind request: Frame) -> Bool { true }
    public func _mayPost(_ message: Frame) -> Bool { true }
    public func _mayCache(_ response: Frame) -> Bool { true }
    public mutating func _setDefaults(from frame: Frame) throws(FrameError) {
        throw FrameError(.malformed, "the codec has no named fields")
    }
    public func _cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { nil }
    public func _isWindowUpdate(_ frame: Frame) -> Bool { false }
    public func _ping(number: UInt64) -> Frame? { nil }
    public func _pong(answering ping: Frame) -> Frame? { nil }
    public var _pongsLookLikePings: Bool { false }
    public func _closingFrame() -> Frame? { nil }
    public func _pushKey(of push: Frame) -> PushKey? { nil }
    public func _retryAfter(in goAway: Frame) -> Duration? { nil }
    public func _serverSide() -> any FrameCodec { self }
}

extension FrameCodec {
    /// Appends every complete frame of `input` to `frames`, for tests of codecs.
    public mutating func decodeAll(_ input: inout ReceiveBuffer, into frames: inout [Frame]) throws(FrameError) {
        try _decodeAll(&input, into: &frames, limit: .max)
    }

    /// Decodes into `frames` what the end of the connection completes. `input` is what `decodeAll` left.
    package mutating func decodeAllAtEnd(_ input: inout ReceiveBuffer, into frames: inout [Frame]) throws(FrameError) {
        while true {
            let mark = input.position
            guard let frame = try _decodeEnd(&input) else { return input.rewind(to: mark) }
            frames.append(frame)
            if input.position == mark { return }
        }
    }

    /// The same codec with `value` in place of what it has at `path`.
    func with<Value>(_ path: WritableKeyPath<Self, Value>, _ value: Value) -> Self {
        var codec = self
        codec[keyPath: path] = value
        return codec
    }
}
