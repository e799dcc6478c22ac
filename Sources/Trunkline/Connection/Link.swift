/// One established socket, from the handshake to its end, and everything that belongs to it. A new link is a new value:
/// nothing of the old one survives.
struct Link {
    /// The number of the attempt that made it: see `ReconnectMachine.Attempt`.
    let attempt: Int
    let endpoint: Endpoint
    /// Which of the connection's links it is, counted from 1.
    let number: Int
    /// The files that its TLS was made of.
    var fileVersions: [FileVersion?]?
    /// How its packets get to the server.
    var path: LinkPath
    /// What is under way on it.
    var machine: LinkMachine<Waiter>
    /// Another one from where the handshake has switched to TLS.
    var transport: any Transport
    /// Encodes and decodes for this link alone.
    var codec: any FrameCodec
    /// Whether `codec` wants to hear what goes out. Asked once: hardly any does.
    let notesSent: Bool
    var received = ReceiveBuffer()
    /// `received` may hold complete frames, which come before anything that the socket has.
    var holdsFrames = false
    /// There may be more to read than readiness tells of: the share of a turn was used up.
    var mayHaveMore = false
    /// Who wants to hear that the kernel has their last byte, which TLS has encrypted and the socket has not taken yet, and
    /// the `sentMark` at which it has.
    var heldWrites = Deque<(id: RequestID, mark: Int)>()
    /// Set when a write has failed because the peer is gone: nothing more is written, and what it said before is read to its
    /// end, a share in every turn.
    var lastWords: LastWords?
    /// The outbound queue was filled to the high watermark and is not down to the low one again.
    var isAboveWatermark = false
    /// What came while the owner wanted nothing.
    var held = Held()
    /// The conversation before the link is ready.
    var handshake: HandshakeState?
    /// When it became ready.
    var readySince: Instant?
    /// Since it takes no new requests.
    var draining: Draining?

    /// A link that takes no new requests: those that had started on it finish there, or meet their deadline.
    struct Draining {
        /// What is under way then is lost.
        let deadline: Instant
        let cause: DisconnectCause
        /// The codec's `closingFrame` was queued, if it has one.
        var hasTakenLeave = false
    }

    /// Reading a link that cannot be written to any more.
    struct LastWords {
        /// That of the write.
        let failure: TransportError
        /// When reading ends at the latest: the peer may be there after all, and speak without end.
        let deadline: Instant
        /// How many bytes have been read since.
        var byteCount = 0
    }

    init(
        _ attempt: ReconnectMachine.Attempt,
        _ transport: any Transport,
        _ codec: any FrameCodec,
        number: Int,
        path: LinkPath,
        quarantine: Duration
    ) {
        self.attempt = attempt.number
        self.number = number
        self.path = path
        endpoint = attempt.endpoint
        self.transport = transport
        self.codec = codec
        notesSent = codec._notesSent
        machine = LinkMachine(
            session: attempt.id,
            matching: codec.matching,
            quarantine: quarantine,
            firstSerial: codec.matching.firstHandshakeSerial
        )
    }

    var session: UInt64 { machine.session }

    /// Whether the server has closed a TLS link between two frames and without TLS' own goodbye, as many servers do.
    func isCutShort(by cause: any Error) -> Bool {
        (cause as? TransportError)?.code == .tls(.truncated) && received.isEmpty
    }
}

extension ResponseMatching {
    /// Far from those that the client hands out: a second answer to a request of the handshake must not meet a later one.
    fileprivate var firstHandshakeSerial: SerialNumber? {
        guard case .serial(let range) = self else { return nil }
        return range.upperBound - (range.upperBound - range.lowerBound) / 4
    }
}

// MARK: - Writing

extension Link {
    /// What came of a `write`.
    struct WriteResult {
        /// Who wanted to hear that the kernel has their last byte.
        var wrote: [RequestID] = []
        /// What could not be encoded and is out of the queue.
        var refused: [OutboundQueue.Refusal] = []
        var failure: TransportError?
    }

    /// Writes as much as the socket takes, and waits for the socket if that is not all.
    mutating func write() -> WriteResult {
        var result = WriteResult()
        guard lastWords == nil else { return result }
        if !heldWrites.isEmpty {
            // What waits goes first.
            if case .failed(let error) = unsafe transport.write([]) {
                result.failure = error
                transport.awaitsWritable = false
                return result
            }
            releaseWrites(&result.wrote)
        }
        // Bounded, so that a caller who writes without end does not keep the loop from reading.
        attempts: for _ in 0..<8 {
            result.refused += machine.encode(using: &codec)
            if machine.outbound.unwrittenCount == 0 { break }
            let (outcome, offered) = unsafe machine.outbound.withUnwritten { pieces in
                unsafe (transport.write(pieces), pieces.reduce(0) { $0 + $1.count })
            }
            switch outcome {
            case .bytes(let written):
                if notesSent { machine.outbound.forEachStarting(within: written) { codec._noteSent($0) } }
                let firstNew = result.wrote.count
                machine.didWrite(written, reporting: &result.wrote)
                if result.wrote.count > firstNew { holdUnsent(&result.wrote, from: firstNew) }
                if written < offered { break attempts }  // the socket is full
            case .wouldBlock: break attempts
            case .failed(let error):
                result.failure = error
                break attempts
            }
        }
        if result.failure == nil { releaseWrites(&result.wrote) }
        // Set once: every change is a system call.
        transport.awaitsWritable = result.failure == nil && !(machine.outbound.isEmpty && heldWrites.isEmpty)
        return result
    }

    /// Moves what `wrote` has from `start` on to `heldWrites` when not all of it is with the kernel.
    private mutating func holdUnsent(_ wrote: inout [RequestID], from start: Int) {
        let mark = transport.takenMark
        guard mark > transport.sentMark else { return }
        for id in wrote[start...] { heldWrites.append((id, mark)) }
        wrote.removeSubrange(start...)
    }

    /// Moves those of `heldWrites` to `wrote` whose bytes are with the kernel. More may have been encrypted since: on a busy
    /// link there is always something that waits.
    private mutating func releaseWrites(_ wrote: inout [RequestID]) {
        let sent = transport.sentMark
        while let first = heldWrites.first, first.mark <= sent {
            wrote.append(first.id)
            _ = heldWrites.popFirst()
        }
    }
}

// MARK: - Reading

extension Link {
    /// Reads once, unless complete frames are left over from the last time, and decodes at most `maximumFrames`.
    mutating func readAndDecode(
        into frames: inout [Frame],
        limit: Int,
        maximumFrames: Int
    ) -> (count: Int, mayHaveMore: Bool, ending: (any Error)?) {
        var (count, offered) = (0, 0)
        if !holdsFrames {
            let transport = transport
            let outcome: ReadOutcome
            (count, outcome) = unsafe received.fill { free in
                offered = free.count
                let outcome = unsafe transport.read(into: free)
                if case .bytes(let count) = outcome { return (count, outcome) }
                return (0, outcome)
            }
            switch outcome {
            case .bytes: break
            case .wouldBlock: return (0, false, nil)
            case .end: return (0, false, end(into: &frames))
            case .failed(let error): return (0, false, error)
            }
        }
        let before = frames.count
        do throws(FrameError) {
            try codec._decodeAll(&received, into: &frames, limit: maximumFrames)
            holdsFrames = frames.count - before >= maximumFrames && !received.isEmpty
            if !holdsFrames, received.count > limit {
                throw FrameError(.illegalLength, "no frame within \(limit) bytes (inbound.maximumUndecoded)")
            }
        } catch {
            return (count, false, error)
        }
        // Nothing was read when frames were left over: what the socket has is not known.
        return (count, holdsFrames || count == offered, nil)
    }

    /// The server has closed: decodes what that completes, and says why the link ends.
    private mutating func end(into frames: inout [Frame]) -> any Error {
        do throws(FrameError) {
            try codec.decodeAllAtEnd(&received, into: &frames)
            return TransportError(.closedByPeer, "the server closed the connection")
        } catch {
            return error
        }
    }
}

extension Frame {
    /// Whether the server sent it on its own account, and not to keep the link alive or to end it.
    var isPush: Bool { kind == .push || kind == .request }
}
