public import TrunklineCore

/// The action of a ``LoopbackServer`` in response to a request.
///
/// The server's handler returns a reaction: it can reply (also late, twice or incorrectly), push, not reply at all, or
/// close the connection. The server performs it on its event loop, with timers instead of tasks (except
/// ``perform(_:)``), so that a simulation is reproducible. The output of immediate reactions to requests that arrive
/// together is sent in one write.
///
/// A frame that the codec cannot encode closes the connection, so that a test fails at once.
/// ``LoopbackServer/Journal-swift.struct/lastFailure`` holds the error.
///
/// With `HTTP1Codec`:
///
/// - A reply with a body is a 200 response with that content.
/// - ``echo`` is a 200 response with the content of the request.
/// - ``status(_:_:)`` is a response with that status.
/// - Parts are sent as chunks.
/// - A body that begins with `HTTP/1.` is sent as a complete message with its own header fields:
///   `.reply(try HTTP1Response(…).frame())`.
public struct Reaction: Sendable {
    indirect enum Action: Sendable {
        case noReply
        case echo
        case reply(Frame)
        case part(Frame)
        case endlessParts(Frame, every: Duration)
        case unknownSerial
        case push(Frame)
        case ping
        case frame(Frame)
        case bytes(Bytes)
        case absurdLength
        case after(Duration, Reaction)
        case sequence([Reaction])
        case inPieces(of: Int, Reaction)
        case half(Reaction)
        case halfForEver(Reaction)
        case flippingBit(Int, Reaction)
        case outOfOrder(window: Int, seed: UInt64?, Reaction)
        case close
        case startTLS
        case reset
        case stopReading
        case perform(@Sendable (ServerExchange) async throws -> Void)
    }

    let action: Action

    init(_ action: Action) { self.action = action }
}

extension Reaction {
    /// Sends the request back: its type, serial, fields and body, with a status of success.
    public static let echo = Reaction(.echo)

    /// Replies with `body` and the type of the request.
    ///
    /// The type of a part of a request may not be valid in a reply. To reply to a part, pass a `Frame` instead.
    public static func reply(_ body: Bytes) -> Reaction { reply(Frame(.response, body: body)) }

    /// Replies with `frame`, after setting these values:
    ///
    /// - The serial is always that of the request.
    /// - The type is that of the request if the frame's is 0.
    /// - The fields listed in the layout's role `responsesRepeat` are copied from the request unless the frame sets
    ///   them.
    /// - The status is a status of success if the frame's is 0 and it is not an error response.
    public static func reply(_ frame: Frame) -> Reaction { Reaction(.reply(frame)) }

    /// Replies with an error response, so that `send` throws `rejected`.
    ///
    /// The frame has the type of the request, like the frame of ``reply(_:)-(Bytes)``. If error responses have a
    /// separate type, pass a frame instead: `.reply(Frame(.response, type: 3, isErrorResponse: true, body: "no"))`.
    ///
    /// The protocol must have a status or another mark of error responses. `.standard` has neither; there the server
    /// closes the connection, and ``LoopbackServer/Journal-swift.struct/lastFailure`` holds the error. With
    /// `HTTP1Codec`, `send` throws only for the statuses that the codec rejects.
    public static func status(_ status: UInt32, _ body: Bytes = Bytes()) -> Reaction {
        reply(Frame(.response, status: status, isErrorResponse: true, body: body))
    }

    /// Writes a part of the reply. Only ``reply(_:)-(Bytes)``, ``echo`` or ``status(_:_:)`` ends the reply.
    ///
    /// The protocol must distinguish parts from responses.
    public static func part(_ body: Bytes) -> Reaction { part(Frame(.part, body: body)) }

    /// Writes `frame` as a part of the reply.
    ///
    /// Its kind is set to `part`. Its other values are set as in ``reply(_:)-(Frame)``, with one exception: in a layout
    /// whose parts have separate types, type 0 becomes the first of these types.
    ///
    /// With ``/Trunkline/Frame/answers``, the part belongs to other requests of the connection too, if the codec
    /// encodes that. To send it without a request, use ``frame(_:)`` or ``LoopbackServer/broadcast(_:)``.
    public static func part(_ frame: Frame) -> Reaction {
        var part = frame
        part.kind = .part
        return Reaction(.part(part))
    }

    /// Writes a part for each of `bodies`, then performs `reaction`.
    ///
    /// - Parameters:
    ///   - bodies: The bodies of the parts.
    ///   - delay: The time before each step except the first. Default: zero.
    ///   - reaction: The reaction after the last part. It must end the reply. Default: an echo.
    public static func parts(
        _ bodies: [Bytes],
        every delay: Duration = .zero,
        then reaction: Reaction = .echo
    ) -> Reaction {
        let steps = bodies.map { part($0) } + [reaction]
        guard delay > .zero else { return sequence(steps) }
        return sequence(steps.enumerated().map { $0 == 0 ? $1 : after(delay, $1) })
    }

    /// Writes a part with `body` every `delay`, until the request is cancelled or the connection ends.
    ///
    /// If the client does not read, the server stops writing parts while more than 1 MiB waits to be sent.
    ///
    /// - Parameters:
    ///   - body: The body of each part.
    ///   - delay: The time between two parts. At least 1 ms, which is the default.
    public static func endlessParts(_ body: Bytes, every delay: Duration = .milliseconds(1)) -> Reaction {
        endlessParts(Frame(.part, body: body), every: delay)
    }

    /// Writes `frame` as a part every `delay`, as ``endlessParts(_:every:)-(Bytes,_)`` does with a body.
    ///
    /// The values of the frame are set as in ``part(_:)-(Frame)``.
    ///
    /// - Parameters:
    ///   - frame: Each part.
    ///   - delay: The time between two parts. At least 1 ms, which is the default.
    public static func endlessParts(_ frame: Frame, every delay: Duration = .milliseconds(1)) -> Reaction {
        var part = frame
        part.kind = .part
        return Reaction(.endlessParts(part, every: max(.milliseconds(1), delay)))
    }

    /// Does not reply.
    public static let noReply = Reaction(.noReply)

    static let twice = sequence([.echo, .echo])

    /// The last serial that the protocol has, which no request has used.
    static let unknownSerial = Reaction(.unknownSerial)
}

extension Reaction {
    /// Waits for `delay`, then performs `reaction`.
    ///
    /// A request that is cancelled in the meantime gets no reply, unless ``LoopbackServer/Options/answersCancelled`` is
    /// set. Replies to later requests are not delayed, except in protocols matched in order: there, the reactions to
    /// later requests of the connection wait until this one has replied.
    public static func after(_ delay: Duration, _ reaction: Reaction) -> Reaction {
        Reaction(.after(delay, reaction))
    }

    /// Performs `reactions` one after the other. If one of them is an ``after(_:_:)``, it also delays those that follow
    /// it.
    public static func sequence(_ reactions: [Reaction]) -> Reaction { Reaction(.sequence(reactions)) }

    /// Holds the reactions to `window` requests of a connection, then performs them in reverse order.
    ///
    /// If fewer than `window` requests arrive, their reactions are held until ``LoopbackServer/releaseHeld()``.
    ///
    /// - Parameters:
    ///   - window: The number of requests, at least 1.
    ///   - reaction: The reaction to each of them. Default: an echo.
    public static func outOfOrder(window: Int, _ reaction: Reaction = .echo) -> Reaction {
        Reaction(.outOfOrder(window: max(1, window), seed: nil, reaction))
    }

    static func shuffled(window: Int, seed: UInt64, _ reaction: Reaction = .echo) -> Reaction {
        Reaction(.outOfOrder(window: max(1, window), seed: seed, reaction))
    }
}

extension Reaction {
    /// Pushes `frames`. They are sent in one write with the output of the reactions before and after.
    public static func push(_ frames: Frame...) -> Reaction {
        frames.count == 1 ? Reaction(.push(frames[0])) : sequence(frames.map { Reaction(.push($0)) })
    }

    /// Writes `frame` unchanged: a `goAway`, for example, or a response or part for other requests
    /// (``/Trunkline/Frame/answers``).
    public static func frame(_ frame: Frame) -> Reaction { Reaction(.frame(frame)) }

    static let ping = Reaction(.ping)

    /// Starts TLS once everything before it is written (STARTTLS): `.sequence([.reply("go on"), .startTLS])`.
    ///
    /// The server needs ``LoopbackServer/Options/tls``, with ``LoopbackServer/TLS/beginsAtOnce`` set to `false`. If the
    /// client has already sent more plaintext, the connection is closed.
    public static let startTLS = Reaction(.startTLS)
}

extension Reaction {
    static func oneByteAtATime(_ reaction: Reaction = .echo) -> Reaction { inPieces(of: 1, reaction) }

    /// Performs `reaction`, and writes its bytes in pieces of `size` bytes, one in each turn of the event loop.
    ///
    /// - Parameters:
    ///   - size: The number of bytes in a piece, at least 1.
    ///   - reaction: The reaction. Default: an echo.
    public static func inPieces(of size: Int, _ reaction: Reaction = .echo) -> Reaction {
        Reaction(.inPieces(of: max(1, size), reaction))
    }

    /// Performs `reaction`, but writes only the first half of the frame's bytes and closes the connection.
    public static func closeMidFrame(_ reaction: Reaction = .echo) -> Reaction { Reaction(.half(reaction)) }

    /// Performs `reaction`, but writes only the first half of the frame's bytes, and then nothing more on this
    /// connection.
    ///
    /// The connection stays open, like that of a server that hangs in the middle of a frame. What the server writes
    /// afterwards is queued until the connection ends.
    public static func hangMidFrame(_ reaction: Reaction = .echo) -> Reaction { Reaction(.halfForEver(reaction)) }

    /// Performs `reaction`, and inverts one bit in every frame that it writes.
    ///
    /// If the bit is in a length, the client no longer knows where frames begin: it may read the following bytes as the
    /// rest of one long frame.
    ///
    /// - Parameters:
    ///   - bit: The position of the bit: 0 is the highest bit of the first byte, 8 that of the second. A frame that is
    ///     too short for it is written unchanged. A negative position counts as 0.
    ///   - reaction: The reaction. Default: an echo.
    public static func flippingBit(_ bit: Int, _ reaction: Reaction = .echo) -> Reaction {
        Reaction(.flippingBit(max(0, bit), reaction))
    }

    /// Closes the connection cleanly, once everything before it is written. Ignores what the client sends from then on.
    public static let close = Reaction(.close)

    /// Resets the connection at once. Bytes that are not written yet are lost.
    public static let reset = Reaction(.reset)

    /// Until `LoopbackServer.resumeReading()`, so that TCP applies back-pressure.
    static let stopReading = Reaction(.stopReading)

    /// Writes `bytes` unchanged.
    public static func garbage(_ bytes: Bytes) -> Reaction { Reaction(.bytes(bytes)) }

    /// A header with the largest length, and no body. For codecs other than `FrameLayout`, 64 bytes of 0xFF.
    package static let absurdLength = Reaction(.absurdLength)
}
