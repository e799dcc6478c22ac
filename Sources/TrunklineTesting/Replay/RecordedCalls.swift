import TrunklineCore
import TrunklineDiagnostics

/// What a recording tells about each call: when its request was sent, and how it ended.
struct RecordedCalls {
    struct Failure {
        let index: Int
        let time: Duration
        let code: String
        let fate: String
        /// The time of the last response before it, if no request was sent since: the event loop received that response
        /// and ended this call in one turn.
        var turn: Duration?
    }

    /// A request that was sent again has the same frame.
    private(set) var headers: [RequestID: Recording.Header] = [:]
    /// The index of the first entry that tells that the request was sent.
    private(set) var sent: [RequestID: Int] = [:]
    private(set) var failures: [RequestID: Failure] = [:]
    private var retries: [RequestID: (tries: Int, delay: Duration)] = [:]
    private var answers: [RequestID: Duration] = [:]

    /// How late a deadline may have ended a call: the event loop may have been late.
    private static let lateness = Duration.seconds(1)

    /// The most time between two entries of one turn of the event loop.
    private static let longestTurn = Duration.milliseconds(5)

    init(_ recording: Recording) {
        // `turn` is the first response after the latest request that was sent, `last` the entry before.
        var (turn, last): (Duration?, Duration) = (nil, .zero)
        for (index, entry) in recording.entries.enumerated() {
            if entry.time - last > Self.longestTurn { turn = nil }
            last = entry.time
            switch entry.content {
            case .received(let header) where header.kind == .response: turn = turn ?? entry.time
            case .sent(let header) where header.kind == .request:
                turn = nil
                guard let id = header.id else { continue }
                headers[id] = header
                if sent[id] == nil { sent[id] = index }
            case .event(let event): read(event, index, at: entry.time, turn)
            default: break
            }
        }
        for exchange in recording.exchanges.matched {
            guard let id = exchange.request.id, let last = exchange.lastReply, last.header.kind == .response else {
                continue
            }
            answers[id] = last.time
        }
    }

    private mutating func read(_ event: Recording.Event, _ index: Int, at time: Duration, _ turn: Duration?) {
        guard let id = event.request else { return }
        switch event.name {
        case "request.failed", "request.cancelled":
            failures[id] = Failure(
                index: index,
                time: time,
                code: event.text("code") ?? "",
                fate: event.text("fate") ?? "",
                turn: turn
            )
        case "request.retrying":
            let tries = event.integer("try").map { Int(clamping: $0) } ?? 2
            retries[id] = (max(2, min(tries, 1000)), retries[id]?.delay ?? event.seconds("delay") ?? .zero)
        default: break
        }
    }

    func call(_ call: Recording.Call) -> ReplayScript.Call {
        let failure = failures[call.id]
        return ReplayScript.Call(
            id: call.id,
            type: call.type,
            bodyCount: call.bodyCount,
            header: headers[call.id],
            timeout: call.timeout,
            isOneWay: call.isOneWay,
            retries: retries[call.id],
            isCancelled: failure?.code == "cancelled"
        )
    }

    func call(_ request: Recording.Beginning.Request) -> ReplayScript.Call {
        let failure = request.id.flatMap { failures[$0] }
        return ReplayScript.Call(
            id: request.id,
            type: request.type,
            header: request.session == nil ? request.id.flatMap { headers[$0] } : nil,
            timeout: failure?.code == "timedOut" ? failure?.time : nil,
            retries: request.id.flatMap { retries[$0] },
            abandonedFor: request.abandonedFor,
            isCancelled: failure?.code == "cancelled"
        )
    }

    /// The event loop notices deadlines late: a response may have come after one, and a serial may have been free.
    func timeout(of call: Recording.Call, at time: Duration) -> Duration? {
        guard let timeout = call.timeout else { return nil }
        let deadline = time + timeout
        if let failure = failures[call.id] {
            guard failure.code == "timedOut", deadline <= failure.time, failure.time - deadline < Self.lateness else {
                return timeout
            }
            // The request may have been sent after the deadline.
            if failure.fate != "notSent" { return failure.time - time }
            guard let turn = failure.turn, time < turn else { return timeout }
            return min(timeout, turn - time - .microseconds(100))
        }
        guard let answer = answers[call.id], deadline <= answer, answer - deadline < Self.lateness else {
            return timeout
        }
        return answer - time + .milliseconds(1)
    }
}

extension RecordedCalls.Failure {
    var isCancelledUnsent: Bool { code == "cancelled" && fate == "notSent" }
}

struct RecordedHandshakes {
    /// Sessions in whose handshakes something was said that the recording does not have.
    private var cut: Set<SessionID> = []

    init(_ recording: Recording) {
        var ready = Set(recording.beginning.links.map(\.session))
        for entry in recording.entries {
            switch entry.content {
            case .received(let header) where !ready.contains(header.session):
                if !header.isWhole { cut.insert(header.session) }
            case .event(let event):
                guard let session = event.session else { continue }
                if event.name == "connection.ready" { ready.insert(session) }
                // The handshake has begun TLS, which a replay does not have.
                if event.name == "link.ready", event["tls"] != nil, event.text("endpoint")?.hasPrefix("tls://") == false
                {
                    cut.insert(session)
                }
            default: break
            }
        }
    }

    func isWhole(_ session: SessionID) -> Bool { !cut.contains(session) }
}

extension Recording.Header {
    fileprivate var isWhole: Bool {
        let hasFields = fields.allSatisfy { field in
            if case .size(let size) = field.value { size == 0 } else { true }
        }
        return !isMalformed && !isCut && hasFields && bodyCount == body?.count ?? 0
    }
}
