public import Trunkline

/// What a `LoopbackServer` does about a request: reply, reply late, twice or wrongly, push, fall silent, hang up.
///
/// A value that the server's handler returns. The server performs it on its event loop with timers, never with tasks (but for
/// `perform`), so that a simulation is reproducible. Everything that reactions to one batch of requests write goes out in one write. What
/// the codec cannot encode closes the connection, so that a test fails at once, and `journal.lastFailure` says why.
///
/// With `HTTP1Codec`, `reply` of bytes is a response 200 with that content, `echo` one with the request's, `status` one with
/// that status, and parts are chunks. A body that begins with `HTTP/1.` is a whole message, for fields of your own:
/// `.reply(try HTTP1Response(…).frame())`.
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

// MARK: - Replies

extension Reaction {
    /// Sends the request back: its type, serial, fields and body, with a status of success.
    public static let echo = Reaction(.echo)

    /// Replies with `body`, and with the type of the request; to a piece of a request too, whose type may not be that of a
    /// reply: give a `Frame` there.
    public static func reply(_ body: Bytes) -> Reaction { reply(Frame(.response, body: body)) }

    /// Replies with `frame`. It gets the request's serial, the request's type if its own is 0, the fields that the layout's
    /// role `responsesRepeat` names unless it sets them, and a status of success if its own is 0 and it is not an error
    /// response.
    public static func reply(_ frame: Frame) -> Reaction { Reaction(.reply(frame)) }

    /// Replies with an error: `send` throws `rejected`, with `HTTP1Codec` for the statuses that it rejects. The protocol must
    /// have a status or another mark of error responses, and `.standard` has neither: otherwise the connection is
    /// closed, and `journal.lastFailure` says why.
    public static func status(_ status: UInt32, _ body: Bytes = Bytes()) -> Reaction {
        reply(Frame(.response, status: status, isErrorResponse: true, body: body))
    }

    /// Writes a part of the reply; nothing ends the reply but a `reply`, an `echo` or a `status`.
    ///
    /// The server's codec must tell parts from responses.
    public static func part(_ body: Bytes) -> Reaction { part(Frame(.part, body: body)) }

    /// Writes `frame` as a part of the reply. It is filled in as for `reply`.
    public static func part(_ frame: Frame) -> Reaction {
        var part = frame
        part.kind = .part
        return Reaction(.part(part))
    }

    /// Writes a part for each of `bodies` and then does `reaction`, which replies; `delay` before each but the first.
    public static func parts(
        _ bodies: [Bytes],
        every delay: Duration = .zero,
        then reaction: Reaction = .echo
    ) -> Reaction {
        let steps = bodies.map { part($0) } + [reaction]
        guard delay > .zero else { return sequence(steps) }
        return sequence(steps.enumerated().map { $0 == 0 ? $1 : after(delay, $1) })
    }

    /// Writes a part with `body` every `delay`, at least 1 ms, until the request is cancelled or the connection ends;
    /// none while the client leaves more than 1 MiB unread.
    public static func endlessParts(_ body: Bytes, every delay: Duration = .milliseconds(1)) -> Reaction {
        Reaction(.endlessParts(Frame(.part, body: body), every: max(.milliseconds(1), delay)))
    }

    /// Does not reply.
    public static let noReply = Reaction(.noReply)

    /// Replies twice with an echo.
    package static let twice = sequence([.echo, .echo])

    /// Echoes under a serial that nobody has used: the last one that the protocol has.
    package static let unknownSerial = Reaction(.unknownSerial)
}

// MARK: - Order and time

extension Reaction {
    /// Waits `delay` and then does `reaction`. A request that is cancelled meanwhile gets no reply, unless
    /// `answersCancelled`. Replies to later requests overtake it, but not in a protocol whose responses match in order:
    /// there the reactions to later requests of the connection wait until it has replied.
    public static func after(_ delay: Duration, _ reaction: Reaction) -> Reaction {
        Reaction(.after(delay, reaction))
    }

    /// Does one after the other; an `after` delays those that follow it.
    public static func sequence(_ reactions: [Reaction]) -> Reaction { Reaction(.sequence(reactions)) }

    /// Holds the reactions to `window` requests of a connection and then does them in reverse order.
    ///
    /// Fewer than `window` are held until `LoopbackServer.releaseHeld()`.
    public static func outOfOrder(window: Int, _ reaction: Reaction = .echo) -> Reaction {
        Reaction(.outOfOrder(window: max(1, window), seed: nil, reaction))
    }

    /// As `outOfOrder(window:)`, in an order that follows from `seed`.
    package static func shuffled(window: Int, seed: UInt64, _ reaction: Reaction = .echo) -> Reaction {
        Reaction(.outOfOrder(window: max(1, window), seed: seed, reaction))
    }
}

// MARK: - On the server's own account

extension Reaction {
    /// Pushes `frames`, in one write with what comes before and after.
    public static func push(_ frames: Frame...) -> Reaction {
        frames.count == 1 ? Reaction(.push(frames[0])) : sequence(frames.map { Reaction(.push($0)) })
    }

    /// Asks the client for a sign of life.
    package static let ping = Reaction(.ping)

    /// Goes on with TLS once everything before is written (STARTTLS): `.sequence([.reply("go on"), .startTLS])`. The server
    /// needs `options.tls`, with `beginsAtOnce = false`; bytes that have come in plaintext meanwhile close the connection.
    public static let startTLS = Reaction(.startTLS)
}

// MARK: - Trouble

extension Reaction {
    /// Does `reaction` and writes its bytes one at a time, one in each turn of the loop.
    package static func oneByteAtATime(_ reaction: Reaction = .echo) -> Reaction { inPieces(of: 1, reaction) }

    /// Does `reaction` and writes its bytes in pieces of `size` (at least 1), one in each turn of the loop.
    public static func inPieces(of size: Int, _ reaction: Reaction = .echo) -> Reaction {
        Reaction(.inPieces(of: max(1, size), reaction))
    }

    /// Writes the first half of a reply's bytes and closes the connection.
    public static func closeMidFrame(_ reaction: Reaction = .echo) -> Reaction { Reaction(.half(reaction)) }

    /// Writes the first half of a reply's bytes, and then nothing more to this connection, which stays: as a server that hangs
    /// in the midst of a frame. What else there is to be written waits until the connection ends.
    public static func hangMidFrame(_ reaction: Reaction = .echo) -> Reaction { Reaction(.halfForEver(reaction)) }

    /// Does `reaction` with one bit wrong in every frame that it writes: `bit` counts from the highest of the first byte. A
    /// frame that has no such bit is written as it is. With a bit of the length the client loses framing: it takes what follows for
    /// a piece of one long frame.
    public static func flippingBit(_ bit: Int, _ reaction: Reaction = .echo) -> Reaction {
        Reaction(.flippingBit(max(0, bit), reaction))
    }

    /// Closes the connection in good order, once everything before is written. What the client sends is not heeded.
    public static let close = Reaction(.close)

    /// Resets the connection at once; what is not written yet is lost.
    public static let reset = Reaction(.reset)

    /// Reads nothing more from this connection until `LoopbackServer.resumeReading()`; TCP pushes back on the client.
    package static let stopReading = Reaction(.stopReading)

    /// Writes `bytes` as they are.
    public static func garbage(_ bytes: Bytes) -> Reaction { Reaction(.bytes(bytes)) }

    /// Writes the header of a reply whose length is the largest that its field holds, and no body.
    ///
    /// For a `FrameLayout`; of another codec it knows no header and writes 64 bytes of 0xFF.
    package static let absurdLength = Reaction(.absurdLength)
}
