/// One established socket and everything that belongs to it, confined to the event loop of its connection. A new link
/// is a new object: nothing of the old one remains.
///
///     handshaking ──becomeReady──► ready ──drain──► draining
///          └───────────────────────────┴── close ──────┴──► closed
final class Link {
    let attempt: Int
    /// Counted from 1, among all links of the connection.
    let number: Int
    let establishedAt: Instant
    private(set) var phase: Phase
    private(set) var readySince: Instant?
    var fileVersions: [FileVersion?]?
    var path: LinkPath
    /// `nil` for most links.
    private var extras: Extras?
    /// Exclusive without a check: nothing is called while it is read or set. It is read for every batch.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var maximumInFlight = Int.max
    let session: SessionID
    /// Replaced when the handshake starts TLS.
    private(set) var transport: any Transport
    private(set) var secured: SecuredTransport?
    /// Each frame is sent in a datagram of its own.
    let exchangesDatagrams: Bool
    /// Whether the reconnect machine knows of an answer, or of something that the server sent unprompted.
    var (hasAnswered, hasDelivered) = (false, false)
    /// There may be more to read than the socket's readiness says, because the share of a turn was used up.
    var mayHaveMore = false
    /// Frames are left for the next turn (`Link.Taken.rest`). Nothing is read until then.
    var isCatchingUp = false
    /// How many accesses read `content` at present; -1 while one changes it.
    private var uses: Int16 = 0
    /// A write has failed because the peer closed. What it sent earlier is read to its end, one share in each turn.
    var finalReads: FinalReads?
    /// What a turn works on. `uses` keeps accesses exclusive, for a few instructions each. The check of the runtime
    /// takes about 90, because it works on any thread; a link is used on one. The fields above need no check: those
    /// that a turn uses are only assigned as a whole.
    @exclusivity(unchecked)
    @safe private var content: State

    var state: State {
        @inline(__always)
        _read {
            if uses < 0 { Self.overlap() }
            uses &+= 1
            defer { uses &-= 1 }
            yield content
        }
        @inline(__always)
        _modify {
            if uses != 0 { Self.overlap() }
            uses = -1
            defer { uses = 0 }
            yield &content
        }
    }

    @inline(never)
    private static func overlap() -> Never {
        fatalError("a link was used while its state changed: a codec must not call the client that it serves")
    }

    private final class Extras {
        var farewell: ServerReason?
        var departure: String?
        var negotiated = Negotiated()
        var serverInfo: (any Sendable)?
        var openCalls = 0
        var window = DatagramWindow(minimum: .max)
    }

    var farewell: ServerReason? {
        get { extras?.farewell }
        set { change { $0.farewell = newValue } }
    }

    /// Why the client is about to leave the link, with the numbers of the rule; `nil` if the server has asked for it.
    var departure: String? {
        get { extras?.departure }
        set { change { $0.departure = newValue } }
    }

    var negotiated: Negotiated {
        get { extras?.negotiated ?? Negotiated() }
        set { change { $0.negotiated = newValue } }
    }

    var serverInfo: (any Sendable)? {
        get { extras?.serverInfo }
        set { change { $0.serverInfo = newValue } }
    }

    /// The requests of the server that wait for a handler or have one that runs.
    var openCalls: Int {
        get { extras?.openCalls ?? 0 }
        set { change { $0.openCalls = newValue } }
    }

    var window: DatagramWindow {
        get { extras?.window ?? DatagramWindow(minimum: .max) }
        set { change { $0.window = newValue } }
    }

    private func change(_ change: (Extras) -> Void) {
        let extras = extras ?? Extras()
        self.extras = extras
        change(extras)
    }

    struct Negotiated {
        var liveness: ClientOptions.Liveness?
        var maximumInFlight: Int?
        var maximumFrameSize: Int?
    }

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
        content = State(attempt.endpoint, path.remote, machine, LinkCodec(codec.base))
        let hasWideSerials = !machine.serialExtension.isEmpty
        state.examinesResponses = codec.checksResponses || exchangesDatagrams || hasWideSerials
        if exchangesDatagrams {
            state.dropsMismatches = true
            state.codec.useDatagrams()
        }
    }

    func upgrade(to secured: SecuredTransport) { (transport, self.secured) = (secured, secured) }

    /// Whether TLS has accepted bytes that it has not passed to the socket yet.
    var isHoldingBytes: Bool { secured?.isHoldingBytes ?? false }

    var endpoint: Endpoint { state.endpoint }

    var handshake: HandshakeUse? { if case .handshaking(let handshake) = phase { handshake } else { nil } }

    var draining: Draining? { if case .draining(let draining) = phase { draining } else { nil } }

    var isInHandshake: Bool { if case .handshaking = phase { true } else { false } }
    var isReady: Bool { if case .ready = phase { true } else { false } }
    var isDraining: Bool { if case .draining = phase { true } else { false } }

    /// No request may be in flight.
    func becomeReady(_ policy: Liveness.Policy, at now: Instant) {
        precondition(isInHandshake, "only a link in its handshake becomes ready")
        phase = .ready
        readySince = now
        state.machine.becomeReady(policy, at: now)
    }

    /// Returns, in order, the requests of which nothing was written. The others finish on this link.
    func drain(_ draining: Draining) -> [QueuedRequest] {
        precondition(isReady, "only a ready link drains")
        phase = .draining(draining)
        return state.machine.drain()
    }

    /// The transport is to be closed separately.
    func close() -> LinkMachine.Remains {
        phase = .closed
        return state.machine.close()
    }

    final class Draining {
        private(set) var deadline: Instant
        let cause: DisconnectCause
        let departure: String?
        /// Whether the codec's `closingFrame` was queued, or it has none.
        var hasSentClosingFrame = false
        var awaitsAnswer = false
        var rest: Rest?
        /// The socket has taken none of `rest` within its time, so the link closes without it.
        var isStalled = false

        init(until deadline: Instant, _ cause: DisconnectCause, _ departure: String?) {
            (self.deadline, self.cause, self.departure) = (deadline, cause, departure)
        }

        func prolong(by duration: Duration) { deadline = deadline.advanced(by: duration) }

        var nextLook: Instant { min(deadline, rest?.until ?? deadline) }

        struct Rest {
            let left: Left
            let until: Instant
        }
    }

    struct State {
        let endpoint: Endpoint
        /// `nil` for a Unix domain socket.
        let remote: SocketAddress?
        var machine: LinkMachine
        var codec: LinkCodec
        var received = ReceiveBuffer()
        /// Whether `received` may hold complete frames, which come before everything that the socket has.
        var holdsFrames = false
        /// Requests whose last byte TLS has encrypted, each with the `sentMark` at which the socket has taken it.
        var heldWrites = Deque<(id: RequestID, mark: Int)>()
        /// Whether the outbound queue has reached the high watermark and is not below the low one again.
        var isAboveWatermark = false
        var examinesResponses = false
        /// A response that cannot be right ends no request: anybody may have sent the datagram.
        var dropsMismatches = false
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

        mutating func replaceCodec(by fresh: LinkCodec) {
            codec = fresh
            if codec.notesEnded { machine.reportEnds() }
        }

        @inline(__always)
        mutating func noteEnds() { if codec.notesEnded { codec.noteEnded(machine.takeEnded()) } }
    }

    final class FinalReads {
        let failure: TransportError
        let deadline: Instant
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

    /// Adds what the server has said, or the proxy through which the link goes, if the link was closed.
    func explained(_ cause: any Error, through proxy: Proxy?) -> any Error {
        let explained = explainedByServer(cause)
        guard let error = explained as? TransportError, let proxy else { return explained }
        return error.closing(tunnelThrough: proxy, isSecured: secured != nil)
    }

    private func explainedByServer(_ cause: any Error) -> any Error {
        guard let farewell, let error = cause as? TransportError else { return cause }
        return switch error.code {
        case .closedByPeer, .reset, .exited, .tls(.truncated): TransportError.endedByServer(farewell)
        default: cause
        }
    }

    var isToBeReadOn: Bool {
        if finalReads != nil, !isDraining { return true }
        return transport.isReading && (mayHaveMore || state.holdsFrames || finalReads != nil)
    }

    var hasNothingInFlight: Bool { state.machine.count == 0 && openCalls == 0 }

    var isWritten: Bool { hasNothingInFlight && state.machine.outbound.isEmpty && !isHoldingBytes }

    var isDrained: Bool {
        guard let draining else { return false }
        guard hasNothingInFlight else { return false }
        return state.machine.outbound.isEmpty && !draining.awaitsAnswer || draining.isStalled
    }
}

extension Link.State {
    func tryOnLink(at position: OutboundPosition, now: Instant, hasFailed: Bool) -> TryOnLink {
        tryOnLink(machine.writeTimes(of: position), now: now, hasFailed: hasFailed)
    }

    func tryOnLink(_ times: WriteLog.Times, now: Instant, hasFailed: Bool) -> TryOnLink {
        let link = described(at: now, inFlight: machine.count, hasFailed: hasFailed)
        return TryOnLink(link: link, times: times)
    }

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
    /// Far from the first serials: a late duplicate response of the handshake must not match a later request.
    fileprivate var firstHandshakeSerial: SerialNumber? {
        guard case .serial(let range) = self else { return nil }
        return range.upperBound - (range.upperBound - range.lowerBound) / 4
    }
}

extension Link {
    struct WriteResult {
        /// Requests and messages that the kernel has accepted whole, and whose callers wait for that.
        var wrote: [RequestID] = []
        /// Requests whose last byte was written, if an observer wants to know.
        var completed: [RequestID] = []
        var refused: [OutboundQueue.Refusal] = []
        var failure: TransportError?
        var (skipsEmpty, isSkipped) = (false, false)
        /// Whether the timer of liveness may have to fire earlier.
        var isLookSooner = false
        var (byteCount, frameCount) = (0, 0)
    }
}

extension Link.State {
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
            if case .failed(let error) = unsafe transport.write(BytePieces(start: nil, count: 0)) {
                result.failure = error
                transport.awaitsWritable = false
                return
            }
            releaseWrites(secured, &result.wrote)
        }
        // Bounded: a caller that writes without end must not keep the loop from reading.
        attempts: for _ in 0..<8 {
            let refused = machine.encode(using: &codec.base)
            if !refused.isEmpty { result.refused += refused }
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

    @inline(never)
    private func writeDatagrams(to transport: any Transport) -> (WriteOutcome, Int) {
        unsafe machine.outbound.withUnwrittenFrames { pieces in
            unsafe (transport.write(pieces), pieces.reduce(0) { $0 + $1.count })
        }
    }

    private mutating func holdUnsent(_ secured: SecuredTransport?, _ wrote: inout [RequestID], from start: Int) {
        guard let secured, secured.takenMark > secured.sentMark else { return }
        let mark = secured.takenMark
        for id in wrote[start...] { heldWrites.append((id, mark)) }
        wrote.removeSubrange(start...)
    }

    /// More bytes may have been encrypted since, so on a busy link some IDs always wait.
    private mutating func releaseWrites(_ secured: SecuredTransport?, _ wrote: inout [RequestID]) {
        guard let sent = secured?.sentMark else { return }
        while let first = heldWrites.first, first.mark <= sent {
            wrote.append(first.id)
            _ = heldWrites.popFirst()
        }
    }
}

extension Link {
    /// An object, so that the results of other links have no room for it.
    final class Dropped {
        private(set) var count = 0
        private(set) var reason = FrameError(.malformed, "")

        static func note(_ reason: FrameError, in dropped: inout Dropped?) {
            let all = dropped ?? Dropped()
            all.count += 1
            all.reason = reason
            dropped = all
        }
    }

    struct ReadResult {
        /// The bytes that were read, and those that show that the peer is alive.
        var (count, signs) = (0, 0)
        var ending: (any Error)?
        var dropped: Dropped?
        var mayHaveMore = false
        var isShareUsedUp = false
        var isLookSooner = false
    }
}

extension Link.State {
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

    private mutating func readAndDecode(
        from transport: any Transport,
        into frames: inout [Frame],
        limit: Int,
        maximumFrames: Int,
        on loop: any EventLoop
    ) -> (count: Int, mayHaveMore: Bool, ending: (any Error)?) {
        // If frames were left over, nothing is read, so what the socket has is not known.
        var (count, mayHaveMore) = (0, true)
        if !holdsFrames {
            let outcome: ReadOutcome
            (count, mayHaveMore, outcome) = transport.read(into: &received)
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
        return (count, holdsFrames || mayHaveMore, nil)
    }

    /// Notes decoding that takes long: it explains why the event loop is late.
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

    @inline(never)
    private mutating func readDatagram(
        from transport: any Transport,
        into frames: inout [Frame],
        _ result: inout Link.ReadResult
    ) -> (count: Int, mayHaveMore: Bool, ending: (any Error)?) {
        let (count, _, outcome) = transport.read(into: &received)
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

    @inline(__always)
    mutating func noteReceived(_ count: Int, hasFrames: Bool, at now: Instant) -> Bool {
        // Complete frames may be left for the next turn.
        let leavesIncomplete = !received.isEmpty && !holdsFrames
        return machine.received(count, hasFrames: hasFrames, leavesIncomplete: leavesIncomplete, at: now)
    }

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
    static func hasPush(_ frames: [Frame]) -> Bool {
        let span = frames.span  // `contains(where:)` copies every frame
        for index in span.indices where span[index].kind == .push || span[index].kind == .request { return true }
        return false
    }
}
