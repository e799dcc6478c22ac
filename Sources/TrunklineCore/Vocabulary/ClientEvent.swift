/// Something that happened in a client, for a ``ClientObserver``.
///
/// Every event has a ``name`` that does not change between versions, ``fields`` with its values, and a ``description``
/// in one line. None of them contains bytes of a body or the value of a named field, except what a child process itself
/// writes to standard error. An error that your own code threw appears in them only with its type, because its text may
/// contain anything; ``content-swift.property`` has the error itself.
public struct ClientEvent: Sendable {
    /// Groups of events. An observer names those that it wants.
    public struct Kinds: OptionSet, Sendable, Hashable {
        /// The bits of the groups.
        public let rawValue: UInt32

        /// Creates a set of groups from its bits.
        public init(rawValue: UInt32) { self.rawValue = rawValue }

        /// The beginning and the end of requests: accepted, answered, written (one-way), failed, refused.
        public static let requests = Kinds(rawValue: 1)
        /// Only failures: those events of ``requests`` that report one (failed, cancelled, refused), and
        /// ``Content/requestRejected(id:type:status:_:name:)``. Requests that succeed cost nothing.
        public static let failures = Kinds(rawValue: 64)
        /// What happens to requests in between: waiting, admitted, written, first part, retrying, late response.
        public static let steps = Kinds(rawValue: 2)
        /// The state of the connection, links that are ready, the ends of links, and the end of the client.
        public static let links = Kinds(rawValue: 4)
        /// Limits that are reached, and no longer reached.
        public static let limits = Kinds(rawValue: 8)
        /// Pushes that were dropped because the buffer of a stream was full, and requests of the server that were
        /// refused or dropped.
        public static let pushes = Kinds(rawValue: 16)
        /// Changes of the list of endpoints, and of the servers of a cluster.
        public static let endpoints = Kinds(rawValue: 32)
        /// Responses that no request was waiting for, and responses that their caller could not decode.
        public static let mismatches = Kinds(rawValue: 128)
        /// All events except `requestRejected`: `requestsAnswered` contains the error responses.
        public static let all: Kinds = [.requests, .steps, .links, .limits, .pushes, .endpoints, .mismatches]
    }

    /// What a request waits for.
    @nonexhaustive
    public enum Wait: String, Sendable, Hashable {
        /// A link.
        case link
        /// Its turn: see ``ClientMetrics/Waiting-swift.struct/forTurn``.
        case turn
    }

    /// A limit of the client.
    @nonexhaustive
    public enum Limit: String, Sendable, Hashable {
        /// ``ClientOptions/Requests/maximumInFlight``: requests wait for their turn.
        case maximumInFlight
        /// ``ClientOptions/Requests-swift.struct/datagramWindow``, as large as it is now: requests wait for their turn.
        case datagramWindow
        /// All serial numbers of the link are in use: requests wait for their turn.
        case serials
        /// ``ClientOptions/Outbound/highWatermark``: requests wait for their turn.
        case highWatermark
        /// The buffer of a push or reply stream is full, and reading from the link is suspended.
        case streamBuffer
        /// ``ClientOptions/Requests/retryBudget``: a failed request was not sent again. This limit is never reported as
        /// cleared.
        case retryBudget
    }

    /// A request that was accepted.
    public struct AcceptedRequest: Sendable, Hashable {
        /// The number of the request among all requests of the client.
        public let id: RequestID
        /// The session of the link on which it was put at once; `nil` if it waits.
        public let session: SessionID?
        /// The type number of the request.
        public let type: UInt32
        /// Whether it is a one-way message.
        public let isOneWay: Bool
    }

    /// A request that ended with a response, possibly an error response.
    public struct AnsweredRequest: Sendable, Hashable {
        /// The number of the request among all requests of the client.
        public let id: RequestID
        /// Nanoseconds times two, plus one for an error: in one word, because requests are frequent.
        private let durationAndError: Int64
        /// The type number of the request.
        public let type: UInt32
        /// The status code of the response; 0 if the protocol has none.
        public let status: UInt32
        /// The time from the call to the response.
        public var duration: Duration { .nanoseconds(durationAndError >> 1) }
        /// Whether the caller received an error: `rejected` for an error response, or `protocolViolation` for a
        /// malformed one.
        public var isError: Bool { durationAndError & 1 == 1 }

        @inline(__always)
        init(id: RequestID, nanoseconds: Int64, type: UInt32, status: UInt32, isError: Bool) {
            (self.id, self.type, self.status) = (id, type, status)
            durationAndError = nanoseconds &<< 1 | (isError ? 1 : 0)
        }
    }

    /// A link that is ready.
    public struct ReadyLink: Sendable, Hashable {
        /// The endpoint of the server.
        public let endpoint: Endpoint
        /// The address of the server, or of the proxy; `nil` for a Unix domain socket.
        public let address: String?
        /// The session of the link.
        public let session: SessionID
        /// One more than the number of attempts in a row that failed before this one.
        public let attempt: Int
        /// The time from the beginning of the attempt.
        public let duration: Duration
        /// The version of TLS; `nil` in plaintext.
        public let tlsVersion: String?
        /// The number of requests that waited for a link.
        public internal(set) var waiting = 0
        /// The proxy through which the link goes, without credentials
        /// (``ClientOptions/Connecting-swift.struct/proxy``); `nil` for none.
        public internal(set) var proxy: String?
        /// Whether the handshake has said that the server had lost the session of the protocol
        /// (``Handshaker/sessionWasLost()``).
        public internal(set) var hasLostSession = false

        package init(
            endpoint: Endpoint,
            address: String?,
            session: SessionID,
            attempt: Int,
            duration: Duration,
            tlsVersion: String?,
            waiting: Int = 0,
            proxy: String? = nil,
            hasLostSession: Bool = false
        ) {
            (self.endpoint, self.address, self.session, self.attempt) = (endpoint, address, session, attempt)
            (self.duration, self.tlsVersion, self.waiting, self.proxy) = (duration, tlsVersion, waiting, proxy)
            self.hasLostSession = hasLostSession
        }
    }

    /// What happened. `id` is the number of the request among all requests of the client.
    ///
    /// The most frequent events name all requests to which the same happened in one step of the event loop, in order.
    @nonexhaustive
    public enum Content: Sendable {
        /// These requests and one-way messages were accepted.
        case requestsAccepted([AcceptedRequest])
        /// The request waits, for example because it was just accepted or its link was lost before it was written.
        case requestWaiting(id: RequestID, for: Wait)
        /// A request that waited was put on a link.
        case requestAdmitted(id: RequestID, session: SessionID)
        /// The kernel accepted the last byte of each of these requests; over TLS, it was encrypted.
        case requestsWritten(ids: [RequestID], session: SessionID)
        /// The first part of a reply in several parts arrived.
        case requestFirstPart(id: RequestID)
        /// These requests ended with a response.
        case requestsAnswered([AnsweredRequest])
        /// The one-way message ended: the kernel accepted its last byte. `after` is the time since its call.
        case messageWritten(id: RequestID, after: Duration)
        /// The request ended without a valid response. `after` is the time since its call.
        case requestFailed(id: RequestID, ClientError, after: Duration)
        /// The request failed and will be sent again after `delay`, as try number `tryNumber`.
        case requestRetrying(id: RequestID, tryNumber: Int, delay: Duration)
        /// The event loop did not accept a request. Calls that failed earlier are not told: see
        /// ``ClientMetrics/refusals``.
        case requestRefused(ClientError)
        /// The server answered the request with an error, for this reason, if it gave one. The request has this name
        /// (``NamingCodec``), or none. Told only to observers of ``Kinds/failures``.
        case requestRejected(id: RequestID, type: UInt32, status: UInt32, ServerReason?, name: String?)
        /// The server answered the request with a response that its caller cannot receive: one that is malformed
        /// (`protocolViolation`) or exceeds a limit (`overloaded`). Told only to observers of ``Kinds/failures``.
        case responseInvalid(id: RequestID, type: UInt32, ClientError)
        /// A response came for a request that had been abandoned.
        case lateResponse(id: RequestID)
        /// A response, or a part of one, came for a serial number that no request was waiting for, or came twice. The
        /// reason is what the server said if it is an error. `namesNoRequest`: matched by serial, its serial is outside
        /// the range of the protocol, so that it concerns no request, such as an error with the serial 0.
        case unknownResponse(
            serial: SerialNumber,
            type: UInt32,
            session: SessionID,
            reason: ServerReason? = nil,
            namesNoRequest: Bool = false
        )
        /// Datagrams from the server were dropped, the latest for this reason: they were not complete frames, or not
        /// valid responses to the requests with their serials.
        indirect case datagramsDropped(Int, Endpoint, FrameError)
        /// The caller of a typed request could not decode its response. The error is `invalidResponse` or
        /// `protocolViolation`.
        case responseUndecodable(ClientError)
        /// The state of the connection changed.
        indirect case stateChanged(ConnectionState)
        /// The next attempt goes to this endpoint, after the wait that the next event tells.
        indirect case attemptPlanned(Endpoint)
        /// A link is about to be ready. The next event tells the state, unless the client is closing.
        indirect case linkReady(ReadyLink)
        /// An address of an endpoint failed, or did not answer, while another one did, which the link uses instead. It
        /// is tried last for 10 min.
        indirect case addressFailed(Endpoint, address: String, TransportError, instead: String)
        /// A link takes no new requests; those in flight may finish. `reason`: why the client leaves it, with the
        /// numbers of the rule; `nil` if the server has asked for it.
        indirect case linkDraining(Endpoint, session: SessionID, DisconnectCause, reason: String?)
        /// An attempt failed, or a link ended.
        indirect case linkEnded(DisconnectReport)
        /// The child process of a link has written a line to standard error: at most 1,024 bytes of it, without control
        /// characters. `omitted`: how many lines before it were left out, because there were more than 20 in a second.
        /// When the process ends, up to five of the latest lines that were left out follow. Lines may follow the end of
        /// the link, and ``clientClosed(_:)``.
        indirect case processOutput(Endpoint, session: SessionID, line: String, omitted: Int)
        /// The event loop of the client did not run what was due: the process was stopped, had no processor, or code on
        /// the loop blocked it. What the server has not done meanwhile is not held against it.
        indirect case loopLate(LoopDelay)
        /// A TLS link is ready. This certificate of the server, or that of this client, expires after `timeLeft`.
        indirect case certificateSeen(Endpoint, CertificateExpiry, timeLeft: Duration)
        /// The client has learned another interval of heartbeats: see
        /// ``ClientOptions/Liveness-swift.struct/adaptiveInterval``.
        indirect case heartbeatIntervalChanged(LearnedInterval)
        /// A file of ``ClientOptions/tls`` has changed while there is a link: the next link is established with it.
        case tlsFilesChanged
        /// The client is closed, with these metrics. Only calls that are refused follow, and what a child process
        /// writes while it ends.
        indirect case clientClosed(ClientMetrics)
        /// The client was deallocated without being closed, and this many requests had not ended. The last event.
        case clientDeallocated(pending: Int)
        /// A limit is reached.
        case limitReached(Limit)
        /// The limit is no longer reached.
        case limitCleared(Limit)
        /// Pushes were dropped, because the buffer of a stream was full. The streams are named as in
        /// ``ClientMetrics/pushesDroppedByStream``.
        case pushesDropped(Int, stream: String)
        /// Requests of the server were refused for this reason: ``Client/serve(maximumConcurrent:maximumWaiting:_:)``.
        case serverRequestsRefused(Int, because: ServingRefusal)
        /// Requests of the server were dropped: ``ClientMetrics/Serving-swift.struct/dropped``.
        case serverRequestsDropped(Int)
        /// The list of endpoints changed.
        case endpointsChanged([Endpoint])
        /// Something happened to the servers of a cluster.
        indirect case clusterChanged(ClusterChange)
    }

    /// The value of a field.
    @nonexhaustive
    public enum Value: Sendable, Hashable {
        /// Text.
        case text(String)
        /// A whole number.
        case integer(Int64)
        /// A number of seconds.
        case seconds(Double)
        /// Whether something is so.
        case flag(Bool)
    }

    /// When it happened, on the clock of the client's event loop, whose origin is arbitrary and which never jumps. Only
    /// differences are meaningful.
    public var time: Duration { .nanoseconds(instant.nanoseconds) }
    /// What happened.
    public let content: Content
    package let instant: Instant
    private let source: ClusterSource?

    /// The server of the client, if it belongs to a ``Cluster``; otherwise `nil`. Numbers of requests and sessions are
    /// those of this client: other clients of the cluster have the same ones.
    public var server: Endpoint? { source?.endpoint }

    @inline(__always)
    package init(_ content: consuming Content, at instant: Instant, from source: ClusterSource? = nil) {
        self.content = content
        self.instant = instant
        self.source = source
    }
}

extension ClientEvent {
    package var kinds: Kinds {
        switch content {
        case .requestFailed, .requestRefused: [.requests, .failures]
        default: kind
        }
    }

    /// The group of the event. For a failure it is `requests`, also if an observer wants only `failures`.
    public var kind: Kinds {
        switch content {
        case .requestsAccepted, .requestsAnswered, .messageWritten, .requestFailed, .requestRefused: .requests
        case .requestWaiting, .requestAdmitted, .requestsWritten, .requestFirstPart, .requestRetrying, .lateResponse:
            .steps
        case .requestRejected, .responseInvalid: .failures
        case .stateChanged, .attemptPlanned, .addressFailed, .linkReady, .linkDraining, .linkEnded, .processOutput,
            .loopLate, .certificateSeen, .heartbeatIntervalChanged, .tlsFilesChanged, .clientClosed, .clientDeallocated:
            .links
        case .unknownResponse, .responseUndecodable, .datagramsDropped: .mismatches
        case .limitReached, .limitCleared: .limits
        case .pushesDropped, .serverRequestsRefused, .serverRequestsDropped: .pushes
        case .endpointsChanged, .clusterChanged: .endpoints
        }
    }

    /// The name of the event, which does not change between versions, such as `request.failed`.
    public var name: String {
        switch content {
        case .requestsAccepted: "requests.accepted"
        case .requestWaiting: "request.waiting"
        case .requestAdmitted: "request.admitted"
        case .requestsWritten: "requests.written"
        case .requestFirstPart: "request.first_part"
        case .requestsAnswered: "requests.answered"
        case .messageWritten: "message.written"
        case .requestFailed(_, let error, _): error.code == .cancelled ? "request.cancelled" : "request.failed"
        case .requestRetrying: "request.retrying"
        case .requestRefused: "request.refused"
        case .requestRejected: "request.rejected"
        case .responseInvalid: "response.invalid"
        case .lateResponse: "request.late_response"
        case .unknownResponse: "response.unknown"
        case .responseUndecodable: "response.undecodable"
        case .datagramsDropped: "datagrams.dropped"
        case .stateChanged(let state): "connection.\(state.name)"
        case .attemptPlanned: "attempt.planned"
        case .linkReady: "link.ready"
        case .addressFailed: "address.failed"
        case .linkDraining: "link.draining"
        case .linkEnded(let report):
            report.phase == .ready || report.phase == .draining ? "link.ended" : "attempt.failed"
        case .processOutput: "process.output"
        case .loopLate: "loop.late"
        case .certificateSeen: "certificate.seen"
        case .heartbeatIntervalChanged: "heartbeat.interval"
        case .tlsFilesChanged: "tls.files_changed"
        case .clientClosed: "client.closed"
        case .clientDeallocated: "client.deallocated"
        case .limitReached: "limit.reached"
        case .limitCleared: "limit.cleared"
        case .pushesDropped: "pushes.dropped"
        case .serverRequestsRefused: "server_requests.refused"
        case .serverRequestsDropped: "server_requests.dropped"
        case .endpointsChanged: "endpoints.changed"
        case .clusterChanged(let change): change.name
        }
    }

    /// The names and values of the event, in a fixed order.
    public var fields: [(name: String, value: Value)] {
        func number(_ value: some BinaryInteger) -> Value { .integer(Int64(clamping: value)) }
        func list(_ ids: [RequestID]) -> Value { .text(ids.map { "\($0)" }.joined(separator: " ")) }
        func error(_ error: ClientError) -> [(name: String, value: Value)] {
            [("code", .text("\(error.code)")), ("fate", .text("\(error.fate)")), ("message", .text(error.message))]
                + (error.cause.map { [("cause", .text(ErrorText.of($0).asMessage))] } ?? [])
                + (error.requestName.map { [("name", .text($0))] } ?? [])
        }
        switch content {
        case .requestsAccepted(let requests): return [("ids", list(requests.map(\.id)))]
        case .requestWaiting(let id, let wait): return [("id", number(id.number)), ("for", .text(wait.rawValue))]
        case .requestAdmitted(let id, let session):
            return [("id", number(id.number)), ("session", number(session.number))]
        case .requestsWritten(let ids, let session):
            return [("ids", list(ids)), ("session", number(session.number))]
        case .requestFirstPart(let id), .lateResponse(let id): return [("id", number(id.number))]
        case .requestsAnswered(let requests):
            let durations = requests.map { "\($0.duration.inSeconds)" }.joined(separator: " ")
            return [("ids", list(requests.map(\.id))), ("durations", .text(durations))]
        case .messageWritten(let id, let duration):
            return [("id", number(id.number)), ("duration", .seconds(duration.inSeconds))]
        case .requestFailed(let id, let failure, let duration):
            return [("id", number(id.number)), ("duration", .seconds(duration.inSeconds))] + error(failure)
        case .requestRetrying(let id, let tryNumber, let delay):
            return [("id", number(id.number)), ("try", number(tryNumber)), ("delay", .seconds(delay.inSeconds))]
        case .requestRefused(let refusal): return error(refusal)
        case .requestRejected(let id, let type, let status, let reason, let name):
            return [("id", number(id.number)), ("type", number(type)), ("status", number(status))]
                + (reason.map { [("reason", .text("\($0)"))] } ?? []) + (name.map { [("name", .text($0))] } ?? [])
        case .responseInvalid(let id, let type, let failure):
            return [("id", number(id.number)), ("type", number(type))] + error(failure)
        case .unknownResponse(let serial, let type, let session, let reason, _):
            return [("serial", number(serial)), ("type", number(type)), ("session", number(session.number))]
                + (reason.map { [("reason", .text("\($0)"))] } ?? [])
        case .responseUndecodable(let failure): return error(failure)
        case .datagramsDropped(let count, let endpoint, let reason):
            return [
                ("count", number(count)), ("endpoint", .text("\(endpoint)")), ("error", .text("\(reason)")),
            ]
        case .stateChanged(let state): return state.fields
        case .attemptPlanned(let endpoint): return [("endpoint", .text("\(endpoint)"))]
        case .linkReady(let link): return link.fields
        case .processOutput(let endpoint, let session, let line, let omitted):
            return [("endpoint", .text("\(endpoint)")), ("session", number(session.number)), ("line", .text(line))]
                + (omitted > 0 ? [("omitted", number(omitted))] : [])
        case .loopLate(let delay):
            return [("reason", .text(delay.reason.rawValue)), ("duration", .seconds(delay.duration.inSeconds))]
                + (delay.endpoint.map { [("endpoint", .text("\($0)"))] } ?? [])
        case .certificateSeen(let endpoint, let certificate, let left):
            return [
                ("endpoint", .text("\(endpoint)")), ("owner", .text(certificate.owner.rawValue)),
                ("subject", .text(certificate.subject)), ("not_after", .integer(certificate.notAfter)),
                ("time_left", .seconds(left.inSeconds)),
            ]
        case .heartbeatIntervalChanged(let learned): return learned.fields
        case .tlsFilesChanged: return []
        case .clientClosed(let metrics):
            return [
                ("requests", number(metrics.requests)), ("failed", number(metrics.failed)),
                ("links", number(metrics.connection.links)),
            ]
        case .clientDeallocated(let pending): return [("pending", number(pending))]
        case .addressFailed(let endpoint, let address, let failure, let other):
            return [
                ("endpoint", .text("\(endpoint)")), ("address", .text(address)),
                ("error", .text(ErrorText.of(failure).asMessage)), ("instead", .text(other)),
            ]
        case .linkDraining(let endpoint, let session, let cause, let reason):
            return [
                ("endpoint", .text("\(endpoint)")), ("session", number(session.number)),
                ("cause", .text(cause.rawValue)),
            ] + (reason.map { [("reason", .text($0))] } ?? [])
        case .linkEnded(let report): return report.fields
        case .limitReached(let limit), .limitCleared(let limit): return [("limit", .text(limit.rawValue))]
        case .pushesDropped(let count, let stream): return [("count", number(count)), ("stream", .text(stream))]
        case .serverRequestsRefused(let count, let reason):
            return [("count", number(count)), ("reason", .text(reason.rawValue))]
        case .serverRequestsDropped(let count): return [("count", number(count))]
        case .endpointsChanged(let endpoints):
            return [("endpoints", .text(endpoints.map(\.description).joined(separator: " ")))]
        case .clusterChanged(let change): return change.fields
        }
    }
}

extension ClientEvent: CustomStringConvertible {
    /// The name and the fields in one line: `limit.reached limit=serials`.
    public var description: String {
        ([name] + fields.map { "\($0.name)=\($0.value)" }).joined(separator: " ")
    }
}

extension ClientEvent.Value: CustomStringConvertible {
    /// The value as text. Text with spaces is in quotation marks.
    public var description: String {
        switch self {
        case .text(let text): text.contains { $0 == " " || $0 == "\"" } || text.isEmpty ? text.debugDescription : text
        case .integer(let integer): "\(integer)"
        case .seconds(let seconds): "\(seconds)"
        case .flag(let flag): "\(flag)"
        }
    }
}

extension ConnectionState {
    fileprivate var fields: [(name: String, value: ClientEvent.Value)] {
        switch self {
        case .idle, .suspended, .draining, .closed: []
        case .resolving(let endpoint, let attempt), .connecting(let endpoint, let attempt),
            .securing(let endpoint, let attempt), .handshaking(let endpoint, let attempt):
            [("endpoint", .text("\(endpoint)")), ("attempt", .integer(Int64(attempt)))]
        case .ready(let endpoint, let session):
            [("endpoint", .text("\(endpoint)")), ("session", .integer(Int64(clamping: session.number)))]
        case .waiting(let delay, let attempt, let cause):
            [
                ("delay", .seconds(delay.inSeconds)), ("attempt", .integer(Int64(attempt))),
                ("cause", .text(cause.rawValue)),
            ]
        case .noNetwork(let cause): [("cause", .text(cause.rawValue))]
        }
    }
}

extension LearnedInterval {
    fileprivate var fields: [(name: String, value: ClientEvent.Value)] {
        var fields: [(name: String, value: ClientEvent.Value)] = [
            ("endpoint", .text("\(endpoint)")), ("path", .text("\(path)")), ("interval", .seconds(interval.inSeconds)),
            ("change", .text(change.rawValue)),
        ]
        if let longestSurvived { fields.append(("longest_survived", .seconds(longestSurvived.inSeconds))) }
        if let shortestLost { fields.append(("shortest_lost", .seconds(shortestLost.inSeconds))) }
        return fields
    }
}

extension ClientEvent.ReadyLink {
    fileprivate var fields: [(name: String, value: ClientEvent.Value)] {
        var fields: [(name: String, value: ClientEvent.Value)] = [("endpoint", .text("\(endpoint)"))]
        if let address { fields.append(("address", .text(address))) }
        fields += [
            ("session", .integer(Int64(clamping: session.number))), ("attempt", .integer(Int64(attempt))),
            ("duration", .seconds(duration.inSeconds)),
        ]
        if let proxy { fields.append(("proxy", .text(proxy))) }
        if let tlsVersion { fields.append(("tls", .text(tlsVersion))) }
        if waiting > 0 { fields.append(("waiting", .integer(Int64(waiting)))) }
        if hasLostSession { fields.append(("session_lost", .flag(true))) }
        return fields
    }
}

extension DisconnectReport {
    fileprivate var fields: [(name: String, value: ClientEvent.Value)] {
        var fields: [(name: String, value: ClientEvent.Value)] = [
            ("endpoint", .text("\(endpoint)")), ("phase", .text(phase.rawValue)), ("cause", .text(cause.rawValue)),
            ("ended_by", .text(endedBy.rawValue)), ("session", .integer(Int64(clamping: session.number))),
            ("attempt", .integer(Int64(attempt))), ("lifetime", .seconds(lifetime.inSeconds)),
            ("requests_lost", .integer(Int64(requestsLost))), ("bytes_unsent", .integer(Int64(bytesUnsent))),
            ("network_change", .flag(isNetworkChange)),
        ]
        if let isNetworkUp { fields.append(("network_up", .flag(isNetworkUp))) }
        if let address { fields.append(("address", .text(address))) }
        if let idleTime { fields.append(("idle", .seconds(idleTime.inSeconds))) }
        if let departure { fields.append(("reason", .text(departure))) }
        if let exit { fields.append(("exit", .text("\(exit)"))) }
        if let error { fields.append(("error", .text(ErrorText.of(error).asMessage))) }
        return fields
    }
}
