package import TrunklineCore

extension Recording {
    /// The client's state at the oldest entry. A recording that begins with its client has only the endpoints.
    package struct Beginning: Sendable, Hashable {
        /// Ready or draining. `age` counts since it became ready.
        package struct Link: Sendable, Hashable {
            package let session: SessionID
            package let endpoint: String
            package let age: Duration
        }

        package struct Request: Sendable, Hashable {
            package let id: RequestID?
            package let session: SessionID?
            package let type: UInt32
            var name: String?
            /// 0 if on no link, unknown, or matched in order.
            let serial: SerialNumber
            /// `nil` unless its caller had stopped waiting and its serial was still held.
            package var abandonedFor: Duration?
        }

        package var endpoints: [String] = []
        package var links: [Link] = []
        package var requests: [Request] = []
    }
}

extension Recording.Beginning {
    struct End {
        var links: [Link] = []
        var requests: [RecordedRequest] = []
        var abandoned: [RequestID: (session: SessionID, time: Duration)] = [:]
    }

    /// Derives the state at the oldest entry from what happened afterwards and from the state at the newest one: what
    /// ended without having begun, and what is still there, was there. So nothing has to be remembered when an entry is
    /// overwritten.
    init(of entries: [Recording.Entry], endpoints: [String], _ end: End) {
        self.endpoints = endpoints
        guard let start = entries.first?.time else { return }
        var trail = Trail(entries)
        links = trail.links(endedSince: start)
        for link in end.links where !trail.begun.contains(link.session) && !trail.ended.contains(link.session) {
            links.append(link)
        }
        links.sort { $0.session < $1.session }
        let sessions = Set(links.map(\.session))
        for entry in entries { trail.follow(entry, sessions) }
        requests = trail.answered
        requests += trail.unnumbered(on: links, end)
        for (id, fate) in trail.failed.sorted(by: { $0.key < $1.key }) where fate != "notSent" {
            // A late response has told of it already, and those without serials were counted.
            if trail.isInOrder || trail.answeredLate.contains(id) { continue }
            requests.append(Request(id: id, session: links.last?.session, type: trail.anyType, serial: 0))
        }
        let open = end.requests.filter { !trail.known.contains($0.id) }
        for request in open {
            guard let session = request.session, sessions.contains(session), !trail.isInOrder else { continue }
            requests.append(
                Request(
                    id: request.id,
                    session: session,
                    type: request.type,
                    name: request.name,
                    serial: request.number
                )
            )
        }
        for (id, request) in end.abandoned.sorted(by: { $0.key < $1.key }) where request.time < start {
            guard sessions.contains(request.session), !trail.isInOrder else { continue }
            requests.append(
                Request(
                    id: id,
                    session: request.session,
                    type: trail.anyType,
                    serial: 0,
                    abandonedFor: (start - request.time).wholeNanoseconds
                )
            )
        }
        requests += trail.waiting
        for (id, fate) in trail.failed.sorted(by: { $0.key < $1.key }) where fate == "notSent" {
            requests.append(Request(id: id, session: nil, type: trail.anyType, serial: 0))
        }
        for request in open where request.session == nil {
            requests.append(
                Request(id: request.id, session: nil, type: request.type, name: request.name, serial: 0)
            )
        }
    }

    private struct Trail {
        private struct Place: Hashable {
            let session: SessionID
            let serial: SerialNumber
        }

        private(set) var begun: Set<SessionID> = []
        private(set) var ended: Set<SessionID> = []
        private var ends: [(event: Recording.Event, time: Duration)] = []
        private var endEvents: [SessionID: Recording.Event] = [:]
        /// Their call was recorded; `follow` adds those sent or failed.
        private(set) var known: Set<RequestID> = []
        /// The fates of requests of which only the failure was recorded.
        private(set) var failed: [RequestID: String] = [:]
        private(set) var answeredLate: Set<RequestID> = []
        /// Only the response was recorded.
        private(set) var answered: [Request] = []
        /// Sent, but the call was not recorded.
        private(set) var waiting: [Request] = []
        private var usedPlaces: Set<Place> = []
        private var types: Set<UInt32> = []
        private var firstType: UInt32?
        private(set) var isInOrder = false
        private var counts: [SessionID: (sent: Int, received: Int)] = [:]

        var anyType: UInt32 { firstType ?? 0 }

        private let entryCount: Int

        init(_ entries: [Recording.Entry]) {
            entryCount = entries.count
            var (hasRequests, hasSerials) = (false, false)
            for entry in entries {
                switch entry.content {
                case .call(let call): known.insert(call.id)
                case .sent(let header) where header.kind == .request:
                    if header.id != nil { types.insert(header.type) }
                    if header.id != nil { firstType = firstType ?? header.type }
                    hasRequests = true
                    if header.serial != 0 { hasSerials = true }
                case .event(let event):
                    guard let session = event.session else { continue }
                    if ["connection.ready", "link.ready"].contains(event.name) { begun.insert(session) }
                    if event.name == "link.ended" {
                        ends.append((event, entry.time))
                        endEvents[session] = event
                        ended.insert(session)
                    }
                case .sent, .received: break
                }
            }
            isInOrder = hasRequests && !hasSerials
        }

        func links(endedSince start: Duration) -> [Link] {
            ends.compactMap { event, time in
                guard let session = event.session, !begun.contains(session), let endpoint = event.text("endpoint")
                else {
                    return nil
                }
                let age = (event.seconds("lifetime") ?? .zero) - (time - start)
                return Link(session: session, endpoint: endpoint, age: max(.zero, age.wholeNanoseconds))
            }
        }

        mutating func follow(_ entry: Recording.Entry, _ sessions: Set<SessionID>) {
            switch entry.content {
            case .call: break
            case .sent(let header):
                guard header.kind == .request, !header.isOneWay else { return }
                if isInOrder, sessions.contains(header.session) {
                    counts[header.session, default: (0, 0)].sent += 1
                }
                usedPlaces.insert(Place(session: header.session, serial: header.serial))
                // A message without a response has no serial.
                guard let id = header.id, known.insert(id).inserted, isInOrder || header.serial != 0 else { return }
                waiting.append(Request(id: id, session: nil, type: header.type, name: header.name, serial: 0))
            case .received(let header):
                guard header.kind == .response, sessions.contains(header.session) else { return }
                if isInOrder {
                    counts[header.session, default: (0, 0)].received += 1
                } else if usedPlaces.insert(Place(session: header.session, serial: header.serial)).inserted {
                    let type = types.contains(header.type) ? header.type : firstType ?? header.type
                    answered.append(Request(id: nil, session: header.session, type: type, serial: header.serial))
                }
            case .event(let event):
                guard let id = event.request else { return }
                switch event.name {
                case "request.failed", "request.cancelled":
                    if known.insert(id).inserted { failed[id] = event.text("fate") ?? "" }
                case "request.late_response": answeredLate.insert(id)
                default: break
                }
            }
        }

        /// Matched in order: requests sent before a link's first recorded one. Their number: responses, plus requests
        /// open at the end, minus recorded requests.
        func unnumbered(on links: [Link], _ state: End) -> [Request] {
            guard isInOrder else { return [] }
            // The text may claim any number of lost requests.
            var room = entryCount + state.requests.count + state.abandoned.count
            return links.flatMap { link -> [Request] in
                let count = counts[link.session, default: (0, 0)]
                let end = endEvents[link.session]
                let lost = end?.integer("requests_lost").map { Int(clamping: $0) }
                let pending = state.requests.count { $0.session == link.session }
                let open = lost ?? pending + state.abandoned.values.count { $0.session == link.session }
                let missing = min(max(0, count.received + min(max(0, open), room) - count.sent), room)
                room -= missing
                let request = Request(id: nil, session: link.session, type: anyType, serial: 0)
                return Array(repeating: request, count: missing)
            }
        }
    }
}

extension Duration {
    fileprivate var wholeNanoseconds: Duration { .nanoseconds(clampedNanoseconds) }
}

extension Recording.Event {
    package var session: SessionID? {
        integer("session").flatMap { UInt64(exactly: $0) }.flatMap { $0 == 0 ? nil : SessionID($0) }
    }

    package var request: RequestID? { integer("id").map { RequestID(UInt64(bitPattern: $0)) } }

    package func seconds(_ name: String) -> Duration? {
        switch self[name] {
        case .seconds(let seconds)? where (0...1e9).contains(seconds): .seconds(seconds)
        case .integer(let seconds)? where (0...1_000_000_000).contains(seconds): .seconds(seconds)
        default: nil
        }
    }
}

extension Recording.Beginning {
    var members: String {
        var text = ""
        func add(_ name: String, _ elements: [String]) {
            if !elements.isEmpty { text += ",\"\(name)\":[\(elements.joined(separator: ","))]" }
        }
        add("endpoints", endpoints.map { JSONText.quoted($0) })
        add("links", links.map(\.json))
        add("requests", requests.map(\.json))
        return text
    }

    init?(_ object: JSONValue) throws(RecordingMistake) {
        guard object["endpoints"] != nil || object["links"] != nil || object["requests"] != nil else { return nil }
        for endpoint in try object.list("endpoints") {
            guard let text = endpoint.text else {
                throw RecordingMistake("endpoints", isNot: "a list of texts", endpoint)
            }
            endpoints.append(text)
        }
        for link in try object.list("links") { links.append(try Link(link)) }
        for request in try object.list("requests") { requests.append(try Request(request)) }
    }
}

extension Recording.Beginning.Link {
    fileprivate var json: String {
        let age = age == .zero ? "" : ",\"age\":\(age.clampedNanoseconds.asSeconds)"
        return "{\"session\":\(session),\"endpoint\":\(JSONText.quoted(endpoint))\(age)}"
    }

    fileprivate init(_ object: JSONValue) throws(RecordingMistake) {
        session = SessionID(try object.integer("session"))
        endpoint = try object.member("endpoint", "a text") { $0.text } ?? ""
        age = .nanoseconds(try object.nanoseconds("age") ?? 0)
    }
}

extension Recording.Beginning.Request {
    fileprivate var json: String {
        var members: [String] = []
        func add(_ name: String, _ value: some BinaryInteger) {
            if value != 0 { members.append("\"\(name)\":\(value)") }
        }
        add("id", id?.number ?? 0)
        add("session", session?.number ?? 0)
        add("type", type)
        if let name { members.append("\"name\":\(JSONText.quoted(name))") }
        add("serial", serial)
        if let abandonedFor { members.append("\"abandoned\":\(abandonedFor.clampedNanoseconds.asSeconds)") }
        return "{\(members.joined(separator: ","))}"
    }

    fileprivate init(_ object: JSONValue) throws(RecordingMistake) {
        let (id, session): (UInt64, UInt64) = (try object.integer("id"), try object.integer("session"))
        self.id = id == 0 ? nil : RequestID(id)
        self.session = session == 0 ? nil : SessionID(session)
        type = try object.integer("type")
        name = try object.member("name", "a text") { $0.text }
        serial = try object.integer("serial")
        abandonedFor = try object.nanoseconds("abandoned").map { .nanoseconds($0) }
    }
}
