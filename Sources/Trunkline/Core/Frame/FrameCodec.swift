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
/// The codec decides each received frame's `kind`, `serial`, `status` and `isErrorResponse`.
public protocol FrameCodec: Sendable {
    /// How responses find their requests.
    var matching: ResponseMatching { get }

    /// Takes exactly one frame from the front of `input`, or returns `nil` when it is not complete yet.
    ///
    /// Whatever was read before returning `nil` is put back by the caller, unless it was discarded (`input.discard(_:)`): the
    /// next call sees it again at the front, with more behind it. What the codec remembers of it, it may keep. Check a length against your limit *before*
    /// waiting for the body, then call `input.await(_:)` with it so that large frames are read in one piece.
    /// Throw only for bytes that can never become a frame: the link is closed then. A frame that is no good, but whose end
    /// is known, can be returned with its `malformedReason` instead: it costs one request.
    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame?

    /// The server has closed its side in good order: the frame that this completes, if any. `input` holds what was not
    /// decoded, perhaps nothing.
    ///
    /// Called until it returns `nil`, consumes nothing or throws. For protocols in which the end of the connection ends a
    /// message (HTTP's bodies without a length); what is left over is dropped.
    mutating func decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame?

    /// Whether `noteSent` is to be called.
    var notesSent: Bool { get }

    /// The first byte of `frame` went out on this link; called once for each frame, in the order in which they are on the
    /// wire, before anything is decoded that the server may have answered.
    ///
    /// For codecs that must know what a response answers (HTTP's `HEAD` has a response without its body). Do not take
    /// notes in `encode`: what was encoded may be taken back and encoded again.
    mutating func noteSent(_ frame: Frame)

    /// Whether `check(_:against:)` is to be called. Asked once, of the codec that the client was made with. If it is true,
    /// the client keeps every request, body included, until it is answered.
    var checksResponses: Bool { get }

    /// Checks that `response`, which was received, can be the answer to `request`, by what it repeats of it. Called for
    /// every response and every part of one whose request waits for it, on the client's loop.
    ///
    /// Throw `responseMismatch` for one that cannot. Matched by serial, it costs its request alone: that fails with
    /// `protocolViolation`, fate `unknown`, is cancelled, and its serial is quarantined. Matched in order, it ends the link,
    /// on which the responses have shifted. In a handshake it ends the attempt.
    func check(_ response: Frame, against request: Frame) throws(FrameError)

    /// Whether other requests may follow `request` on its link before it is answered to the end. Asked in protocols matched
    /// in order only, once for each request of a `Client`; a handshake, and a `Connection` alone, look after that
    /// themselves.
    ///
    /// If not, those behind it wait; once its caller has given it up, they go out on another link. For requests after which
    /// it is not known what becomes of the next (HTTP's `POST`, or a request to upgrade).
    func mayPipeline(behind request: Frame) -> Bool

    /// Whether `message` may be sent without waiting for an answer (`post`). A server that answers all the same shifts every
    /// later answer to the wrong request in protocols matched in order.
    func mayPost(_ message: Frame) -> Bool

    /// Whether `response`, which is not an error response, may be kept and given to later callers who ask for the same
    /// with a `CachePolicy`. Asked about such calls alone.
    func mayCache(_ response: Frame) -> Bool

    /// Appends the bytes of `frame` to `output`.
    ///
    /// May be called more than once for a frame, and for frames that are then not sent after all.
    ///
    /// Throw for a frame that cannot be sent (too long, a forbidden byte); what was appended is taken back, nothing of
    /// it is written and only this frame's caller sees the error.
    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError)

    /// From now on, frames of this link that do not set the named fields which `frame` has hold these: what the
    /// handshake was told by `Handshaker.setDefault(_:to:)`. Throws for fields that the protocol does not have.
    mutating func setDefaults(from frame: Frame) throws(FrameError)

    /// The frame that tells the server to drop the request `serial` of type `type`; `nil` where there is none.
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame?

    /// Whether `frame`, which a client sends with the serial of a request under way (`ReplyStream.post(_:isPart:)`), is a
    /// window update: it says how many more bytes of the reply the client takes, and is neither a piece of the request nor
    /// its end. Asked of the client's codec and of the test server's.
    ///
    /// HTTP over the link (`HTTPTunnel`) needs it to be true for type 0x405: a codec that wraps `.standard` forwards it.
    func isWindowUpdate(_ frame: Frame) -> Bool

    /// The frame that asks the server for a sign of life; `nil` where there is none: such a link has no heartbeat, only
    /// the kernel's probes (`options.connecting.keepAlive`) and the rules of `options.liveness` for frames that are never
    /// completed and requests that time out in a row.
    ///
    /// `number` counts the pings of a link from 0. A codec may put it, or what is left of it, into the frame's serial;
    /// an answer with another serial than that, and not 0, is known to be of an earlier ping.
    ///
    /// The answer must be told from a response by `decode`. Where it cannot (in-order protocols whose ping is a request
    /// like any other), return `nil`: it would be given to the oldest request. Every frame is a sign of life there.
    func ping(number: UInt64) -> Frame?

    /// The frame that answers the server's `ping`; `nil` where it wants no answer.
    func pong(answering ping: Frame) -> Frame?

    /// Whether an answer to a ping cannot be told from a ping by itself: `decode` calls both `.ping`.
    ///
    /// Then one that comes within `options.liveness.deadline` of a ping of ours is the answer, unless its serial is
    /// another, and those that are taken for the server's are answered once a second at most.
    var pongsLookLikePings: Bool { get }

    /// The frame that takes leave of the server; `nil` where the end of the connection says enough.
    ///
    /// The last frame of a link that ends in good order: by `close()`, or because it drains and nothing is
    /// under way on it any more. What the server says to it is not heard. Not sent by `closeNow()` and `suspend()`, nor for
    /// a client that is let go, nor to a server that reads nothing for 2 s of closing. For protocols in which a connection that ends without it is a failure (MQTT's DISCONNECT,
    /// SMPP's unbind, SMTP's QUIT).
    func closingFrame() -> Frame?

    /// What `push` is about (a topic, a channel, a subscription's number), for streams that select by it
    /// (`Client.pushes(forKey:buffering:)`); `nil` where it is about nothing in particular.
    ///
    /// Called on the event loop, of the codec that the client was made with, once for each push while there is such a
    /// stream: it must be quick. Of a push with `malformedReason`, return a key only if it is certain.
    func pushKey(of push: Frame) -> PushKey?

    /// How long the server wants us to stay away that sent `goAway`; `nil` where it does not say.
    func retryAfter(in goAway: Frame) -> Duration?

    /// The same protocol as the server sees it: decodes requests and encodes responses. For test servers.
    func serverSide() -> any FrameCodec

    /// Appends at most `limit` complete frames of `input` to `frames`: by `decode` in turn, unless a codec knows a faster
    /// way to the same frames. Complete frames beyond the limit stay in `input` for the next call.
    mutating func decodeAll(_ input: inout ReceiveBuffer, into frames: inout [Frame], limit: Int) throws(FrameError)
}

extension FrameCodec {
    /// The end of the connection completes no frame.
    public mutating func decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { nil }
    /// Responses can be read without knowing their requests.
    public var notesSent: Bool { false }
    /// Nothing is noted.
    public mutating func noteSent(_ frame: Frame) {}
    /// Responses repeat nothing of their requests.
    public var checksResponses: Bool { false }
    /// Every response will do.
    public func check(_ response: Frame, against request: Frame) throws(FrameError) {}
    /// Any number of requests may be out.
    public func mayPipeline(behind request: Frame) -> Bool { true }
    /// Callers know what the server does not answer.
    public func mayPost(_ message: Frame) -> Bool { true }
    /// Callers know what is worth keeping.
    public func mayCache(_ response: Frame) -> Bool { true }
    /// The protocol has no named fields.
    public mutating func setDefaults(from frame: Frame) throws(FrameError) {
        throw FrameError(.malformed, "the codec has no named fields")
    }

    /// The protocol cannot cancel: a request that is not wanted any more is forgotten on this side alone.
    public func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { nil }
    /// The protocol has no window updates.
    public func isWindowUpdate(_ frame: Frame) -> Bool { false }
    /// The protocol has no ping.
    public func ping(number: UInt64) -> Frame? { nil }
    /// Pings and their answers differ.
    public var pongsLookLikePings: Bool { false }
    /// The protocol answers no pings.
    public func pong(answering ping: Frame) -> Frame? { nil }
    /// The end of the connection says enough.
    public func closingFrame() -> Frame? { nil }
    /// Pushes have no keys.
    public func pushKey(of push: Frame) -> PushKey? { nil }
    /// The protocol has no such hint.
    public func retryAfter(in goAway: Frame) -> Duration? { nil }
    /// Both sides speak alike.
    public func serverSide() -> any FrameCodec { self }

    /// Appends every complete frame of `input` to `frames`.
    @inlinable
    public mutating func decodeAll(_ input: inout ReceiveBuffer, into frames: inout [Frame]) throws(FrameError) {
        // Not a default value of the next one: a call without a limit would pass by a codec's own way.
        try decodeAll(&input, into: &frames, limit: .max)
    }

    /// Appends at most `limit` complete frames of `input` to `frames`: one dynamic call per batch of bytes.
    @inlinable
    public mutating func decodeAll(
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

    /// The same codec with `value` in place of what it has at `path`.
    func with<Value>(_ path: WritableKeyPath<Self, Value>, _ value: Value) -> Self {
        var codec = self
        codec[keyPath: path] = value
        return codec
    }

    /// Decodes into `frames` what the end of the connection completes. `input` is what `decodeAll` left.
    package mutating func decodeAllAtEnd(_ input: inout ReceiveBuffer, into frames: inout [Frame]) throws(FrameError) {
        while true {
            let mark = input.position
            guard let frame = try decodeEnd(&input) else { return input.rewind(to: mark) }
            frames.append(frame)
            if input.position == mark { return }
        }
    }
}
