// What a protocol may have beside frames. A codec that conforms to one of these has to implement all of its requirements: a
// misspelt one does not compile. How the library reaches them is said in `FrameCodec`.

// MARK: - Requests

/// A codec of a protocol in which a client can cancel a request.
///
/// With any other codec, a request that is given up is forgotten on the client's side alone.
public protocol CancellingCodec: FrameCodec {
    /// The frame that tells the server to drop the request `serial` of type `type`; `nil` where there is none.
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame?
}

/// A codec that decides whether other requests may follow a request on its link before it is answered to the end.
///
/// For protocols matched in order. With any other codec, any number of requests may be in flight.
public protocol PipeliningCodec: FrameCodec {
    /// Whether other requests may follow `request`. Called in protocols matched in order only, once for each request of a
    /// `Client`; a handshake, and a `Connection` alone, look after that themselves.
    ///
    /// If not, those behind it wait; once its caller has given it up, they go out on another link. For requests after which
    /// it is not known what becomes of the next (HTTP's `POST`, or a request to upgrade).
    func mayPipeline(behind request: Frame) -> Bool
}

/// A codec that decides whether a message may be sent without waiting for an answer.
///
/// With any other codec, callers know what the server does not answer.
public protocol PostingCodec: FrameCodec {
    /// Whether `message` may be sent without waiting for an answer (`post`). A server that answers all the same shifts every
    /// later answer to the wrong request in protocols matched in order.
    func mayPost(_ message: Frame) -> Bool
}

/// A codec that is told which frames were sent.
///
/// For protocols in which a response cannot be read without knowing what it answers (HTTP's `HEAD` has a response without
/// its body). Do not take notes in `encode`: what was encoded may be taken back and encoded again.
public protocol SentFrameCodec: FrameCodec {
    /// Notes that the first byte of `frame` went out on this link. Called once for each frame, in the order in which they
    /// are on the wire, before anything is decoded that the server may have answered.
    mutating func noteSent(_ frame: Frame)
}

/// A codec of a protocol in which a client says, during a reply, how much more of it it takes.
///
/// HTTP over the link (`HTTPTunnel`) needs one, for which type 0x405 is a window update: a codec that wraps `.standard`
/// forwards it.
public protocol WindowedCodec: FrameCodec {
    /// Whether `frame`, which a client sends with the serial of a request under way, as `HTTPTunnel` does, is a
    /// window update: it says how many more bytes of the reply the client takes, and is neither a piece of the request nor
    /// its end. Called for the client's codec and for the test server's.
    func isWindowUpdate(_ frame: Frame) -> Bool
}

// MARK: - Responses and pushes

/// A codec that checks a response against its request, by what it repeats of it.
public protocol ResponseCheckingCodec: FrameCodec {
    /// Checks that `response`, which was received, can be the answer to `request`. Called for every response and every part
    /// of one whose request waits for it, on the client's loop.
    ///
    /// Throw `responseMismatch` for one that cannot. Matched by serial, it costs its request alone: that fails with
    /// `protocolViolation`, fate `unknown`, is cancelled, and its serial is quarantined. Matched in order, it ends the link,
    /// on which the responses have shifted. In a handshake it ends the attempt.
    func check(_ response: Frame, against request: Frame) throws(FrameError)

    /// Whether `check(_:against:)` is to be called; true by default. Asked once, of the codec that the client was made with.
    /// If it is true, the client keeps every request, body included, until it is answered.
    var checksResponses: Bool { get }
}

/// A codec that decides whether a response may be kept.
///
/// With any other codec, callers know what is worth keeping.
public protocol CachingCodec: FrameCodec {
    /// Whether `response`, which is not an error response, may be kept and given to later callers who ask for the same
    /// with a `CachePolicy`. Called for the responses of such calls alone.
    func mayCache(_ response: Frame) -> Bool
}

/// A codec of a protocol whose pushes are about different things (a topic, a channel, a subscription's number).
public protocol PushKeyCodec: FrameCodec {
    /// What `push` is about, for streams that select by it (`Client.pushes(forKey:buffering:)`); `nil` where it is about
    /// nothing in particular.
    ///
    /// Called on the event loop, of the codec that the client was made with, once for each push while there is such a
    /// stream: it must be quick. Of a push with `malformedReason`, return a key only if it is certain.
    func pushKey(of push: Frame) -> PushKey?
}

// MARK: - Links

/// A codec of a protocol with heartbeats.
///
/// With any other codec a link has no heartbeat, only the kernel's probes (`options.connecting.keepAlive`) and the rules of
/// `options.liveness` for frames that are never completed and requests that time out in a row.
///
/// The answer to a ping must be told from a response by `decode`. Where it cannot (in-order protocols whose ping is a request
/// like any other), do not conform: it would be given to the oldest request. Every frame is a sign of life there.
public protocol HeartbeatCodec: FrameCodec {
    /// The frame that asks the server for a sign of life; `nil` where this side sends none.
    ///
    /// `number` counts the pings of a link from 0. A codec may put it, or what is left of it, into the frame's serial;
    /// an answer with another serial than that, and not 0, is known to be of an earlier ping.
    func ping(number: UInt64) -> Frame?

    /// The frame that answers the other side's `ping`; `nil` where it wants no answer.
    func pong(answering ping: Frame) -> Frame?

    /// Whether an answer to a ping cannot be told from a ping by itself: `decode` calls both `.ping`. False by default.
    ///
    /// Then one that comes within `options.liveness.deadline` of a ping of ours is the answer, unless its serial is
    /// another, and those that are taken for the server's are answered once a second at most.
    var pongsLookLikePings: Bool { get }
}

/// A codec of a protocol with a final frame, without which the end of a connection is a failure (MQTT's DISCONNECT, SMPP's
/// unbind, SMTP's QUIT).
public protocol ClosingCodec: FrameCodec {
    /// The final frame sent before an orderly close, or `nil` for none.
    ///
    /// The last frame of a link that ends in good order: by `close()`, or because it drains and nothing is
    /// under way on it any more. What the server says to it is not heard. Not sent by `closeNow()` and `suspend()`, nor for
    /// a client that is deallocated without `close()`, nor to a server that reads nothing for 2 s of closing.
    func closingFrame() -> Frame?
}

/// A codec of a protocol in which a `goAway` frame carries a retry delay.
///
/// A codec without one need not conform: it decodes frames of the kind `goAway`. The client then makes the next link while it
/// goes on with the present one, and requests go out there until the next link is ready. A server that takes nothing after its
/// goAway needs `options.failover.sendsAfterGoAway = false`; a goAway that is the last frame of its link is marked with
/// `Frame.markLinkEnding()`.
public protocol GoAwayCodec: FrameCodec {
    /// The retry delay that `goAway` carries, for which its server is not tried again; `nil` for none. Up to one hour is obeyed,
    /// plus up to a tenth.
    func retryAfter(in goAway: Frame) -> Duration?
}

/// A codec of a protocol in which the end of the connection ends a message (HTTP's bodies without a length).
///
/// With any other codec, what is left over at the end of the connection is dropped.
public protocol EndOfStreamCodec: FrameCodec {
    /// Returns the frame that is completed by the end of the connection, which the server has closed in good order, or `nil`
    /// for none. `input` holds what was not decoded, perhaps nothing.
    ///
    /// Called until it returns `nil`, consumes nothing or throws. What is left over is dropped.
    mutating func decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame?
}

/// A codec with named fields whose values a handshake can set for the rest of the link.
///
/// With any other codec, `Handshaker.setDefault(_:to:)` throws `invalidArgument`.
public protocol FieldDefaultsCodec: FrameCodec {
    /// From now on, frames of this link that do not set the named fields which `frame` has hold these: what the
    /// handshake was told by `Handshaker.setDefault(_:to:)`. Throws for fields that the protocol does not have.
    mutating func setDefaults(from frame: Frame) throws(FrameError)
}

// MARK: - Test servers

/// A codec that knows the server's side of its protocol, for test servers.
///
/// With any other codec, both sides speak alike.
public protocol ServerSideCodec: FrameCodec {
    /// The same protocol as the server sees it: decodes requests and encodes responses.
    func serverSide() -> any FrameCodec
}

// MARK: - Defaults

extension ResponseCheckingCodec {
    /// Responses are checked.
    public var checksResponses: Bool { true }
}

extension HeartbeatCodec {
    /// Pings and their answers differ.
    public var pongsLookLikePings: Bool { false }
}

// MARK: - What the library asks

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension CancellingCodec {
    @inlinable
    public func _cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { cancelFrame(for: serial, type: type) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension PipeliningCodec {
    @inlinable
    public func _mayPipeline(behind request: Frame) -> Bool { mayPipeline(behind: request) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension PostingCodec {
    @inlinable
    public func _mayPost(_ message: Frame) -> Bool { mayPost(message) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension SentFrameCodec {
    @inlinable
    public var _notesSent: Bool { true }
    @inlinable
    public mutating func _noteSent(_ frame: Frame) { noteSent(frame) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension WindowedCodec {
    @inlinable
    public func _isWindowUpdate(_ frame: Frame) -> Bool { isWindowUpdate(frame) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension ResponseCheckingCodec {
    @inlinable
    public var _checksResponses: Bool { checksResponses }
    @inlinable
    public func _check(_ response: Frame, against request: Frame) throws(FrameError) {
        try check(response, against: request)
    }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension CachingCodec {
    @inlinable
    public func _mayCache(_ response: Frame) -> Bool { mayCache(response) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension PushKeyCodec {
    @inlinable
    public func _pushKey(of push: Frame) -> PushKey? { pushKey(of: push) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension HeartbeatCodec {
    @inlinable
    public func _ping(number: UInt64) -> Frame? { ping(number: number) }
    @inlinable
    public func _pong(answering ping: Frame) -> Frame? { pong(answering: ping) }
    @inlinable
    public var _pongsLookLikePings: Bool { pongsLookLikePings }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension ClosingCodec {
    @inlinable
    public func _closingFrame() -> Frame? { closingFrame() }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension GoAwayCodec {
    @inlinable
    public func _retryAfter(in goAway: Frame) -> Duration? { retryAfter(in: goAway) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension EndOfStreamCodec {
    @inlinable
    public mutating func _decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try decodeEnd(&input) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension FieldDefaultsCodec {
    @inlinable
    public mutating func _setDefaults(from frame: Frame) throws(FrameError) { try setDefaults(from: frame) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension ServerSideCodec {
    @inlinable
    public func _serverSide() -> any FrameCodec { serverSide() }
}
