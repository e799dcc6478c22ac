public import TrunklineCluster
public import TrunklineCore

/// Keeps the latest calls, frame headers and events of one client in fixed memory.
///
/// Unchecked `Sendable`: all but `options`, `start` and `dumps` is accessed only on the event loop of the client.
/// `client` is also set once before that, when the client is created.
final class FlightRecorder: ClientRecorder, @unchecked Sendable {
    let options: RecorderOptions
    let start: Instant
    weak var client: (any RecordedClient)?
    private let loop: any EventLoop
    /// Safe: only copies are appended; nothing else is called meanwhile. The check took 390 of 8,810 instructions.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe private var ring: RecordRing
    private var links: [SessionID: Snapshot.Link] = [:]
    /// Requests whose callers stopped waiting; the link may still hold their serials. `abandon` removes old ones.
    private var abandoned: [RequestID: Snapshot.Abandoned] = [:]
    /// Oldest first. Some are no longer in `abandoned`.
    private var abandonedInOrder = Deque<RequestID>()
    private let quarantine: Duration
    private let codec: ProtocolCodec
    private let channels: (any ChannelCodec)?

    private static let maximumAbandoned = 4096
    private var endpoints: [(since: Instant, list: [Endpoint])]
    private var nextDump = Instant.distantPast
    /// Made in the next turn, when the requests that the end has failed are recorded, too.
    private var dueDump: DisconnectReport?
    /// `nil` without a receiver. While one dump waits, others are left out.
    let dumps: EventQueue<Dump>?
    var deliveries: (any DeliveryQueue)? { dumps == nil ? nil : self }

    init(
        _ options: RecorderOptions,
        of endpoints: [Endpoint],
        quarantine: Duration,
        codec: ProtocolCodec,
        on loop: any EventLoop
    ) {
        self.options = options
        (self.quarantine, self.codec) = (quarantine, codec)
        channels = codec.matching == .inOrderByChannel ? codec.base as? any ChannelCodec : nil
        self.loop = loop
        start = loop.now
        self.endpoints = [(.distantPast, endpoints)]
        ring = RecordRing(byteCount: options.byteCount)
        dumps = options.automaticDump.map { automatic in
            EventQueue(capacity: 1, on: loop) { dumps, _ in
                for dump in dumps { automatic.body(Recording(dump.snapshot), dump.report) }
            }
        }
    }

    // MARK: Hot

    @inline(__always)
    func call(
        _ id: RequestID,
        _ type: UInt32,
        _ bodyCount: Int,
        _ expectsResponse: Bool,
        isOpen: Bool,
        _ deadline: Instant?,
        at now: Instant
    ) {
        let flags: UInt64 = (expectsResponse ? 0 : 1) | (isOpen ? 2 : 0)
        let timeout = deadline.map { UInt64(clamping: $0.nanoseconds &- now.nanoseconds) } ?? .max
        unsafe ring.append(RecordWords.callSize) { words in
            unsafe words[0] = RecordWords.head(.call, RecordWords.callSize, flags, type)
            unsafe words[1] = UInt64(bitPattern: now.nanoseconds)
            unsafe words[2] = id.number
            unsafe words[3] = timeout
            unsafe words[4] = UInt64(bodyCount)
        }
    }

    @inline(never)
    func calls(
        _ requests: borrowing [Request],
        _ count: Int,
        first: RequestID,
        _ expectsResponse: Bool,
        _ deadline: Instant?,
        at now: Instant
    ) {
        let span = requests.span
        for index in 0..<count {
            let (type, bodyCount) = (span[index].frame.type, span[index].frame.body.count)
            call(first.advanced(by: index), type, bodyCount, expectsResponse, isOpen: false, deadline, at: now)
        }
    }

    @inline(__always)
    func frame(
        _ head: FrameHead,
        _ tag: RecordWords.Tag,
        id: RequestID?,
        isOneWay: Bool = false,
        session: SessionID,
        at now: Instant
    ) {
        let flags = RecordWords.flags(of: head) | (isOneWay ? 128 : 0)
        unsafe ring.append(RecordWords.frameSize) { words in
            unsafe words[0] = RecordWords.head(tag, RecordWords.frameSize, flags, head.type)
            unsafe words[1] = UInt64(bitPattern: now.nanoseconds)
            unsafe words[2] = head.serial
            unsafe words[3] = UInt64(head.status) | UInt64(UInt32(clamping: head.bodyCount)) << 32
            unsafe words[4] = session.number & RecordWords.sessionMask | (id?.number ?? 0) << 24
        }
    }

    /// Records the frames that begin in the next `length` bytes. The IDs of handshake requests are not those of calls.
    func sent(in queue: borrowing OutboundQueue, within length: Int, session: SessionID, isHandshake: Bool) {
        let now = loop.now
        queue.forEachHeadStarting(within: length) { head, id, isReported, position in
            // In a handshake, only messages without a response report that they are written.
            // Parts of requests, and answers to requests of the server, have IDs of their own.
            let id = isHandshake || head.kind == .part || head.kind == .response ? nil : id
            frame(head, .sent, id: id, isOneWay: isHandshake && isReported, session: session, at: now)
            // It has no call record to carry its name.
            let isNamed = isHandshake && head.kind == .request && codec.namesEachRequest
            if isNamed || keepsContent(of: head), let frame = queue.frame(at: position) {
                content(of: frame, name: isNamed ? codec.name(of: frame) : nil)
            }
        }
    }

    func received(_ frames: borrowing [Frame], session: SessionID, at now: Instant) {
        let span = frames.span
        for index in span.indices {
            let head = FrameHead(of: span[index])
            frame(head, .received, id: nil, session: session, at: now)
            if keepsContent(of: head) { content(of: span[index]) }
        }
    }

    // MARK: Cold

    @inline(__always)
    func keepsContent(of head: FrameHead) -> Bool {
        head.hasExtras || channels != nil
            || head.bodyCount > 0 && options.bodies != .none && options.keepsBody(of: head.type)
    }

    func name(_ name: String, of id: RequestID) {
        add(.name, name, orIfTooLong: "", at: Instant(nanoseconds: Int64(bitPattern: id.number)))
    }

    /// Adds what the last recorded frame is matched by (besides its serial), its named fields, and its body if allowed.
    @inline(never)
    func content(of frame: Frame, name: String? = nil) {
        var matching = Recording.Marks(of: frame, channel: channels?.channel(of: frame) ?? 0).members
        if let name { matching += "\(matching.isEmpty ? "" : ",")\"name\":\(JSONText.quoted(name))" }
        let keepsBody = !frame.body.isEmpty && options.keepsBody(of: frame.type)
        if matching.isEmpty, !frame.hasFields, !keepsBody { return }
        var text = matching.isEmpty ? "\"fields\":{" : "\(matching),\"fields\":{"
        var separator = ""
        for field in frame.fields {
            text += separator
            text += JSONText.quoted(field.name)
            separator = ","
            switch field.value {
            case .number(let number): text += ":\(number)"
            case .bytes(let bytes) where options.fields.contains(field.name): text += ":\"\(hex(bytes))\""
            case .bytes(let bytes): text += ":{\"bytes\":\(bytes.count)}"
            case .marks: break  // not among the fields
            }
        }
        text += "}"
        if keepsBody {
            text += ",\"body\":\""
            text += hex(frame.body)
            text += "\""
        }
        add(
            .content,
            text,
            orIfTooLong: matching.isEmpty ? "\"cut\":true" : "\(matching),\"cut\":true",
            at: .distantPast
        )
    }

    private func hex(_ bytes: Bytes) -> String {
        let count = min(bytes.count, max(0, options.maximumContentBytes), maximumTextSize / 8)
        return HexText.text(of: bytes.shared(0..<count))
    }

    func note(_ event: ClientEvent) {
        switch event.content {
        case .requestsAccepted, .requestWaiting, .requestAdmitted, .requestsWritten, .requestFirstPart,
            .requestsAnswered, .requestRejected, .responseInvalid, .messageWritten, .unknownResponse:
            break
        default:
            let name = (name: "event", value: ClientEvent.Value.text(event.name))
            add(
                .event,
                JSONText.members([name] + event.fields + facts(of: event)),
                orIfTooLong: JSONText.members([name, ("cut", .flag(true))]),
                at: event.instant
            )
        }
        follow(event)
    }

    private func abandon(_ id: RequestID, _ error: ClientError, at now: Instant) {
        guard error.fate == .unknown, error.code == .timedOut || error.code == .cancelled,
            let session = error.timeline?.tries.last?.link?.session.recorded ?? links.keys.max()
        else { return }
        while let oldest = abandonedInOrder.first {
            let held = abandoned[oldest]
            let isOver = held.map { $0.since.advanced(by: quarantine) <= now } ?? true
            guard isOver || abandonedInOrder.count >= Self.maximumAbandoned else { break }
            _ = abandonedInOrder.popFirst()
            abandoned[oldest] = nil
        }
        abandoned[id] = Snapshot.Abandoned(session: session, since: now)
        abandonedInOrder.append(id)
    }

    private func facts(of event: ClientEvent) -> [(name: String, value: ClientEvent.Value)] {
        guard case .linkEnded(let report) = event.content else { return [] }
        let retryAfter = (report.error as? HandshakeRefusal)?.retryAfter
        return (report.isPermanent ? [("permanent", .flag(true))] : [])
            + (retryAfter.map { [("retry_after", .seconds(Double($0.clampedNanoseconds) / 1e9))] } ?? [])
    }

    private func follow(_ event: ClientEvent) {
        switch event.content {
        case .linkReady(let link):
            links[link.session.recorded] = Snapshot.Link(endpoint: link.endpoint, readySince: event.instant)
        case .linkEnded(let report):
            let session = report.session.recorded
            links[session] = nil
            if !abandoned.isEmpty { abandoned = abandoned.filter { $0.value.session != session } }
            dump(after: report)
        case .requestFailed(let id, let error, _): abandon(id, error, at: event.instant)
        case .lateResponse(let id): abandoned[id] = nil
        case .endpointsChanged(let list):
            if endpoints.count == 16 { endpoints.removeFirst() }
            endpoints.append((event.instant, list))
        case .clientClosed: links = [:]
        default: break
        }
    }

    func timerFired(_ name: String) {
        let text = JSONText.members([("event", .text("timer.fired")), ("timer", .text(name))])
        add(.event, text, orIfTooLong: "", at: loop.now)
    }

    /// In bytes.
    private var maximumTextSize: Int { (min(ring.maximumRecordSize, RecordWords.maximumSize) - 2) * 8 }

    /// - Parameter now: For a name, the number of its request.
    private func add(_ tag: RecordWords.Tag, _ text: String, orIfTooLong substitute: String, at now: Instant) {
        var text = text.utf8.count <= maximumTextSize ? text : substitute
        if text.utf8.count > maximumTextSize { text = "\"cut\":true" }
        text.withUTF8 { bytes in
            let size = 2 + (bytes.count + 7) / 8
            unsafe ring.append(size) { words in
                unsafe words[0] = RecordWords.head(tag, size, 0, UInt32(bytes.count))
                unsafe words[1] = UInt64(bitPattern: now.nanoseconds)
                unsafe words[size - 1] = 0
                if let first = bytes.baseAddress {
                    unsafe UnsafeMutableRawPointer(words + 2).copyMemory(from: first, byteCount: bytes.count)
                }
            }
        }
    }

    private func dump(after report: DisconnectReport) {
        guard let dump = options.automaticDump, dump.causes.contains(report.cause), loop.now >= nextDump else { return }
        guard let dumps, dumps.isEmpty, dueDump == nil else { return }
        nextDump = loop.now.advanced(by: dump.interval)
        dueDump = report
        // The owner of the link hears of its end in this turn, after this event.
        loop.scheduleInNextTurn(LoopClosure { self.makeDueDump() })
    }

    private func makeDueDump() {
        guard let report = dueDump.take() else { return }
        dumps?.add([Dump(snapshot: snapshot, report: report)])
    }

    struct Dump: Sizable {
        let snapshot: Snapshot
        let report: DisconnectReport
        var size: Int { 1 }
    }

    struct Snapshot: Sendable {
        struct Link: Sendable {
            let endpoint: Endpoint
            let readySince: Instant
        }

        struct Abandoned: Sendable {
            let session: SessionID
            let since: Instant
        }

        let words: [UInt64]
        let start: Instant
        /// The time since 1970 at `start`, by the present time of the clock; `nil` if unknown.
        let unixStart: Duration?
        let hasOverwritten: Bool
        fileprivate let allEndpoints: [(since: Instant, list: [Endpoint])]
        let links: [SessionID: Link]
        let codec: ProtocolCodec
        let pendingRequests: [RecordedRequest]
        let abandoned: [RequestID: Abandoned]

        func endpoints(at instant: Instant) -> [Endpoint] {
            (allEndpoints.last { $0.since < instant } ?? allEndpoints.first)?.list ?? []
        }
    }

    var snapshot: Snapshot {
        let hasOverwritten = ring.overwrittenCount > 0
        return Snapshot(
            words: ring.words,
            start: start,
            unixStart: loop.unixTime.map { $0 - loop.now.since(start) },
            hasOverwritten: hasOverwritten,
            allEndpoints: endpoints,
            links: links,
            codec: codec,
            pendingRequests: hasOverwritten ? pendingRequests : [],
            abandoned: hasOverwritten ? abandoned : [:]
        )
    }

    private var pendingRequests: [RecordedRequest] {
        (client?.pendingRequests ?? []).map { request in
            RecordedRequest(
                id: request.id,
                type: request.type,
                name: request.name,
                session: request.session?.recorded,
                number: request.number
            )
        }
    }
}

extension FlightRecorder: DeliveryQueue {
    var metrics: ClientMetrics.EventQueueMetrics { dumps?.metrics ?? ClientMetrics.EventQueueMetrics() }

    /// Makes a due dump first: the client is closed.
    func afterDelivery(_ completion: @escaping @Sendable () -> Void) {
        makeDueDump()
        guard let dumps else { return completion() }
        dumps.afterDelivery(completion)
    }
}

extension SessionID {
    fileprivate var recorded: SessionID { SessionID(number & RecordWords.sessionMask) }
}

/// The format of the records in a `RecordRing`.
///
/// The first word of each record has the tag (8 bits), the number of words (16), flags (8), and the type number or, for
/// text, the number of bytes (32). The second word is the time; of a name, the number of its request.
enum RecordWords {
    enum Tag: UInt8 {
        case call = 1
        case sent, received, event, content, name
    }

    static let sessionMask: UInt64 = 0xFF_FFFF
    static let callSize = 5
    static let frameSize = 5
    static let maximumSize = 0xFFFF

    @inline(__always)
    static func head(_ tag: Tag, _ size: Int, _ flags: UInt64, _ type: UInt32) -> UInt64 {
        UInt64(tag.rawValue) | UInt64(size) << 8 | flags << 24 | UInt64(type) << 32
    }

    @inline(__always)
    static func flags(of head: FrameHead) -> UInt64 {
        UInt64(head.kind.rawValue) | (head.isErrorResponse ? 16 : 0) | (head.isMalformed ? 32 : 0)
            | (head.endsLink ? 64 : 0)
    }
}

extension ClientOptions {
    /// The flight recorder, which keeps the latest calls, frame headers and events in fixed memory. Default `nil`: off.
    public var recorder: RecorderOptions? {
        get { recorderSettings as? RecorderOptions }
        set { recorderSettings = newValue }
    }
}

extension RecorderOptions: RecorderSettings {
    package func makeRecorder(
        of endpoints: [Endpoint],
        quarantine: Duration,
        codec: ProtocolCodec,
        on loop: any EventLoop
    ) -> any ClientRecorder {
        FlightRecorder(self, of: endpoints, quarantine: quarantine, codec: codec, on: loop)
    }
}

extension ClientDiagnostics {
    /// What the flight recorder holds at present, oldest first; `nil` without `options.recorder`.
    ///
    /// The event loop copies the memory of the recorder, which takes about 0.1 ms for each megabyte, and, if older
    /// entries were overwritten, lists the requests that have not ended. The caller's task does the rest.
    public var recording: Recording? {
        get async {
            let snapshot = await withRecorder { ($0 as? FlightRecorder)?.snapshot }
            return (snapshot ?? nil).map { Recording($0) }
        }
    }
}

extension ClusterDiagnostics {
    /// What the flight recorders hold at present, one of each link that is not closed, oldest first; empty without
    /// `options.recorder`.
    ///
    /// Each link has a recorder of its own, with the memory that its options name. See ``ClientDiagnostics/recording``.
    public var recordings: [Recording] {
        get async {
            var recordings: [Recording] = []
            for (_, client) in await clients {
                if let recording = await client.diagnostics.recording { recordings.append(recording) }
            }
            return recordings
        }
    }
}
