/// When and where a request was on its way, from its call to its end.
///
/// The timeline of a failed request is in ``ClientError/timeline``. To receive the timelines of other calls, pass a
/// ``TimelineRecorder`` in ``CallOptions``, or see ``ClientDiagnostics/slowestRequests``.
public struct Timeline: Sendable, Hashable {
    /// One try of a request: from the call, or from the failure of the try before, to its own failure or the end of the
    /// request.
    ///
    /// All durations are counted from the call, unless they say otherwise.
    public struct Try: Sendable, Hashable {
        fileprivate var accepted: Instant
        /// When the try before failed; for the first try, when the request was made.
        fileprivate(set) var started: Instant
        fileprivate(set) var rested: Instant?
        let admitted: Instant?
        /// In nanoseconds.
        fileprivate(set) var withoutLink: Int64
        let onLink: TryOnLink?
        let firstPartAt: Instant?
        let endedAt: Instant
        /// How long the event loop of the client was late during the try (``LoopDelay``): time that the server is not
        /// to blame for. Usually zero.
        public let loopDelay: Duration

        /// Whether the cluster had left out the server when the try ended: the request was its probe, or the server was
        /// ejected meanwhile. Always false for a client.
        public internal(set) var isServerEjected = false

        /// Why the try failed; `nil` if the request was answered or, for a one-way message, written.
        public let failure: ClientMetrics.Failure?

        /// The link on which the request was; `nil` if it was on none, or if the link ended in the same step of the
        /// event loop in which the request was answered.
        public var link: Link? { onLink?.link }
        /// When the try before this one failed; zero for the first one.
        public var begin: Duration { started.since(accepted) }
        /// When the request was put on its link; `nil` if it was not.
        public var admission: Duration? { admitted?.since(accepted) }
        /// When the request was encoded; `nil` if it was not, or if that is not known.
        public var encoding: Duration? { onLink?.times.encoded?.since(accepted) }
        /// When the kernel accepted the first byte of the request; over TLS, when it was encrypted. `nil` if it was
        /// not, or if that is not known.
        public var firstByteWritten: Duration? { onLink?.times.firstByte?.since(accepted) }
        /// When the kernel accepted the last byte of the request; over TLS, when it was encrypted. `nil` if it was not,
        /// or if that is not known.
        public var lastByteWritten: Duration? { onLink?.times.lastByte?.since(accepted) }
        /// When the first part of a reply in several parts was complete; `nil` if there was none.
        public var firstPart: Duration? { firstPartAt?.since(accepted) }
        /// When the try ended: when its response was complete, or when it failed.
        public var end: Duration { endedAt.since(accepted) }

        /// How long the request rested before this try.
        public var timeInBackOff: Duration { (rested ?? started).since(started) }
        /// How long the request waited for a link.
        public var timeWithoutLink: Duration {
            min(waited, .nanoseconds(withoutLink))
        }
        /// How long the request waited although there was a link: see ``ClientMetrics/Waiting-swift.struct/forTurn``.
        /// It includes the time until the event loop took the call, usually less than 0.1 ms.
        public var timeQueued: Duration { waited - timeWithoutLink }

        private var waited: Duration { max(.zero, (admitted ?? endedAt).since(rested ?? started)) }

        init(
            _ accepted: Instant,
            started: Instant,
            rested: Instant?,
            withoutLink: Int64,
            admitted: Instant?,
            _ onLink: TryOnLink?,
            firstPart: Instant?,
            ended: Instant,
            loopDelay: Duration = .zero,
            _ failure: ClientMetrics.Failure?
        ) {
            self.accepted = accepted
            self.started = started
            self.rested = rested
            self.withoutLink = withoutLink
            self.admitted = admitted
            self.onLink = onLink
            firstPartAt = firstPart
            endedAt = ended
            self.loopDelay = loopDelay
            self.failure = failure
        }
    }

    /// The link of a try.
    public struct Link: Sendable, Hashable {
        /// The server's endpoint.
        public let endpoint: Endpoint
        /// The address of the server: an IP address with its port, or a path. `nil` if the system did not report it.
        public var address: String? { socketAddress?.description }
        /// The IP address of the server without its port, or the path of the Unix domain socket. `nil` if the system
        /// did not report it.
        public var peerAddress: String? { socketAddress?.host }
        let socketAddress: SocketAddress?
        /// The session of the link.
        public let session: SessionID
        /// The state of the link when the try failed; `nil` for a try that succeeded.
        public let condition: Condition?

        init(_ endpoint: Endpoint, _ address: SocketAddress?, session: SessionID, _ condition: Condition?) {
            self.endpoint = endpoint
            socketAddress = address
            self.session = session
            self.condition = condition
        }
    }

    /// The state of a link at one moment.
    public struct Condition: Sendable, Hashable {
        /// The time since the latest frame was received or, before the first frame, since the link was ready.
        public let silence: Duration
        /// Whether the client has sent a ping and received nothing since.
        public let isPingUnanswered: Bool
        /// The number of other requests and messages on the link.
        public let othersInFlight: Int
    }

    /// The number of the request among all requests of the client, in a cluster of the client of the last try; 0 if a
    /// call of a cluster ended before it reached a client.
    public let id: RequestID
    /// The type number of the request; 0 if the protocol has none.
    public let type: UInt32
    /// The name of the request (``NamingCodec``); `nil` if it has none.
    public internal(set) var name: String?
    /// The number of tries.
    public let tryCount: Int
    /// The latest tries, at most nine, in order. The last one ended the request.
    public let tries: [Try]
    /// When the task of the caller continued, counted from the call. `nil` unless the call has a ``TimelineRecorder``
    /// and returns when the request has ended.
    public private(set) var resumption: Duration?

    /// The time from the call to the end of the request.
    public var duration: Duration { tries.last?.end ?? .zero }
    /// Why the request failed; `nil` if it was answered or, for a one-way message, written.
    public var failure: ClientMetrics.Failure? { tries.last?.failure }

    init(id: RequestID, type: UInt32, name: String? = nil, tryCount: Int, tries: [Try]) {
        (self.id, self.type, self.name, self.tryCount, self.tries) = (id, type, name, tryCount, tries)
    }

    package var begun: Instant? { tries.first?.accepted }

    /// The timeline of a cluster's call: these tries follow `earlier` ones. Until a client took the request, it rested
    /// until `rested`, and then no link was ready.
    package func joined(
        to earlier: Timeline?,
        since begun: Instant,
        rested: Instant? = nil,
        isServerEjected: Bool
    ) -> Timeline {
        var later = tries
        // The client notes the time of its turn, which may have begun before the call.
        let begun = min(begun, earlier?.begun ?? self.begun ?? begun)
        for index in later.indices {
            if index == 0 {
                let taken = later[index].started
                let started = min(earlier?.tries.last?.endedAt ?? begun, taken)
                let waits = min(max(started, rested ?? started), taken)
                later[index].withoutLink += taken.since(waits).clampedNanoseconds
                later[index].started = started
                if rested != nil { later[index].rested = later[index].rested ?? waits }
            }
            later[index].accepted = begun
            later[index].isServerEjected = isServerEjected
        }
        var joined = Timeline(
            id: id,
            type: type,
            name: name,
            tryCount: (earlier?.tryCount ?? 0) + tryCount,
            tries: ((earlier?.tries ?? []) + later).suffix(9)
        )
        joined.resumption = resumption.flatMap { duration in
            tries.first.map { duration + $0.accepted.since(begun) }
        }
        return joined
    }

    package static func waited(
        after earlier: Timeline?,
        since begun: Instant,
        until now: Instant,
        _ failure: ClientMetrics.Failure
    ) -> Timeline {
        let started = earlier?.tries.last?.endedAt ?? begun
        let last = Try(
            begun,
            started: started,
            rested: nil,
            withoutLink: now.since(started).clampedNanoseconds,
            admitted: nil,
            nil,
            firstPart: nil,
            ended: now,
            failure
        )
        return Timeline(
            id: earlier?.id ?? RequestID(0),
            type: earlier?.type ?? 0,
            name: earlier?.name,
            tryCount: (earlier?.tryCount ?? 0) + 1,
            tries: ((earlier?.tries ?? []) + [last]).suffix(9)
        )
    }

    mutating func noteResumption(at now: Instant) { resumption = tries.first.map { now.since($0.accepted) } }
}

struct TryOnLink: Sendable, Hashable {
    let link: Timeline.Link
    let times: WriteLog.Times
}

extension Timeline {
    var isWaitForLink: Bool {
        guard tryCount == 1, let last = tries.last, last.link == nil, last.admission == nil else { return false }
        return last.timeWithoutLink * 20 >= duration * 19 && last.loopDelay == .zero
    }
}

extension Timeline: CustomStringConvertible {
    /// The timeline in one line: the duration, what the request waited for, where it was written, and the state of the
    /// link.
    ///
    /// ```
    /// after 8 s: waited 0.2 ms for a link, written on session 4 to 10.0.0.8:7000 after 0.3 ms; no frame completed on
    /// that link for 7.9 s; ping unanswered; 3 other requests in flight
    /// ```
    public var description: String {
        guard let last = tries.last else { return "" }
        let count = tryCount > 1 ? "\(tryCount) tries, the last one " : ""
        let loopDelay = tries.reduce(Duration.zero) { $0 + $1.loopDelay }
        let late = loopDelay > .zero ? "; this process did not run for \(loopDelay.text) of that time" : ""
        return "after \(duration.text): \(count)\(last)\(late)"
    }
}

extension Timeline.Try: CustomStringConvertible {
    /// What the request waited for, where it was written, and the state of the link, in one line.
    public var description: String {
        let waits = [
            (timeInBackOff, "for the end of a back-off"), (timeWithoutLink, "for a link"), (timeQueued, "for its turn"),
        ]
        // A short wait for the turn is only the way to the event loop.
        let waited = waits.filter { $0.0 >= ($0.1 == "for its turn" ? .milliseconds(1) : .microseconds(100)) }.map {
            "\($0.0.text) \($0.1)"
        }
        var phrases = waited.isEmpty ? [] : ["waited " + waited.joined(separator: ", ")]
        guard let link else {
            if admission != nil { phrases.append("on a link that has ended") }
            return phrases.isEmpty ? "not on a link" : phrases.joined(separator: ", ")
        }
        let server = (link.address ?? link.endpoint.description) + (isServerEjected ? " (left out)" : "")
        let place = "on session \(link.session) to \(server)"
        if let lastByteWritten {
            phrases.append("written \(place) after \(lastByteWritten.text)")
        } else if let firstByteWritten {
            phrases.append("partly written \(place), from \(firstByteWritten.text) on")
        } else if failure.map({ $0.fate == .answered }) ?? true {
            phrases.append(place)  // it was written, and the link no longer knows when
        } else {
            phrases.append("not written \(place)")
        }
        if let firstPart { phrases.append("first part after \(firstPart.text)") }
        guard let condition = link.condition else { return phrases.joined(separator: ", ") }
        return phrases.joined(separator: ", ") + "; \(condition)"
    }
}

extension Timeline.Condition: CustomStringConvertible {
    /// The state of the link in one line.
    public var description: String {
        let ping = isPingUnanswered ? "; ping unanswered" : ""
        let others = othersInFlight == 0 ? "no" : "\(othersInFlight)"
        let requests = othersInFlight == 1 ? "request" : "requests"
        return "no frame completed on that link for \(silence.text)\(ping); \(others) other \(requests) in flight"
    }
}
