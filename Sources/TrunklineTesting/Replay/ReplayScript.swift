import TrunklineCore
import TrunklineDiagnostics

/// What the servers, the network and the callers of a recording did, and when. The oldest entry has time zero.
struct ReplayScript {
    enum Attempt: Sendable {
        /// What comes of the link is up to the handshake.
        case established(after: Duration, Handshake)
        case failed(DisconnectCause, DisconnectReport.Phase, isPermanent: Bool, after: Duration)
    }

    enum Handshake: Sendable {
        /// The recording has everything that the server said.
        case runs
        /// Left out. `until` is when the link was ready.
        case isBridged(from: Duration, until: Duration)
        case fails(DisconnectCause, isPermanent: Bool, retryAfter: Duration?, from: Duration, at: Duration)
    }

    enum Action: Sendable {
        case connect
        case call(Call)
        case cancel(RequestID)
        case send(Recording.Header, to: Endpoint)
        case end(Endpoint, DisconnectCause)
        /// From now on nothing comes from the endpoint on its present links.
        case silence(Endpoint)
        case giveUp(Endpoint)
        case renewLink
        case replaceEndpoints([Endpoint])
        case suspend
        case resume
        case close
    }

    /// Frames are made when they are sent: they are much larger than the recording.
    struct Call: Sendable {
        let id: RequestID?
        let type: UInt32
        var bodyCount = 0
        var header: Recording.Header?
        var timeout: Duration?
        var isOneWay = false
        /// `delay` is that before the second try; `nil` if the request was not sent again.
        var retries: (tries: Int, delay: Duration)?
        /// How long ago its caller had stopped waiting, if its serial was still held at the beginning.
        var abandonedFor: Duration?
        var isCancelled = false
        var isCancelledAtOnce = false
    }

    /// The state at the oldest entry, if the recording does not begin with its client.
    struct Beginning: Sendable {
        let endpoint: Endpoint?
        let age: Duration
        let calls: [Call]
    }

    struct Wait: Sendable {
        let time: Duration
        let delay: Duration
        let cause: DisconnectCause?
    }

    private(set) var beginning: Beginning?
    private(set) var actions: [(time: Duration, action: Action)] = []
    private(set) var attempts: [Endpoint: [Attempt]] = [:]
    private(set) var exchanges: [Endpoint: [Recording.Exchange]] = [:]
    /// In the order of the client's list, then in the order in which they appear.
    private(set) var endpoints: [Endpoint] = []
    private var knownEndpoints: Set<Endpoint> = []
    private(set) var waits: [Wait] = []
    /// When attempts began after a wait. That of a planned change is told only by the timer.
    private(set) var laterAttempts: [Duration] = []
    let length: Duration

    var calls: [RequestID] {
        actions.compactMap { if case .call(let call) = $0.action { call.id } else { nil } }
    }

    var hasPlannedChange: Bool { actions.contains { if case .renewLink = $0.action { true } else { false } } }

    var hasHalfOpenLinks: Bool { actions.contains { if case .giveUp = $0.action { true } else { false } } }

    private let isComplete: Bool
    private var endpointOfSession: [SessionID: Endpoint] = [:]

    /// `isOrdered`: the client tries its endpoints in the order of its list. `room` is the number of bytes that the
    /// replayed frames may have in their bodies and fields.
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
        actions = actions.enumerated().sorted { ($0.1.time, $0.0) < ($1.1.time, $1.0) }.map(\.1)
    }

    private mutating func add(_ action: Action, at time: Duration) { actions.append((max(.zero, time), action)) }

    private mutating func note(_ endpoint: Endpoint) {
        if knownEndpoints.insert(endpoint).inserted { endpoints.append(endpoint) }
    }

    /// A recording has only the sizes of bodies and fields, so a short one may declare more than there is memory.
    private static func check(_ recording: Recording, _ facts: RecordedCalls, room: Int) throws(RecordingError) {
        var total = 0
        for (index, entry) in recording.entries.enumerated() {
            switch entry.content {
            case .call(let call): if facts.headers[call.id] == nil { total = total.saturatingAdding(call.bodyCount) }
            case .sent(let header), .received(let header): total = total.saturatingAdding(header.declaredCount)
            default: break
            }
            guard total <= room else {
                throw RecordingError(line: index + 2, "bodies and fields up to here have more than \(room) bytes")
            }
        }
    }

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

    private var hasClosed = false
    private var attemptBegin: Duration?
    private var handshakeBegin: Duration?
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
        // Most links that the client has ended by itself end so in the replay, too. A replay has no TLS that could
        // fail.
        guard event.party != .client || cause == .protocolViolation || cause == .tls else { return }
        add(.end(endpoint, cause), at: time)
    }

    private mutating func endAttempt(at time: Duration) -> (begin: Duration?, handshakeBegin: Duration?, isCut: Bool) {
        // The state of a client with a link tells nothing of a planned change. It may have begun before the oldest
        // entry.
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
    var endpoint: Endpoint? { text("endpoint").flatMap { Endpoint(recorded: $0) }?.inReplay }
    var cause: DisconnectCause? { text("cause").flatMap { DisconnectCause(rawValue: $0) } }
    var phase: DisconnectReport.Phase? { text("phase").flatMap { DisconnectReport.Phase(rawValue: $0) } }
    var party: DisconnectReport.Party? { text("ended_by").flatMap { DisconnectReport.Party(rawValue: $0) } }
    var isEnd: Bool { name == "link.ended" || name == "attempt.failed" }
    fileprivate var isBegin: Bool { ["connection.resolving", "connection.connecting"].contains(name) }
}

extension Endpoint {
    /// A command, or descriptors, cannot be made again from their text: a path stands for them.
    init?(recorded text: String) {
        if let endpoint = try? Endpoint(parsing: text) {
            self = endpoint
        } else if text.hasSuffix(")"), text.hasPrefix("command(") || text.hasPrefix("descriptors(") {
            self = .unix(path: text)
        } else {
            return nil
        }
    }

    /// Endpoints are separated by spaces. The text of a command has spaces, too.
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

    /// In plaintext, because a replay has no TLS. The host includes the port: faults belong to a host, and another
    /// endpoint may have the same one.
    fileprivate var inReplay: Endpoint {
        switch target {
        case .host(let name, let port): .host("\(name)-\(port)", port: port)
        case .unix, .vsock, .command, .descriptors: Endpoint(target: target)
        }
    }
}
