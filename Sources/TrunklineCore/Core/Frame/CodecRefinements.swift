// A codec must implement all requirements of one of these protocols, so a misspelt member does not compile. The library
// finds the conformances by casts, in `ProtocolCodec` and `LinkCodec`.

// MARK: - Requests

/// A codec of a protocol in which the client can cancel a request.
///
/// With any other codec, the client does not tell the server that it has abandoned a request.
public protocol CancellingCodec: FrameCodec {
    /// Returns the frame that cancels a request on the server, or `nil` to send none.
    ///
    /// The client calls it when a request that was written is cancelled or times out, and when it abandons a request
    /// because the server's response is invalid. It calls it on the codec of the link.
    ///
    /// If the frame has a serial of its own (``cancelKind(ofType:)``), the client sets ``Frame/serial`` to that and
    /// ``Frame/cancelledSerial`` to the serial of the request. Such a frame is discarded if it cannot be written within
    /// `options.requests.quarantine`, because its serial is free then.
    ///
    /// - Parameters:
    ///   - serial: The serial number of the request; 0 in protocols that match responses in order.
    ///   - type: The type of the request.
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame?

    /// Returns what the server sends after the cancel frame of a request of `type`, by default ``CancelKind/answered``.
    ///
    /// It decides when the serials of the request and of the cancel frame are free for other requests. Has no effect in
    /// protocols that match responses in order. Called on the codec of the link, for each cancel frame.
    func cancelKind(ofType type: UInt32) -> CancelKind
}

/// What a server sends after a cancel frame.
@nonexhaustive
public enum CancelKind: Sendable, Hashable {
    /// The response of the request, or an error in its place. Its serial and its place among the requests in flight are
    /// held until then, and not longer than `options.requests.quarantine`.
    case answered
    /// Nothing. The place of the request is free at once, and its serial is used after all others that are free.
    ///
    /// A response that the server had sent before it read the cancel frame is discarded for as long as
    /// `options.requests.quarantine`, unless every other serial was used meanwhile. So a range of many serials is safe.
    case unanswered
    /// Nothing, and the cancel frame has a serial of its own, as an LDAP Abandon has (RFC 4511, section 4.11).
    /// Otherwise as ``unanswered``.
    case unansweredRequest
    /// A response to the cancel frame, which has a serial of its own, and one to the request, in any order, as for an
    /// LDAP Cancel (RFC 3909). Each frees its own serial.
    case answeredRequest
    /// A response to the cancel frame, which has a serial of its own. The response to the request may come before it,
    /// and does not come after it, as with the Tflush of 9P (`flush(5)` in the manual of Plan 9). It frees both
    /// serials.
    case flush

    package var hasOwnSerial: Bool {
        switch self {
        case .answered, .unanswered: false
        case .unansweredRequest, .answeredRequest, .flush: true
        }
    }

    package var isAnswered: Bool { self == .answeredRequest || self == .flush }
}

/// A codec that decides whether other requests may follow a request on its link before that request is answered.
///
/// With any other codec, any number of requests may be in flight.
public protocol PipeliningCodec: FrameCodec {
    /// Returns whether other requests may follow `request` on the same link before it is answered.
    ///
    /// Return `false` for a request that makes the fate of later ones uncertain, such as an HTTP `POST` or a request to
    /// upgrade, and for a command that waits on the server, such as Redis' `BLPOP` or `IDLE` of IMAP. Later requests,
    /// one-way messages and pings then wait until it is answered. The parts of the request itself do not wait
    /// (``Client/open(_:timeout:partTimeout:options:buffering:)``), and cancel frames do not.
    ///
    /// Matched in order: if such a request is cancelled or times out after its first byte was written, the client
    /// replaces the link at once, whether or not other requests wait (``DisconnectCause/unanswered``). The old link is
    /// closed when the requests that were sent before this one have ended. Later requests go out on the next link,
    /// which goes to the same endpoint unless the server was silent
    /// (``ClientOptions/Liveness-swift.struct/maximumStalls``). If ``ClientOptions/Requests/cancelling`` cancels the
    /// request, the client waits for the answer first, as below.
    ///
    /// Matched by serial: the client sends the cancel frame, if there is one, and waits for the answer. If none comes
    /// within `options.liveness.deadline` (10 s), it replaces the link as soon as other requests wait.
    ///
    /// Matched in order by channel: only requests and messages of the same channel wait, and pings do not. An abandoned
    /// request is handled as if matched by serial.
    ///
    /// The method is called once for each request of a client, and once for each request of a handshake. A
    /// ``Connection`` that is used alone never calls it.
    func mayPipeline(behind request: Frame) -> Bool
}

/// A codec that decides how the serial numbers of its requests are chosen: drawn at random, so that they cannot be
/// guessed, or wider than 64 bits.
///
/// With any other codec, serials count up and have at most 64 bits. Conform in a protocol over UDP whose only defense
/// against forged responses is a serial that the forger does not know: the IDs of DNS have 16 random bits (RFC 5452
/// §9.2), and the transaction IDs of STUN 96 (RFC 8489 §5). A response is matched only if all bits are right; any other
/// is discarded and counted: datagrams in ``ConnectionMetrics/droppedDatagrams``, responses in a stream
/// in ``ClientMetrics/unknownResponses``. Responses and parts that name ranges of serials
/// (``Frame/Answers/serials(_:)``), or every request (``Frame/Answers/all``), are matched by 64 bits or by none: do not
/// decode any in a protocol that relies on serials that cannot be guessed.
public protocol SerialNumberingCodec: FrameCodec {
    /// Whether serials are drawn at random from the range of ``ResponseMatching/serial(_:)``, by the generator of the
    /// system, instead of counted; `true` by default. A simulated network draws them from its seed.
    ///
    /// Serials then have no order, so a response or part for the requests with earlier serials
    /// (``Frame/Answers/through``) is for one request only.
    var usesRandomSerials: Bool { get }

    /// The number of bits of a serial, at most 128; 64 by default, whatever the range is.
    ///
    /// If it is more than 64, the codec encodes and decodes ``Frame/wideSerial`` in place of ``Frame/serial``, and the
    /// range of ``FrameCodec/matching`` usually is `1...SerialNumber.max`. The bits above 64 are unpredictable, and
    /// different for every serial and link, also if serials are counted. The client then keeps every request until it
    /// is answered.
    var serialBits: Int { get }
}

/// A codec of a protocol with several channels on one link, in each of which the server answers in the order of the
/// requests (``ResponseMatching/inOrderByChannel``). A slow channel does not hold up the others.
///
/// With any other codec of such a protocol, every frame is on channel 0.
public protocol ChannelCodec: FrameCodec {
    /// Returns the channel of `frame`, for example the value of a named field.
    ///
    /// Called on the codec of the link: for every request and message that is about to be sent, sometimes repeatedly,
    /// and for every received response or part. If the channel of a received frame cannot be known, let `decode` throw:
    /// a wrong channel gives the response to another request.
    func channel(of frame: Frame) -> UInt64

    /// The maximum number of requests in flight on one channel, abandoned ones included. Further requests wait, and
    /// those of other channels pass them. By default no limit but that of the link
    /// (`options.requests.maximumInFlight`).
    ///
    /// If the oldest request of a full channel is abandoned, and the server has not answered it when its quarantine
    /// ends (`options.requests.quarantine`), the link is replaced as soon as a request waits for the channel.
    var maximumInFlightPerChannel: Int { get }
}

/// A codec that decides whether a message may be sent without waiting for a response.
///
/// With any other codec, `post` and `enqueue` accept every message. The caller must know which messages the server does
/// not answer.
public protocol PostingCodec: FrameCodec {
    /// Returns whether `message` may be sent as a one-way message.
    ///
    /// If not, `post`, `enqueue` and `subscribe(posting:)` throw `invalidRequest`, fate `notSent`. In a protocol
    /// matched in order, a response to a one-way message would make every later response go to the wrong request.
    func mayPost(_ message: Frame) -> Bool
}

/// A codec of a protocol in which a request can be sent in pieces, but not be cancelled between two of them.
///
/// With any other codec, ``Client/open(_:timeout:partTimeout:options:buffering:)`` requires a cancel frame
/// (``CancellingCodec``): otherwise the server would take the next request for the rest of an abandoned one.
public protocol UploadCodec: FrameCodec {
    /// Whether the client ends the link when it abandons a request of which it has sent some pieces, but not the last.
    ///
    /// In protocols matched in order, this is so with any other codec. If `false` there, the client sends the cancel
    /// frame of a ``CancellingCodec`` as a closing piece, waits for the answer to the request, and then goes on with
    /// the link.
    ///
    /// If `true`, `open` needs no cancel frame. The other requests in flight on the link are lost (`connectionLost`,
    /// fate `unknown`), so give such uploads a client of their own if that matters.
    var abandoningEndsLink: Bool { get }
}

/// A codec that learns which frames were sent.
///
/// Conform in a protocol in which a response can be decoded only if its request is known. For example, the response to
/// HTTP's `HEAD` announces a body that does not follow. Do not record this in ``FrameCodec/encode(_:into:)``: an
/// encoded frame may be discarded before it is written, and encoded again later.
public protocol SentFrameCodec: FrameCodec {
    /// Notes that the first byte of `frame` was written to this link.
    ///
    /// Called once for each frame, in the order of the frames on the wire, and before any bytes are decoded that may
    /// answer it.
    mutating func noteSent(_ frame: Frame)
}

/// A codec that learns when nothing more can arrive for a request that was sent, so that it can drop what it has kept
/// for it.
///
/// Conform, together with ``SentFrameCodec``, in a protocol matched by serial whose codec keeps state for each request:
/// the type of a request, for example, by which its response is decoded. Matched in order, no such call is necessary,
/// and none is made: each request has one response, also if it was abandoned, and the state can be dropped with it.
public protocol EndedRequestCodec: FrameCodec {
    /// Notes that the request with `serial`, which was noted as sent on this link, has ended and that its serial is
    /// free for another request.
    ///
    /// Called on the codec of the link, exactly once for each request whose first byte was written: when its response
    /// has been decoded and handled or, if the client has abandoned it, when the late response arrives or its
    /// quarantine ends (`options.requests.quarantine`). Until then a response may have to be decoded, so the state must
    /// last. A request that was sent several times in datagrams ends once, 10 s after its response, because another one
    /// may come. A cancel frame with a serial of its own (``CancelKind``) ends, too.
    ///
    /// The call comes before ``SentFrameCodec/noteSent(_:)`` of the next request with the same serial. It does not come
    /// for requests that were never written, for one-way messages, for parts of requests, on a test server, and for
    /// what is still on a link when the codec of the link is dropped: when the link ends, and when `startTLS()`
    /// replaces the codec.
    mutating func noteEnded(_ serial: SerialNumber)
}

/// A codec of a protocol in which the client sends window updates: during a reply, it tells the server how many more
/// bytes of the reply it accepts.
///
/// HTTP over the link (`HTTPTunnel`) requires such a codec and uses type 0x405 for its window updates. ``FrameLayout``
/// conforms. A custom codec that wraps `.standard` must conform too, and forward ``isWindowUpdate(_:)`` to it.
public protocol WindowedCodec: FrameCodec {
    /// Returns whether `frame` is a window update.
    ///
    /// A window update has the serial of a request in flight and says how many more bytes of the reply the client
    /// accepts. It is neither a part of the request nor its end. Called on the client's codec and on the test server's.
    func isWindowUpdate(_ frame: Frame) -> Bool
}

// MARK: - Responses and pushes

/// A codec that checks whether a response belongs to its request, by comparing values of the request that the response
/// repeats.
///
/// The check detects a wrong serial, caused by a transmission error or a faulty server. Without the check, the response
/// would reach another caller as a success.
public protocol ResponseCheckingCodec: FrameCodec {
    /// Checks that the received `response` can be the response to `request`.
    ///
    /// Called on the event loop, on the codec of the link, for every response and every part whose request is in
    /// flight. Frames with a ``Frame/malformedReason`` are not checked.
    ///
    /// - Throws: ``FrameError/Code-swift.enum/responseMismatch``, or another code, for a response that belongs to
    ///   another request. The consequences depend on the link and on how responses are matched:
    ///   - In datagrams (`udp://`), anyone can copy, delay or forge a response, so it proves nothing: it is dropped and
    ///     counted (``ConnectionMetrics/droppedDatagrams``), and the request goes on waiting (RFC 2865
    ///     §3, RFC 5452 §9.1). The same in a handshake. A malformed response or part is dropped, too.
    ///   - In a stream, by serial: only that request fails, with `protocolViolation`, fate `unknown`. It is cancelled
    ///     on the server and its serial is quarantined.
    ///   - In a stream, in order: the link ends, because every later response would go to the wrong request too.
    ///   - In a stream, in a handshake: the attempt fails.
    ///
    ///   Throw ``FrameError/Code-swift.enum/unrelatedResponse`` for a response that no request waits for, although its
    ///   serial, or its place in the order, is that of one. In a stream, too, it is then discarded and counted
    ///   (``ClientMetrics/unknownResponses``), and the request goes on waiting.
    func check(_ response: Frame, against request: Frame) throws(FrameError)

    /// Whether ``check(_:against:)`` is called; `true` by default.
    ///
    /// Read once, from the codec that was passed to the client. If it is `true`, the client keeps every request,
    /// including its body, until it is answered.
    var checksResponses: Bool { get }
}

/// A codec that decides whether a response may be cached.
///
/// With any other codec, every successful response of a call with a ``CachePolicy`` may be cached.
public protocol CachingCodec: FrameCodec {
    /// Returns whether `response`, which is not an error response, may be kept and given to later callers.
    ///
    /// Called only for responses to calls that have a ``CachePolicy``.
    func mayCache(_ response: Frame) -> Bool
}

/// A codec of a protocol whose pushes each have a topic, such as a channel name or a subscription number.
public protocol PushKeyCodec: FrameCodec {
    /// Returns the key of `push`, by which ``RequestSender/pushes(forKey:buffering:)`` selects pushes, or `nil` if it
    /// has none.
    ///
    /// Called once for each push while the client has at least one such stream, on the event loop and on the codec that
    /// was passed to the client; it must be fast. For a push with a ``Frame/malformedReason``, return a key only if the
    /// key is certain.
    func pushKey(of push: Frame) -> PushKey?
}

/// A codec of a protocol in which the server sends requests too, and in which they can be refused.
///
/// With any other codec, the server learns nothing of a request that the client does not serve, and waits in vain. Such
/// requests are counted: ``ClientMetrics/Serving-swift.struct/dropped``.
public protocol ServingCodec: FrameCodec {
    /// Returns the response that tells the server why its request is not answered by a handler, or `nil` to send none.
    ///
    /// The client sets the kind and the serial of the frame. Named fields and the type are up to the codec. It is
    /// called on the codec of the link, for every request of the server that
    /// ``Client/serve(maximumConcurrent:maximumWaiting:_:)`` does not answer, and for every request that the server
    /// cancels. In protocols in which nothing follows a cancellation, return `nil` for ``ServingRefusal/cancelled``.
    ///
    /// A request with the ``Frame/malformedReason`` `illegalLength` is refused because of
    /// ``ServingRefusal/overloaded``, one with another reason because of ``ServingRefusal/malformed``.
    ///
    /// At most 24,576 refusals of a client wait to be written. Beyond that, none is sent, in case the server does not
    /// read.
    ///
    /// - Parameters:
    ///   - request: The request of the server.
    ///   - reason: Why it is refused. Further reasons may be added later.
    func refusal(of request: Frame, because reason: ServingRefusal) -> Frame?

    /// Notes that a request of the server gets no answer, so that the codec can forget what it remembers of it.
    ///
    /// Called on the codec of the link: for a request whose handler has returned `nil`, and for one that was dropped,
    /// because ``refusal(of:because:)`` has returned `nil` or too many refusals wait. For every other request,
    /// ``SentFrameCodec/noteSent(_:)`` notes its answer, unless the link ends. The default does nothing.
    mutating func noteUnanswered(_ request: Frame)
}

extension ServingCodec {
    /// Does nothing.
    public mutating func noteUnanswered(_ request: Frame) {}
}

// MARK: - Links

/// A codec of a protocol with heartbeats.
///
/// With any other codec, a link has no heartbeat. A dead link is then detected only by the kernel's keep-alive probes
/// (`options.connecting.keepAlive`) and by the rules of `options.liveness` for frames that stay incomplete and for
/// requests that time out in a row.
///
/// A protocol may forbid pings at times. Then return `nil` from ``ping(number:)``, or throw from
/// ``FrameCodec/encode(_:into:)`` when it encodes the ping. No ping is sent, and the link is not closed for a silence
/// that the client could not break. Until there is a ping again, which the client tries every 10 s while it needs one
/// (the shorter of `liveness.interval` and `liveness.deadline`), the rules above apply that hold without a heartbeat.
///
/// Conform only if `decode` can distinguish the answer to a ping from a response. In a protocol that matches responses
/// in order and whose ping is an ordinary request, the client would otherwise give the answer to the oldest request.
/// There, conform to ``SentFrameCodec`` too: ``SentFrameCodec/noteSent(_:)`` learns of pings in their place among the
/// requests, so that `decode` knows which answer is that to a ping (<doc:WritingACodec#Heartbeats-in-order>).
public protocol HeartbeatCodec: FrameCodec {
    /// Returns the ping to send now, or `nil` if this side sends none now. Called on the codec of the link.
    ///
    /// If it returns `nil` for number 0 both on the codec that was passed to the client and when a link becomes ready,
    /// the link has no heartbeat.
    ///
    /// - Parameter number: The number of the ping on this link, counting from 0. The codec may use it, or its low bits,
    ///   as the serial of the frame. If the serial of an answer differs from it and is not 0, the client knows that it
    ///   answers an earlier ping.
    func ping(number: UInt64) -> Frame?

    /// Returns the answer to a ping from the peer, or `nil` if the ping needs none. Called on the codec of the link.
    func pong(answering ping: Frame) -> Frame?

    /// Whether the answer to a ping looks like a ping, so that `decode` calls both `.ping`; `false` by default.
    ///
    /// If `true`, a ping that arrives within `options.liveness.deadline` of a ping of the client counts as the answer,
    /// unless its serial differs. The client answers other pings, at most one per second.
    var pongsLookLikePings: Bool { get }
}

/// A codec of a protocol in which a client announces the end of a connection with a final frame, such as MQTT's
/// DISCONNECT, SMPP's `unbind` or SMTP's QUIT.
///
/// Without that frame, the server would treat the end of the connection as a failure.
public protocol ClosingCodec: FrameCodec {
    /// Returns the final frame that is sent before an orderly close, or `nil` to send none.
    ///
    /// It is sent by `close()`, and when a draining link has no more requests in flight. The client waits for the
    /// server's answer if ``closingIsAnswered`` says that there is one.
    ///
    /// It is not sent:
    /// - by `closeNow()` and `suspend()`;
    /// - if a client is deallocated without `close()`;
    /// - to a server that reads nothing for 2 s while the client closes.
    func closingFrame() -> Frame?

    /// Returns the final frame that answers `farewell`, by which the server ends the link at once
    /// (``Frame/LinkEnding/now``), or `nil` to send none. By default ``closingFrame()``.
    ///
    /// The client writes it as far as the socket takes it at once, and closes.
    func closingFrame(answering farewell: Frame) -> Frame?

    /// Whether the server answers the final frame, or closes the connection, when it has processed everything before
    /// it; `false` by default.
    ///
    /// If `true`, the client does not end its direction before it has received the end of the connection or a frame
    /// that ends the link at once (``Frame/LinkEnding/now``), or has waited for 2 s. A server that sees the end of the
    /// connection earlier may drop what it has received and not processed: RabbitMQ does that with messages that were
    /// published before AMQP's `connection.close`. It answers, and waits for the client to end the connection: so the
    /// codec marks the answer, `connection.close-ok`, as a frame that ends the link at once.
    var closingIsAnswered: Bool { get }
}

/// A codec of a protocol in which a `goAway` frame carries a retry delay.
///
/// A codec whose `goAway` frames carry no delay does not need this conformance: it only returns frames of the kind
/// ``Frame/Kind-swift.enum/goAway``. When such a frame arrives, the client establishes the next link. Until that link
/// is ready, requests continue to go out on the present one. If the server accepts no requests after its `goAway`, set
/// `options.failover.sendsAfterGoAway = false`: the present link then drains at once.
public protocol GoAwayCodec: FrameCodec {
    /// Returns the retry delay that `goAway` carries, or `nil` for none.
    ///
    /// While other endpoints can be used, the client does not try that server before the delay has passed, at most an
    /// hour. If none can be used, it waits for at most `reconnecting.maximumRetryAfter` (60 s). A random time of up to
    /// a tenth is added.
    func retryAfter(in goAway: Frame) -> Duration?
}

/// A codec of a protocol in which the end of the connection completes a message, as with HTTP bodies that have no
/// length.
///
/// With any other codec, the bytes of an incomplete frame are discarded when the connection ends.
public protocol EndOfStreamCodec: FrameCodec {
    /// Returns the frame that the end of the connection completes, or `nil` for none.
    ///
    /// Called when the server has closed the connection cleanly, and repeatedly until it returns `nil`, consumes
    /// nothing or throws. Remaining bytes are discarded.
    ///
    /// - Parameter input: The bytes that were not decoded; may be empty.
    /// - Throws: An error for bytes that are not a frame. Requests in flight then fail with `protocolViolation`, fate
    ///   `unknown`.
    mutating func decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame?
}

/// A codec with named fields whose values a handshake can set for the rest of a link.
///
/// With any other codec, ``Handshaker/setDefault(_:to:)-(_,Bytes)`` throws `invalidArgument`.
public protocol FieldDefaultsCodec: FrameCodec {
    /// Sets the default values of named fields on this link. A later frame that does not set one of these fields is
    /// sent with the value that `frame` holds.
    ///
    /// - Parameter frame: A frame with the fields that the handshake passed to
    ///   ``Handshaker/setDefault(_:to:)-(_,Bytes)``.
    /// - Throws: An error for a field that the protocol does not have and for a value that does not fit. `setDefault`
    ///   then throws `invalidArgument`.
    mutating func setDefaults(from frame: Frame) throws(FrameError)
}

/// A codec whose limit for the size of frames can be set for one link, because the peers negotiate it.
///
/// With any other codec, ``Handshaker/setMaximumFrameSize(_:)`` throws `invalidArgument`. The codecs of
/// `TrunklineLayouts` conform.
public protocol FrameLimitCodec: FrameCodec {
    /// Sets the size of the largest whole frame in bytes, in both directions. Called on the codec of the link, during
    /// the handshake. A size that the protocol does not allow counts as the nearest one that it allows.
    mutating func setMaximumFrameSize(_ size: Int)
}

/// A codec of a protocol whose frames differ between datagrams and a stream of bytes, such as those of DNS, which have
/// a length before them in a stream only (RFC 1035 §4.2).
///
/// Any other codec encodes and decodes both in the same way.
public protocol DatagramCodec: FrameCodec {
    /// Chooses the format of datagrams. Called on the codec of a link to a `udp://` endpoint when the link begins, and
    /// on that of a test server that receives datagrams.
    ///
    /// In `decode`, the input is one datagram from then on, and everything must be consumed: what is left over, an
    /// incomplete frame or an error drops the datagram.
    mutating func useDatagrams()
}

/// A codec that needs the session that the links of a client share: a key that signs frames, for example, or a counter
/// that goes on after a reconnect.
///
/// With any other codec, only the handshake and the client know the session (``Handshaker/saveSession(_:)``).
public protocol SessionCodec: FrameCodec {
    /// Sets the session of this link. Called on the codec of the link: when the link begins, if a session is saved, and
    /// whenever its handshake saves another one or declares it lost.
    ///
    /// - Parameter session: The saved value, or `nil` if there is none any more.
    mutating func setSession(_ session: (any Sendable)?)
}

// MARK: - Texts

/// A codec that names requests: a JSON-RPC method, or the first word of a line, for example.
///
/// The name stands in errors, in the log, in events and in timelines, where a protocol without type numbers would show
/// the type 0 only: `timedOut (fate unknown): tools/call: deadline exceeded …`. It is shown with control characters
/// escaped, and at most 64 characters of it.
///
/// Names come from requests that the client sends, never from what it receives. While nothing is written about a
/// request, its name is not asked for.
public protocol NamingCodec: FrameCodec {
    /// Returns the name of a request or one-way message of this client, or `nil` if it has none.
    ///
    /// The name must not contain a secret. It should be one of few, because the log counts some lines by name. Called
    /// on the codec that was passed to the client, and not often: if the client has a log or another observer of
    /// failures, once for each request, and otherwise for requests that have failed.
    ///
    /// - Parameter request: The frame of the request. If ``namesEachRequest`` is false, only its type is set.
    func name(of request: Frame) -> String?

    /// Whether more than the type number of a request decides its name; `true` by default. If `false`, a name is asked
    /// for only when it is written.
    var namesEachRequest: Bool { get }
}

// MARK: - Test servers

/// A codec that can create a codec for the server side of its protocol, for test servers.
///
/// With any other codec, a test server uses the same codec as the client.
public protocol ServerSideCodec: FrameCodec {
    /// Returns a codec for the server side of the protocol. It decodes requests and encodes responses and pushes.
    func serverSide() -> any FrameCodec
}

// MARK: - Defaults

extension ChannelCodec {
    /// No limit for a channel alone.
    public var maximumInFlightPerChannel: Int { .max }
}

extension SerialNumberingCodec {
    /// `true`: serials are drawn at random.
    public var usesRandomSerials: Bool { true }

    /// 64: serials are no wider than ``SerialNumber``.
    public var serialBits: Int { 64 }
}

extension NamingCodec {
    /// `true`: each request is asked for its name.
    public var namesEachRequest: Bool { true }
}

extension CancellingCodec {
    /// ``CancelKind/answered``: the request is still answered.
    public func cancelKind(ofType type: UInt32) -> CancelKind { .answered }
}

extension ResponseCheckingCodec {
    /// `true`: responses are checked.
    public var checksResponses: Bool { true }
}

extension ClosingCodec {
    /// ``closingFrame()``: the farewell of the server is answered as if this side had begun to close.
    public func closingFrame(answering farewell: Frame) -> Frame? { closingFrame() }

    /// `false`
    public var closingIsAnswered: Bool { false }
}

extension HeartbeatCodec {
    /// `false`: `decode` distinguishes pings from their answers.
    public var pongsLookLikePings: Bool { false }
}
