import TrunklineCore
import TrunklineDiagnostics

/// What the servers, the network and the callers of a recording did, and when.
///
/// The time of the oldest entry is zero.
struct ReplayScript {
    /// How an attempt ended.
    enum Attempt: Sendable {
        /// The link was established. What came of it is up to the handshake.
        case established(after: Duration, Handshake)
        case failed(DisconnectCause, DisconnectReport.Phase, isPermanent: Bool, after: Duration)
    }

    /// What the handshake of a link does.
    enum Handshake: Sendable {
        /// It runs: the recording has everything that the server said.
        case runs
        /// It is left out. It began at the first time, and the link was ready at the second.
        case isBridged(from: Duration, until: Duration)
        /// It is left out. It began at the first time, and failed at the second.
        case fails(DisconnectCause, isPermanent: Bool, retryAfter: Duration?, from: Duration, at: Duration)
    }

    /// Something that is done at a certain time.
    enum Action: Sendable {
        /// `connect()`: the client connected before its first call.
        case connect
        case call(Call)
        case cancel(RequestID)
        case send(Recording.Header, to: Endpoint)
        /// Ends the links to the endpoint.
        case end(Endpoint, DisconnectCause)
        /// From now on nothing comes from the endpoint on its present links.
        case silence(Endpoint)
        /// The client gives up its half-open link to the endpoint.
        case giveUp(Endpoint)
        case renewLink
        case replaceEndpoints([Endpoint])
        case suspend
        case resume
        case close
    }

    /// A call, with the frame of its request, if that was recorded. Frames are made when they are sent: they are much
    /// larger than the recording.
    struct Call: Sendable {
        let id: RequestID?
        let type: UInt32
        var bodyCount = 0
        var header: Recording.Header?
        var timeout: Duration?
        var isOneWay = false
        /// How often the request was sent, and the first delay between two tries; `nil` if it was not sent again.
        var retries: (tries: Int, delay: Duration)?
        /// How long ago its caller had stopped waiting, if its serial was still held at the beginning.
        var abandonedFor: Duration?
        /// Whether it was cancelled, and whether that happens when it is made.
        var isCancelled = false
        var isCancelledAtOnce = false
    }

    /// What there was at the time of the oldest entry, if the recording does not begin with its client.
    struct Beginning: Sendable {
        /// The link that took requests.
        let endpoint: Endpoint?
        /// How long it had been ready.
        let age: Duration
        /// The calls that had not ended.
        let calls: [Call]
    }

    /// A wait before an attempt.
    struct Wait: Sendable {
        let time: Duration
        let delay: Duration
        let cause: DisconnectCause?
    }

    /// `nil` if the recording begins with its client.
    private(set) var beginning: Beginning?
    /// What is done, in the order of time.
    private(set) var actions: [(time: Duration, action: Action)] = []
    /// The attempts at each endpoint, in order.
    private(set) var attempts: [Endpoint: [Attempt]] = [:]
    /// The requests that each endpoint received, in order, with the replies.
    private(set) var exchanges: [Endpoint: [Recording.Exchange]] = [:]
    /// The endpoints in the order of the client's list. Others, and all if the list is not known, in the order in which
    /// they appear.
    private(set) var endpoints: [Endpoint] = []
    private var knownEndpoints: Set<Endpoint> = []
    /// The waits before attempts.
    private(set) var waits: [Wait] = []
    /// When attempts began after a wait. That of a planned change is told only by the timer.
    private(set) var laterAttempts: [Duration] = []
    /// The time from the first entry to the last one.
    let length: Duration

    /// The calls in the order in which they are made.
    var calls: [RequestID] {
        actions.compactMap { if case .call(let call) = $0.action { call.id } else { nil } }
    }

    /// Whether the client has begun to replace its link.
    var hasPlannedChange: Bool { actions.contains { if case .renewLink = $0.action { true } else { false } } }

    var hasHalfOpenLinks: Bool { actions.contains { if case .giveUp = $0.action { true } else { false } } }

    private let isComplete: Bool
    private var endpointOfSession: [SessionID: Endpoint] = [:]

    /// - Parameters:
    ///   - isOrdered: Whether the client tries its endpoints in the order of its list.
    ///   - room: The number of bytes that the replayed frames may have in their bodies and fields.
    init(_ original: Recording, isOrdered: Bool, room: Int) throws(RecordingError) {
        let prompt = original.withPromptEnds
        let facts = RecordedCalls(prompt)
        try Self.check(original, facts, room: room)
        let order = ReplayOrder(prompt, facts)
        let recording = order.recording
        isComplete = recording.isComplete
        length = recording.entries.last?.time ?? .zero
        let listed = recording.beginning.endpoints.compactMap { Endpoint(recorded: $0)?.inReplay }
        if isOrdered { for endpoint in listed { note(endpoint) } }
        readLinks(recording)
        for endpoint in listed { note(endpoint) }
        if endpoints.isEmpty { note("server-7000:7000") }
        readExchanges(recording)
        begin(recording, facts)
        let handshakes = RecordedHandshakes(recording)
        for entry in recording.entries {
            switch entry.content {
            case .call(let call) where !call.isOpen:
                var made = facts.call(call)
                made.isCancelledAtOnce = order.cancelledAtOnce.contains(call.id)
                add(.call(made), at: entry.time)
            case .event(let event): read(event, handshakes, at: entry.time)
            default: break
            }
        }
        // In the order of time, and of the recording.
        actions = actions.enumerated().sorted { ($0.1.time, $0.0) < ($1.1.time, $1.0) }.map(\.1)
    }

    private mutating func add(_ action: Action, at time: Duration) { actions.append((max(.zero, time), action)) }

    private mutating func note(_ endpoint: Endpoint) {
        if knownEndpoints.insert(endpoint).inserted { endpoints.append(endpoint) }
    }

    /// Throws if the bodies and fields of all frames would be larger than `room`. A recording has only their sizes, so
    /// a short one may declare more than there is memory.
    private static func check(_ recording: Recording, _ facts: RecordedCalls, room: Int) throws(RecordingError) {
        var total = 0
        for (index, entry) in recording.entries.enumerated() {
            switch entry.content {
            case .call(let call): if facts.headers[call.id] == nil { total = total.saturatingAdding(call.bodyCount) }
            case .sent(let header), .received(let header): total = total.saturatingAdding(header.declaredCount)
            default: break
            }
            guard total <= room else {
                // The first line of the text describes the recording.
                throw RecordingError(line: index + 2, "bodies and fields up to here have more than \(room) bytes")
            }
        }
    }

    // MARK: The beginning

    /// Whether the attempt whose end comes next began before the oldest entry.
    private var isAttemptCut = false
    private var isSuspended = false

    private mutating func begin(_ recording: Recording, _ facts: RecordedCalls) {
        guard !isComplete else {
            if let begin = recording.firstAttemptBegin { add(.connect, at: begin) }
            return
        }
        let link = recording.beginning.links.last
        let endpoint = link.flatMap { Endpoint(recorded: $0.endpoint)?.inReplay }
        beginning = Beginning(
            endpoint: endpoint,
            age: link?.age ?? .zero,
            calls: recording.beginning.requests.map { facts.call($0) }
        )
        if let endpoint {
            attempts[endpoint] = [.established(after: .zero, .isBridged(from: .zero, until: .zero))]
            return
        }
        // The client must not connect earlier than it did.
        isSuspended = true
        let names = ["connection.securing", "connection.handshaking", "connection.ready", "attempt.failed"]
        let first = recording.events.first { event in
            event.isBegin || names.contains(event.name)
        }
        guard let first, !first.isBegin else { return }
        (attemptBegin, isAttemptCut) = (.zero, true)
        resume(at: .zero)
    }

    private mutating func resume(at time: Duration) {
        guard isSuspended else { return }
        isSuspended = false
        add(.resume, at: time)
        add(.connect, at: time)
    }

    // MARK: Links

    private mutating func readLinks(_ recording: Recording) {
        let links = recording.beginning.links
        for link in links {
            guard let endpoint = Endpoint(recorded: link.endpoint)?.inReplay else { continue }
            note(endpoint)
            endpointOfSession[link.session] = endpoint
        }
        for event in recording.events {
            guard let endpoint = event.endpoint else { continue }
            note(endpoint)
            if let session = event.session { endpointOfSession[session] = endpoint }
        }
    }

    private mutating func readExchanges(_ recording: Recording) {
        let (matched, unasked) = recording.exchanges
        let silences = readHalfOpenLinks(recording)
        for exchange in matched {
            // The server did not receive it.
            if let silence = silences[exchange.request.session], exchange.time > silence { continue }
            exchanges[endpointOfSession[exchange.request.session] ?? endpoints[0], default: []].append(exchange)
        }
        // A response or part without a request belongs to one that is left out, or whose beginning was overwritten.
        for (time, header) in unasked where header.kind != .response && header.kind != .part {
            add(.send(header, to: endpointOfSession[header.session] ?? endpoints[0]), at: time)
        }
    }

    /// A half-open link was so from its last received frame on: the client noticed later. Returns since when.
    private mutating func readHalfOpenLinks(_ recording: Recording) -> [SessionID: Duration] {
        var lastSign: [SessionID: Duration] = [:]
        var silences: [SessionID: Duration] = [:]
        for entry in recording.entries {
            switch entry.content {
            case .received(let header): lastSign[header.session] = entry.time
            case .event(let event):
                guard let session = event.session else { continue }
                if event.name == "connection.ready" { lastSign[session] = entry.time }
                guard event.isEnd, event.cause == .halfOpen else { continue }
                let endpoint = endpointOfSession[session] ?? endpoints[0]
                // After the frames of the same instant, and before what came next.
                let silence = (lastSign[session] ?? .zero) + .nanoseconds(1)
                silences[session] = silence
                add(.silence(endpoint), at: silence)
                add(.giveUp(endpoint), at: entry.time)
            case .call, .sent: break
            @unknown default: break
            }
        }
        return silences
    }

    // MARK: Events

    private var hasClosed = false
    /// When the present attempt, and its handshake, began.
    private var attemptBegin: Duration?
    private var handshakeBegin: Duration?
    /// Whether it was recorded why the client has begun to replace its link.
    private var hasChangeBegun = false

    private mutating func read(_ event: Recording.Event, _ handshakes: RecordedHandshakes, at time: Duration) {
        switch event.name {
        case "connection.resolving", "connection.connecting":
            resume(at: time)
            attemptBegin = attemptBegin ?? time
        case "connection.handshaking": handshakeBegin = time
        case "connection.ready": linkReady(event, handshakes, at: time)
        case "connection.waiting":
            if let delay = event.seconds("delay") { waits.append(Wait(time: time, delay: delay, cause: event.cause)) }
        case "attempt.failed": attemptFailed(event, handshakes, at: time)
        case "link.ended": linkEnded(event, at: time)
        case "request.cancelled": if let id = event.request { add(.cancel(id), at: time) }
        case "tls.files_changed":
            hasChangeBegun = true
            add(.renewLink, at: time)
        case "timer.fired": if event.text("timer") == "back-off" { laterAttempts.append(time) }
        case "endpoints.changed":
            let list = event.text("endpoints").map { Endpoint.list(recorded: $0) }
            let endpoints = (list ?? []).map(\.inReplay)
            for endpoint in endpoints { note(endpoint) }
            add(.replaceEndpoints(endpoints), at: time)
        case "connection.suspended":
            isSuspended = true
            add(.suspend, at: time)
        case "connection.idle" where isSuspended && isComplete:
            isSuspended = false
            add(.resume, at: time)
        case "connection.draining", "connection.closed":
            if !hasClosed { add(.close, at: time) }
            hasClosed = true
        default: break
        }
    }

    private mutating func linkEnded(_ event: Recording.Event, at time: Duration) {
        guard let endpoint = event.endpoint, let cause = event.cause, cause != .halfOpen else { return }
        // Most links that the client has ended by itself end so in the replay, too. A replay has no TLS that could fail.
        guard event.party != .client || cause == .protocolViolation || cause == .tls else { return }
        add(.end(endpoint, cause), at: time)
    }

    /// Ends the present attempt. Returns when it and its handshake began.
    private mutating func endAttempt(at time: Duration) -> (begin: Duration?, handshakeBegin: Duration?, isCut: Bool) {
        // The state of a client with a link tells nothing of a planned change. It may have begun before the oldest entry.
        if attemptBegin == nil, !isComplete, !hasChangeBegun {
            hasChangeBegun = true
            add(.renewLink, at: laterAttempts.last ?? .zero)
        }
        let isCut = isAttemptCut || attemptBegin == nil && !isComplete
        isAttemptCut = false
        return (exchange(&attemptBegin, with: nil), exchange(&handshakeBegin, with: nil), isCut)
    }

    private mutating func linkReady(_ event: Recording.Event, _ handshakes: RecordedHandshakes, at time: Duration) {
        let (begin, handshakeBegin, isCut) = endAttempt(at: time)
        guard let endpoint = event.endpoint else { return }
        let isWhole = !isCut && event.session.map { handshakes.isWhole($0) } ?? true
        let established = handshakeBegin ?? (isCut ? begin : time) ?? time
        attempts[endpoint, default: []].append(
            .established(
                after: established - (begin ?? time),
                isWhole ? .runs : .isBridged(from: established, until: time)
            )
        )
    }

    private mutating func attemptFailed(_ event: Recording.Event, _ handshakes: RecordedHandshakes, at time: Duration) {
        let (begin, handshakeBegin, isCut) = endAttempt(at: time)
        guard let endpoint = event.endpoint, let cause = event.cause, let phase = event.phase else { return }
        let isPermanent = event["permanent"] == .flag(true)
        guard phase == .handshaking else {
            let duration = time - (begin ?? time)
            attempts[endpoint, default: []].append(.failed(cause, phase, isPermanent: isPermanent, after: duration))
            return
        }
        // Only a closure that has read everything can refuse it.
        let runs = cause == .handshakeRefused && !isCut && event.session.map { handshakes.isWhole($0) } ?? false
        let retryAfter = event.seconds("retry_after")
        let from = handshakeBegin ?? begin ?? time
        attempts[endpoint, default: []].append(
            .established(
                after: from - (begin ?? time),
                runs
                    ? .runs
                    : .fails(cause, isPermanent: isPermanent, retryAfter: retryAfter, from: from, at: time)
            )
        )
    }
}

extension Recording {
    fileprivate var events: [Event] {
        entries.compactMap { if case .event(let event) = $0.content { event } else { nil } }
    }

    /// When the first attempt began, if that was before the first call.
    fileprivate var firstAttemptBegin: Duration? {
        for entry in entries {
            switch entry.content {
            case .call: return nil
            case .event(let event) where event.isBegin: return entry.time
            default: break
            }
        }
        return nil
    }
}

extension Recording.Event {
    /// The endpoint, as the replay names it.
    var endpoint: Endpoint? { text("endpoint").flatMap { Endpoint(recorded: $0) }?.inReplay }
    var cause: DisconnectCause? { text("cause").flatMap { DisconnectCause(rawValue: $0) } }
    var phase: DisconnectReport.Phase? { text("phase").flatMap { DisconnectReport.Phase(rawValue: $0) } }
    var party: DisconnectReport.Party? { text("ended_by").flatMap { DisconnectReport.Party(rawValue: $0) } }
    var isEnd: Bool { name == "link.ended" || name == "attempt.failed" }
    /// Whether it tells that an attempt begins.
    fileprivate var isBegin: Bool { ["connection.resolving", "connection.connecting"].contains(name) }
}

extension Endpoint {
    /// Reads the text of a recording. A command, or descriptors, cannot be made again from their text: a path stands for
    /// them.
    init?(recorded text: String) {
        if let endpoint = try? Endpoint(parsing: text) {
            self = endpoint
        } else if text.hasSuffix(")"), text.hasPrefix("command(") || text.hasPrefix("descriptors(") {
            self = .unix(path: text)
        } else {
            return nil
        }
    }

    /// Reads a list with spaces between the endpoints. The text of a command has spaces, too.
    static func list(recorded text: String) -> [Endpoint] {
        var (words, isOpen): ([String], Bool) = ([], false)
        for word in text.split(separator: " ") {
            if isOpen { words[words.count - 1] += " \(word)" } else { words.append(String(word)) }
            isOpen =
                words.last.map { $0.hasPrefix("command(") || $0.hasPrefix("descriptors(") } == true
                && !word.hasSuffix(")")
        }
        return words.compactMap { Endpoint(recorded: $0) }
    }

    /// The endpoint in plaintext, because a replay has no TLS. Its host has the port in its name: faults belong to a host,
    /// and another endpoint may have the same one.
    fileprivate var inReplay: Endpoint {
        switch target {
        case .host(let name, let port): .host("\(name)-\(port)", port: port)
        case .unix, .vsock, .command, .descriptors: Endpoint(target: target)
        }
    }
}
