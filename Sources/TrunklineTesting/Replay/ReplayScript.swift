import Trunkline
import TrunklineDiagnostics

/// What the servers, the network and the callers of a recording did, and when.
struct ReplayScript {
    /// How an attempt ended.
    enum Attempt: Sendable {
        case ready(after: Duration)
        case failed(DisconnectCause, DisconnectReport.Phase, after: Duration)
    }

    /// Something that is done at a certain time.
    enum Action: Sendable {
        /// `connect()`: the client connected before its first call.
        case connect
        /// With the frame of its request, if it was recorded. Frames are made when they are sent: they are much larger
        /// than the recording.
        case call(Recording.Call, Recording.Header?)
        case cancel(RequestID)
        case send(Recording.Header, to: Endpoint)
        /// Ends the links to the endpoint.
        case end(Endpoint, DisconnectCause)
        case close
    }

    /// What is done, in the order of time. Time zero is the first entry of the recording.
    private(set) var actions: [(time: Duration, action: Action)] = []
    /// The attempts at each endpoint, in order.
    private(set) var attempts: [Endpoint: [Attempt]] = [:]
    /// The requests that each endpoint received, in order, with the replies.
    private(set) var exchanges: [Endpoint: [Recording.Exchange]] = [:]
    /// The endpoints, in the order in which they appear.
    private(set) var endpoints: [Endpoint] = []
    private var knownEndpoints: Set<Endpoint> = []
    /// The calls that are cancelled.
    private(set) var cancelled: Set<RequestID> = []
    /// How long the client waited before its attempts.
    private(set) var delays: [Duration] = []
    /// The time from the first entry to the last one.
    let length: Duration

    /// - Parameter room: The number of bytes that the replayed frames may have in their bodies and fields.
    init(_ recording: Recording, room: Int) throws(RecordingError) {
        let requests = recording.requests
        try Self.check(recording, requests, room: room)
        let start = recording.entries.first?.time ?? .zero
        length = (recording.entries.last?.time ?? start) - start
        readLinks(recording, start)
        if let begin = recording.firstAttemptBegin { add(.connect, at: begin - start) }
        for entry in recording.entries {
            let time = entry.time - start
            switch entry.content {
            case .call(let call) where !call.isOpen: add(.call(call, requests[call.id]), at: time)
            case .event(let event): read(event, at: time)
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
    private static func check(
        _ recording: Recording,
        _ requests: [RequestID: Recording.Header],
        room: Int
    ) throws(RecordingError) {
        var total = 0
        for (index, entry) in recording.entries.enumerated() {
            switch entry.content {
            case .call(let call): if requests[call.id] == nil { total = total.saturatingAdding(call.bodyCount) }
            case .sent(let header), .received(let header): total = total.saturatingAdding(header.declaredCount)
            default: break
            }
            guard total <= room else {
                // The first line of the text describes the recording.
                throw RecordingError(line: index + 2, "bodies and fields up to here have more than \(room) bytes")
            }
        }
    }

    // MARK: Links

    private mutating func readLinks(_ recording: Recording, _ start: Duration) {
        var endpointOfSession: [SessionID: Endpoint] = [:]
        for entry in recording.entries {
            guard case .event(let event) = entry.content, let endpoint = event.endpoint else { continue }
            note(endpoint)
            if let session = event.session { endpointOfSession[session] = endpoint }
        }
        if endpoints.isEmpty { endpoints = ["server-7000:7000"] }
        let (matched, unasked) = recording.exchanges
        for exchange in matched {
            exchanges[endpointOfSession[exchange.request.session] ?? endpoints[0], default: []].append(exchange)
        }
        // A response or part without a request belongs to one that is left out, or whose beginning was overwritten.
        for (time, header) in unasked where header.kind != .response && header.kind != .part {
            add(.send(header, to: endpointOfSession[header.session] ?? endpoints[0]), at: time - start)
        }
        readHalfOpenLinks(recording, start, endpointOfSession)
    }

    /// A half-open link was so from its last received frame on: the client noticed later.
    private mutating func readHalfOpenLinks(
        _ recording: Recording,
        _ start: Duration,
        _ endpointOfSession: [SessionID: Endpoint]
    ) {
        var lastSign: [SessionID: Duration] = [:]
        for entry in recording.entries {
            switch entry.content {
            case .received(let header): lastSign[header.session] = entry.time
            case .event(let event):
                guard let session = event.session else { continue }
                if event.name == "connection.ready" { lastSign[session] = entry.time }
                guard event.isEnd, event.cause == .halfOpen else { continue }
                let endpoint = endpointOfSession[session] ?? endpoints[0]
                let time = (lastSign[session] ?? start) - start
                // After the frames of the same instant.
                add(.end(endpoint, .halfOpen), at: time + .nanoseconds(1))
            case .call, .sent: break
            @unknown default: break
            }
        }
    }

    // MARK: Events

    private var hasClosed = false
    /// When the present attempt began.
    private var attemptBegin: Duration?

    private mutating func read(_ event: Recording.Event, at time: Duration) {
        switch event.name {
        case "connection.resolving", "connection.connecting": attemptBegin = attemptBegin ?? time
        case "connection.ready":
            guard let endpoint = event.endpoint else { return }
            attempts[endpoint, default: []].append(.ready(after: time - (exchange(&attemptBegin, with: nil) ?? time)))
        case "connection.waiting": if let delay = event.delay { delays.append(delay) }
        case "attempt.failed": attemptFailed(event, at: time)
        case "link.ended":
            guard let endpoint = event.endpoint, let cause = event.cause, cause != .halfOpen, event.party != .client
            else {
                // The client ends a half-open link, or another one, by itself.
                if event.cause == .protocolViolation, let endpoint = event.endpoint {
                    add(.end(endpoint, .protocolViolation), at: time)
                }
                return
            }
            add(.end(endpoint, cause), at: time)
        case "request.cancelled":
            guard let id = event.integer("id") else { return }
            cancelled.insert(RequestID(UInt64(bitPattern: id)))
            add(.cancel(RequestID(UInt64(bitPattern: id))), at: time)
        case "connection.draining", "connection.closed":
            if !hasClosed { add(.close, at: time) }
            hasClosed = true
        default: break
        }
    }

    private mutating func attemptFailed(_ event: Recording.Event, at time: Duration) {
        let duration = time - (exchange(&attemptBegin, with: nil) ?? time)
        guard let endpoint = event.endpoint, let cause = event.cause, let phase = event.phase else { return }
        switch phase {
        case .handshaking where cause != .handshakeRefused:
            attempts[endpoint, default: []].append(.ready(after: .zero))
            if event.party != .client { add(.end(endpoint, cause), at: time) }
        case .handshaking: attempts[endpoint, default: []].append(.ready(after: .zero))
        default: attempts[endpoint, default: []].append(.failed(cause, phase, after: duration))
        }
    }
}

extension Recording {
    /// When the first attempt began, if that was before the first call.
    fileprivate var firstAttemptBegin: Duration? {
        for entry in entries {
            switch entry.content {
            case .call: return nil
            case .event(let event) where ["connection.resolving", "connection.connecting"].contains(event.name):
                return entry.time
            default: break
            }
        }
        return nil
    }

    /// The frames of requests by the number of their call. A request that was sent again has the same frame.
    fileprivate var requests: [RequestID: Header] {
        var requests: [RequestID: Header] = [:]
        for entry in entries {
            if case .sent(let header) = entry.content, header.kind == .request, let id = header.id {
                requests[id] = header
            }
        }
        return requests
    }
}

extension Recording.Event {
    /// The endpoint, as the replay names it.
    var endpoint: Endpoint? { text("endpoint").flatMap { try? Endpoint(parsing: $0) }?.inReplay }
    /// The delay before the next attempt; `nil` if it is absurd.
    var delay: Duration? {
        switch self["delay"] {
        case .seconds(let seconds)? where (0...1e9).contains(seconds): .seconds(seconds)
        case .integer(let seconds)? where (0...1_000_000_000).contains(seconds): .seconds(seconds)
        default: nil
        }
    }
    var cause: DisconnectCause? { text("cause").flatMap { DisconnectCause(rawValue: $0) } }
    var phase: DisconnectReport.Phase? { text("phase").flatMap { DisconnectReport.Phase(rawValue: $0) } }
    var party: DisconnectReport.Party? { text("ended_by").flatMap { DisconnectReport.Party(rawValue: $0) } }
    var session: SessionID? {
        integer("session").flatMap { UInt64(exactly: $0) }.flatMap { $0 == 0 ? nil : SessionID($0) }
    }
    var isEnd: Bool { name == "link.ended" || name == "attempt.failed" }
}

extension Endpoint {
    /// The endpoint in plaintext, because a replay has no TLS. Its host has the port in its name: faults belong to a host,
    /// and another endpoint may have the same one.
    fileprivate var inReplay: Endpoint {
        switch target {
        case .host(let name, let port): .host("\(name)-\(port)", port: port)
        case .unix: Endpoint(target: target)
        }
    }
}
