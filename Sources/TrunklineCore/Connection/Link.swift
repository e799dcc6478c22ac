/// One established socket and everything that belongs to it, from the handshake to the end. A new link is a new object:
/// nothing of the old one remains.
///
///     handshaking ──becomeReady──► ready ──drain──► draining
///          └───────────────────────────┴── close ──────┴──► closed
///
/// Confined to the event loop of its connection.
final class Link {
    /// The `number` of the attempt that established it: see `ReconnectMachine.Attempt`.
    let attempt: Int
    /// The position of this link among all links of the connection, counted from 1.
    let number: Int
    /// When its socket was connected.
    let establishedAt: Instant
    /// Whether it exchanges datagrams. Each frame is sent in one of its own.
    let exchangesDatagrams: Bool
    private(set) var phase: Phase
    /// When the link became ready.
    private(set) var readySince: Instant?
    /// The versions of the files from which its TLS settings were made; `nil` in plaintext.
    var fileVersions: [FileVersion?]?
    /// The path of its packets to the server.
    var path: LinkPath
    /// What few links have, and `nil` for the others.
    private var extras: Extras?
    /// The number of requests that may be in flight. Set before the link is ready.
    ///
    /// Exclusive without a check: nothing is called while it is read or set. It is read for every batch.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var maximumInFlight = Int.max
    /// Whether the reconnect machine knows that the server has answered a request, or sent something unprompted, on it.
    var (hasAnswered, hasDelivered) = (false, false)
    /// The ID of the attempt that established it.
    let session: SessionID
    /// Carries the bytes. Replaced when the handshake starts TLS.
    private(set) var transport: any Transport
    /// `transport`, if that is TLS.
    private(set) var secured: SecuredTransport?
    /// Whether there may be more to read than the socket's readiness says, because the share of a turn was used up.
    var mayHaveMore = false
    /// Whether frames are held that are left for the next turn: see `Link.Taken.rest`. Nothing is read until then.
    var isCatchingUp = false
    /// Set when a write has failed because the peer closed. Nothing more is written, and what the peer sent earlier
    /// is read to its end, one share in each turn. This may happen in every phase.
    var finalReads: FinalReads?
    /// What a turn works on, in one access each for reading, handling and writing frames: the runtime checks each
    /// access. What a turn uses of the fields above is only assigned as a whole, so that it need not check that.
    var state: State

    private final class Extras {
        var farewell: ServerReason?
        var departure: String?
        var negotiated = Negotiated()
        var serverInfo: (any Sendable)?
        var openCalls = 0
        var window = DatagramWindow(minimum: .max)
    }

    /// Why the server ends the link, in its own words; `nil` if it has not said so.
    var farewell: ServerReason? {
        get { extras?.farewell }
        set { change { $0.farewell = newValue } }
    }

    /// Why the client is about to leave the link, with the numbers of the rule; `nil` if it is not, or if the server
    /// has asked for it.
    var departure: String? {
        get { extras?.departure }
        set { change { $0.departure = newValue } }
    }

    /// What the handshake has negotiated for this link.
    var negotiated: Negotiated {
        get { extras?.negotiated ?? Negotiated() }
        set { change { $0.negotiated = newValue } }
    }

    /// The value that its handshake has stored about the server; `nil` for none.
    var serverInfo: (any Sendable)? {
        get { extras?.serverInfo }
        set { change { $0.serverInfo = newValue } }
    }

    /// The number of requests of the server on it that wait for a handler or have one that runs.
    var openCalls: Int {
        get { extras?.openCalls ?? 0 }
        set { change { $0.openCalls = newValue } }
    }

    /// How many requests may be unanswered on it, if it exchanges datagrams.
    var window: DatagramWindow {
        get { extras?.window ?? DatagramWindow(minimum: .max) }
        set { change { $0.window = newValue } }
    }

    private func change(_ change: (Extras) -> Void) {
        let extras = extras ?? Extras()
        self.extras = extras
        change(extras)
    }

    /// Limits that apply to one link, instead of those of the options.
    struct Negotiated {
        var liveness: ClientOptions.Liveness?
        var maximumInFlight: Int?
        var maximumFrameSize: Int?
    }

    /// The phases of a link. Each follows the one before it; `closed` may follow any of them.
    enum Phase {
        case handshaking(HandshakeUse)
        case ready
        case draining(Draining)
        case closed
    }

    init(
        _ attempt: ReconnectMachine.Attempt,
        _ transport: any Transport,
        _ codec: ProtocolCodec,
        _ handshake: HandshakeUse,
        number: Int,
        path: LinkPath,
        quarantine: Duration,
        maximumDatagramSize: Int,
        randomBits: @escaping @Sendable () -> UInt64,
        at now: Instant
    ) {
        establishedAt = now
        exchangesDatagrams = transport.exchangesDatagrams
        phase = .handshaking(handshake)
        self.attempt = attempt.number
        self.number = number
        self.path = path
        let machine = LinkMachine(
            session: attempt.id,
            matching: codec.matching,
            quarantine: quarantine,
            firstSerial: codec.matching.firstHandshakeSerial,
            maximumInFlightPerChannel: codec.maximumInFlightPerChannel,
            maximumFrameSize: transport.exchangesDatagrams ? maximumDatagramSize : .max,
            numbering: codec.numbering,
            randomBits: randomBits
        )
        session = attempt.id
        self.transport = transport
        secured = transport as? SecuredTransport
        state = State(attempt.endpoint, path.remote, machine, LinkCodec(codec.base))
        let hasWideSerials = !machine.serialExtension.isEmpty
        state.examinesResponses = codec.checksResponses || exchangesDatagrams || hasWideSerials
        if exchangesDatagrams {
            state.dropsMismatches = true
            state.codec.useDatagrams()
        }
    }

    /// Goes on over TLS.
    func upgrade(to secured: SecuredTransport) { (transport, self.secured) = (secured, secured) }

    /// Whether TLS has accepted bytes that it has not passed to the socket yet.
    var isHoldingBytes: Bool { secured?.isHoldingBytes ?? false }

    var endpoint: Endpoint { state.endpoint }

    // MARK: Phases

    /// The handshake, until the link is ready.
    var handshake: HandshakeUse? { if case .handshaking(let handshake) = phase { handshake } else { nil } }

    /// The draining, once the link takes no new requests any more.
    var draining: Draining? { if case .draining(let draining) = phase { draining } else { nil } }

    var isInHandshake: Bool { if case .handshaking = phase { true } else { false } }
    var isReady: Bool { if case .ready = phase { true } else { false } }
    var isDraining: Bool { if case .draining = phase { true } else { false } }

    /// Ends the handshake, with no request in flight.
    func becomeReady(_ policy: Liveness.Policy, at now: Instant) {
        precondition(isInHandshake, "only a link in its handshake becomes ready")
        phase = .ready
        readySince = now
        state.machine.becomeReady(policy, at: now)
    }

    /// Lets the link take no more requests. Returns, in order, those of which nothing was written. The others finish on
    /// this link.
    func drain(_ draining: Draining) -> [QueuedRequest] {
        precondition(isReady, "only a ready link drains")
        phase = .draining(draining)
        return state.machine.drain()
    }

    /// Ends the link, and returns everything that is left on it. Its transport is to be closed separately.
    func close() -> LinkMachine.Remains {
        phase = .closed
        return state.machine.close()
    }

    /// The draining of a link: those requests that have started finish there, or meet their deadline.
    final class Draining {
        /// Requests that are still in flight then are lost.
        private(set) var deadline: Instant
        let cause: DisconnectCause
        /// Why the client has left the link; `nil` if the server has asked for it.
        let departure: String?
        /// Whether the codec's `closingFrame` was queued, or it has none.
        var hasSentClosingFrame = false
        /// Whether the server answers that frame.
        var awaitsAnswer = false
        /// What is left to write, if nothing is in flight any more.
        var rest: Rest?
        /// Whether the socket has taken none of `rest` within its time, so that the link closes without it.
        var isStalled = false

        init(until deadline: Instant, _ cause: DisconnectCause, _ departure: String?) {
            (self.deadline, self.cause, self.departure) = (deadline, cause, departure)
        }

        func prolong(by duration: Duration) { deadline = deadline.advanced(by: duration) }

        /// The earliest instant at which the link may have to be closed.
        var nextLook: Instant { min(deadline, rest?.until ?? deadline) }

        struct Rest {
            let left: Left
            let until: Instant
        }
    }

    // MARK: What a turn works on

    struct State {
        let endpoint: Endpoint
        /// The address of the server; `nil` for a Unix domain socket.
        let remote: SocketAddress?
        /// The requests and frames on it.
        var machine: LinkMachine
        /// Encodes and decodes for this link alone.
        var codec: LinkCodec
        var received = ReceiveBuffer()
        /// Whether `received` may hold complete frames. These come before everything that the socket has.
        var holdsFrames = false
        /// The requests whose last byte TLS has encrypted and the socket has not taken yet, each with the `sentMark` at
        /// which the socket has taken it.
        var heldWrites = Deque<(id: RequestID, mark: Int)>()
        /// Whether the outbound queue has reached the high watermark and is not below the low one again.
        var isAboveWatermark = false
        /// Whether responses are looked at before they end their requests: to compare them, or to drop malformed ones.
        var examinesResponses = false
        /// Whether a response that cannot be right is dropped, and its request goes on waiting: the link exchanges
        /// datagrams, and anybody may have sent this one.
        var dropsMismatches = false
        /// The frames received while the owner was paused.
        var held = Held()

        init(
            _ endpoint: Endpoint,
            _ remote: SocketAddress?,
            _ machine: LinkMachine,
            _ codec: LinkCodec
        ) {
            (self.endpoint, self.remote) = (endpoint, remote)
            self.machine = machine
            self.codec = codec
            if codec.notesEnded { self.machine.reportEnds() }
        }

        /// Goes on with another copy of the codec, which knows nothing of the requests on the link.
        mutating func replaceCodec(by fresh: LinkCodec) {
            codec = fresh
            if codec.notesEnded { machine.reportEnds() }
        }

        /// Tells the codec which requests have ended.
        @inline(__always)
        mutating func noteEnds() { if codec.notesEnded { codec.noteEnded(machine.takeEnded()) } }
    }

    /// Reading from a link that can no longer be written to.
    final class FinalReads {
        /// The error of the write.
        let failure: TransportError
        /// When reading ends at the latest, in case the peer never stops sending.
        let deadline: Instant
        /// The number of bytes read since.
        var byteCount = 0

        init(_ failure: TransportError, until deadline: Instant) {
            (self.failure, self.deadline) = (failure, deadline)
        }
    }

    /// Whether the server closed a TLS link between two frames without `close_notify`, as many servers do.
    func isCutShort(by cause: any Error) -> Bool {
        (cause as? TransportError)?.code == .tls(.truncated) && state.received.isEmpty
    }

    /// What the server has sent, if that was no frame of the protocol.
    var firstBytes: FirstBytes {
        let hasHeard = handshake?.hasHeard ?? state.machine.liveness.rules.hasHeard
        guard !hasHeard, !state.received.isEmpty else { return .none }
        return KnownService(state.received).map { .service($0) } ?? .unknown
    }

    /// The error of a link that has ended because of `cause`: with what the server has said, if it closed the link.
    func explained(_ cause: any Error) -> any Error {
        guard let farewell, let error = cause as? TransportError else { return cause }
        return switch error.code {
        case .closedByPeer, .reset, .exited, .tls(.truncated): TransportError.endedByServer(farewell)
        default: cause
        }
    }

    /// Whether there is more to read than the socket's readiness says.
    var isToBeReadOn: Bool {
        if finalReads != nil, !isDraining { return true }
        return transport.isReading && (mayHaveMore || state.holdsFrames || finalReads != nil)
    }

    /// Whether no request is in flight on the link, in either direction.
    var hasNothingInFlight: Bool { state.machine.count == 0 && openCalls == 0 }

    /// Whether nothing is in flight on the link, and nothing left to write.
    var isWritten: Bool { hasNothingInFlight && state.machine.outbound.isEmpty && !isHoldingBytes }

    /// Whether the link is draining, with nothing in flight and nothing left that can be written.
    var isDrained: Bool {
        guard let draining else { return false }
        guard hasNothingInFlight else { return false }
        return state.machine.outbound.isEmpty && !draining.awaitsAnswer || draining.isStalled
    }
}

// MARK: - Timelines

extension Link.State {
    /// What the link knows at `now` about the try whose frame is, or was, at `position`.
    func tryOnLink(at position: OutboundPosition, now: Instant, hasFailed: Bool) -> TryOnLink {
        tryOnLink(machine.writeTimes(of: position), now: now, hasFailed: hasFailed)
    }

    /// What the link knows at `now` about a try that was written at `times`.
    func tryOnLink(_ times: WriteLog.Times, now: Instant, hasFailed: Bool) -> TryOnLink {
        let link = described(at: now, inFlight: machine.count, hasFailed: hasFailed)
        return TryOnLink(link: link, times: times)
    }

    /// The link at `now`, with its condition if one of its requests, of which there are `inFlight`, has failed.
    func described(at now: Instant, inFlight: Int, hasFailed: Bool) -> Timeline.Link {
        let rules = machine.liveness.rules
        let condition = Timeline.Condition(
            silence: max(.zero, now.since(rules.lastHeard)),
            isPingUnanswered: rules.isProbing,
            othersInFlight: max(0, inFlight - 1)
        )
        return Timeline.Link(endpoint, remote, session: machine.session, hasFailed ? condition : nil)
    }
}

extension ResponseMatching {
    /// Far from the serials that the client uses first: a duplicate response of the handshake must not match a later
    /// request.
    fileprivate var firstHandshakeSerial: SerialNumber? {
        guard case .serial(let range) = self else { return nil }
        return range.upperBound - (range.upperBound - range.lowerBound) / 4
    }
}

// MARK: - Writing

extension Link {
    /// The result of a `write`.
    struct WriteResult {
        /// The requests whose last byte the kernel has accepted, if their callers wait for that.
        var wrote: [RequestID] = []
        /// The requests whose last byte was written, if that is observed.
        var completed: [RequestID] = []
        /// The frames that could not be encoded and were removed from the queue.
        var refused: [OutboundQueue.Refusal] = []
        var failure: TransportError?
        /// Whether to skip the write if no frame is queued, and whether it was skipped.
        var (skipsEmpty, isSkipped) = (false, false)
        /// Whether the timer of liveness may have to fire earlier.
        var isLookSooner = false
        /// The number of bytes that were written, and of frames whose last byte was among them.
        var (byteCount, frameCount) = (0, 0)
    }
}

extension Link.State {
    /// Writes as much as the socket takes. If that is not all, waits until it is writable.
    ///
    /// - Parameters:
    ///   - result: Empty.
    ///   - isObserved: Whether `result.completed` is wanted.
    ///   - recorder: Records the frames whose first byte was written.
    ///   - link: The link with this state.
    mutating func write(
        into result: inout Link.WriteResult,
        isObserved: Bool,
        _ recorder: (any ClientRecorder)?,
        of link: Link,
        on loop: any EventLoop
    ) {
        if result.skipsEmpty, machine.outbound.isEmpty {
            result.isSkipped = true
            return
        }
        noteEnds()
        if link.isReady { result.isLookSooner = machine.willWrite(at: loop.turnTime) }
        defer { machine.noteWrites(at: loop.now) }
        let (transport, secured) = (link.transport, link.secured)
        if !heldWrites.isEmpty {
            // Bytes that TLS holds go first.
            if case .failed(let error) = unsafe transport.write([]) {
                result.failure = error
                transport.awaitsWritable = false
                return
            }
            releaseWrites(secured, &result.wrote)
        }
        // Bounded: a caller that writes without end must not keep the loop from reading.
        attempts: for _ in 0..<8 {
            result.refused += machine.encode(using: &codec.base)
            if machine.outbound.unwrittenCount == 0 { break }
            // A closure in a variable would be allocated for each write.
            let (outcome, offered) =
                link.exchangesDatagrams
                ? writeDatagrams(to: transport)
                : unsafe machine.outbound.withUnwritten { pieces in
                    unsafe (transport.write(pieces), pieces.reduce(0) { $0 + $1.count })
                }
            switch outcome {
            case .bytes(let written):
                recorder?.sent(
                    in: machine.outbound,
                    within: written,
                    session: machine.session,
                    isHandshake: link.isInHandshake
                )
                codec.noteSent(from: machine.outbound, within: written)
                let firstNew = result.wrote.count
                result.byteCount += written
                result.frameCount +=
                    isObserved
                    ? machine.didWrite(written, reporting: &result.wrote, requests: &result.completed)
                    : machine.didWrite(written, reporting: &result.wrote)
                if result.wrote.count > firstNew { holdUnsent(secured, &result.wrote, from: firstNew) }
                if written < offered { break attempts }  // the socket is full
            case .wouldBlock: break attempts
            case .failed(let error):
                result.failure = error
                break attempts
            }
        }
        if result.failure == nil { releaseWrites(secured, &result.wrote) }
        // Set once: every change is a system call.
        transport.awaitsWritable = result.failure == nil && !(machine.outbound.isEmpty && heldWrites.isEmpty)
    }

    /// Writes the next frames, each as a datagram. Returns the outcome, and the number of bytes that were offered.
    @inline(never)
    private func writeDatagrams(to transport: any Transport) -> (WriteOutcome, Int) {
        unsafe machine.outbound.withUnwrittenFrames { pieces in
            unsafe (transport.write(pieces), pieces.reduce(0) { $0 + $1.count })
        }
    }

    /// Moves the IDs in `wrote` from `start` on to `heldWrites`, if the kernel does not have all bytes.
    private mutating func holdUnsent(_ secured: SecuredTransport?, _ wrote: inout [RequestID], from start: Int) {
        guard let secured, secured.takenMark > secured.sentMark else { return }
        let mark = secured.takenMark
        for id in wrote[start...] { heldWrites.append((id, mark)) }
        wrote.removeSubrange(start...)
    }

    /// Moves the IDs of `heldWrites` whose bytes the kernel has accepted to `wrote`. More bytes may have been encrypted
    /// since then, so on a busy link some always wait.
    private mutating func releaseWrites(_ secured: SecuredTransport?, _ wrote: inout [RequestID]) {
        guard let sent = secured?.sentMark else { return }
        while let first = heldWrites.first, first.mark <= sent {
            wrote.append(first.id)
            _ = heldWrites.popFirst()
        }
    }
}

// MARK: - Reading

extension Link {
    /// Datagrams that were no frames, or no responses to the requests with their serials. An object, so that the
    /// results of other links have no room for it.
    final class Dropped {
        private(set) var count = 0
        /// Why the latest was dropped.
        private(set) var reason = FrameError(.malformed, "")

        static func note(_ reason: FrameError, in dropped: inout Dropped?) {
            let all = dropped ?? Dropped()
            all.count += 1
            all.reason = reason
            dropped = all
        }
    }

    /// The result of a `read`, apart from its frames.
    struct ReadResult {
        /// The number of bytes that were read, and of those that show that the peer is alive.
        var (count, signs) = (0, 0)
        /// Why the link ends.
        var ending: (any Error)?
        /// The datagrams that were no frames; `nil` if there were none.
        var dropped: Dropped?
        var mayHaveMore = false
        /// Whether reading goes on in the next turn because the share of this one is used up.
        var isShareUsedUp = false
        /// Whether the timer of liveness may have to fire earlier.
        var isLookSooner = false
    }
}

extension Link.State {
    /// Reads until the socket is empty or the share of the turn is used up, and decodes the complete frames.
    mutating func read(
        into frames: inout [Frame],
        limit: Int,
        _ share: ReadShare,
        of link: Link,
        on loop: any EventLoop
    ) -> Link.ReadResult {
        let (transport, secured) = (link.transport, link.secured)
        let before = secured?.receivedCount ?? 0
        var (share, result) = (share, Link.ReadResult())
        repeat {
            // A datagram that does not fit would be lost.
            if link.exchangesDatagrams { received.await(ReceiveBuffer.datagramSize) }
            if !holdsFrames { loop.withReceiveMemory { received.borrow(&$0) } }
            let decodedBefore = frames.count
            let step =
                link.exchangesDatagrams
                ? readDatagram(from: transport, into: &frames, &result)
                : readAndDecode(from: transport, into: &frames, limit: limit, maximumFrames: share.step, on: loop)
            result.count += step.count
            result.ending = step.ending
            result.mayHaveMore = step.ending == nil && step.mayHaveMore
            guard result.mayHaveMore else { break }
            result.isShareUsedUp = !share.goesOn(
                after: step.count,
                frames.count - decodedBefore,
                since: loop.turnTime,
                at: loop.now
            )
        } while !result.isShareUsedUp
        loop.withReceiveMemory { received.giveBack(to: &$0) }
        // With TLS this includes bytes of records that are incomplete or have no content.
        result.signs = max(result.count, secured.map { $0.receivedCount &- before } ?? 0)
        if link.isReady, result.signs > 0 || !frames.isEmpty {
            result.isLookSooner = noteReceived(result.signs, hasFrames: !frames.isEmpty, at: loop.turnTime)
        }
        return result
    }

    /// Reads once, unless complete frames are left from the last time, and decodes at most `maximumFrames`.
    private mutating func readAndDecode(
        from transport: any Transport,
        into frames: inout [Frame],
        limit: Int,
        maximumFrames: Int,
        on loop: any EventLoop
    ) -> (count: Int, mayHaveMore: Bool, ending: (any Error)?) {
        var (count, offered) = (0, 0)
        if !holdsFrames {
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
            case .end: return (0, false, end(of: transport, into: &frames))
            case .failed(let error): return (0, false, error)
            }
        }
        let before = frames.count
        do throws(FrameError) {
            if received.count < LoopDelay.Decoding.fewestBytes {
                try codec.decodeAll(&received, into: &frames, limit: maximumFrames)
            } else {
                try decodeMuch(into: &frames, limit: maximumFrames, on: loop)
            }
            holdsFrames = frames.count - before >= maximumFrames && !received.isEmpty
            if !holdsFrames, received.count > limit {
                throw FrameError(
                    exceedingLimit: "no complete frame within \(limit) bytes (inbound.maximumUndecoded)"
                )
            }
        } catch {
            return (count, false, error.judged(byMaximum: limit))
        }
        // If frames were left over, nothing was read, so what the socket has is not known.
        return (count, holdsFrames || count == offered, nil)
    }

    /// Decodes frames of many bytes, and notes if that takes long: then it explains why the event loop is late.
    @inline(never)
    private mutating func decodeMuch(
        into frames: inout [Frame],
        limit: Int,
        on loop: any EventLoop
    ) throws(FrameError) {
        let begin = loop.now
        defer {
            let nanoseconds = loop.now.nanoseconds &- begin.nanoseconds
            if nanoseconds >= LoopDelay.Decoding.shortest {
                loop.noteDecoding(LoopDelay.Decoding(of: endpoint, nanoseconds: nanoseconds))
            }
        }
        try codec.decodeAll(&received, into: &frames, limit: limit)
    }

    /// Reads one datagram, and decodes its frames. If it holds anything else, it is dropped.
    @inline(never)
    private mutating func readDatagram(
        from transport: any Transport,
        into frames: inout [Frame],
        _ result: inout Link.ReadResult
    ) -> (count: Int, mayHaveMore: Bool, ending: (any Error)?) {
        let (count, outcome) = unsafe received.fill { free in
            let outcome = unsafe transport.read(into: free)
            if case .bytes(let count) = outcome { return (count, outcome) }
            return (0, outcome)
        }
        switch outcome {
        case .bytes: break
        case .wouldBlock: return (0, false, nil)
        case .end: return (0, false, TransportError(.closedByPeer, "the server closed the connection"))
        case .failed(let error): return (0, false, error)
        }
        let (before, codecBefore) = (frames.count, codec)
        do throws(FrameError) {
            try codec.decodeAll(&received, into: &frames)
            if !received.isEmpty { throw FrameError(.malformed, "the datagram ends within a frame") }
        } catch {
            frames.removeSubrange(before...)
            // What it has remembered of this datagram says nothing about the next one.
            codec = codecBefore
            received.stopAwaiting()
            _ = received.discard(received.count)
            Link.Dropped.note(error, in: &result.dropped)
        }
        return (count, true, nil)
    }

    /// Notes that `count` bytes were received, and whether they completed frames. Returns whether the timer may have to
    /// fire earlier.
    @inline(__always)
    mutating func noteReceived(_ count: Int, hasFrames: Bool, at now: Instant) -> Bool {
        // Complete frames may be left for the next turn.
        let leavesIncomplete = !received.isEmpty && !holdsFrames
        return machine.received(count, hasFrames: hasFrames, leavesIncomplete: leavesIncomplete, at: now)
    }

    /// Handles the server's close: decodes the frames that it completes, and returns why the link ends.
    private mutating func end(of transport: any Transport, into frames: inout [Frame]) -> any Error {
        do throws(FrameError) {
            try codec.decodeAllAtEnd(&received, into: &frames)
            if let exit = transport.exit { return TransportError.exited(exit) }
            return TransportError(.closedByPeer, "the server closed the connection")
        } catch {
            return error
        }
    }
}

extension Frame {
    /// Returns whether the server sent one of `frames` unprompted, and neither as a heartbeat nor to end the link.
    static func hasPush(_ frames: [Frame]) -> Bool {
        let span = frames.span  // `contains(where:)` copies every frame
        for index in span.indices where span[index].kind == .push || span[index].kind == .request { return true }
        return false
    }
}
