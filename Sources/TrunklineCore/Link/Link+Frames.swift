/// The properties of a protocol and of a client's options that a link needs to handle requests and frames. An
/// object, because copying its fields for each batch takes 250 instructions.
final class LinkRules: Sendable {
    let codec: ProtocolCodec
    let checksResponses: Bool
    let keepsRequests: Bool
    let isInOrder: Bool
    let isByChannel: Bool
    let looksAlike: Bool
    /// There is no client: every frame is handed over as it is, except heartbeats that the link has handled.
    let deliversAll: Bool
    let highWatermark: Int
    let lowWatermark: Int
    let reassemblyBudget: ReassemblyBudget
    let stepObservation: Observation?
    let keepsLateResponses: Bool

    init(_ codec: ProtocolCodec, _ options: ClientOptions, _ observation: Observation?, deliversAll: Bool) {
        self.codec = codec
        self.deliversAll = deliversAll
        stepObservation = observation?.wantsSteps == true ? observation : nil
        keepsLateResponses = options.requests.lateResponse != nil
        checksResponses = codec.checksResponses
        keepsRequests =
            checksResponses || options.requests.cancelling != nil || codec.numbering.extraBits > 0
        isInOrder = codec.matching.isInOrder
        isByChannel = codec.matching == .inOrderByChannel
        looksAlike = codec.pongsLookLikePings
        highWatermark = max(1, options.outbound.highWatermark)
        lowWatermark = max(1, min(options.outbound.lowWatermark, highWatermark))  // no count is below zero
        reassemblyBudget = ReassemblyBudget(options.requests)
    }
}

extension Link.State {
    /// Moves requests of `queue` to the link, in order, as far as they may go now. Returns their number.
    mutating func admit(
        from queue: inout RequestQueue,
        _ parts: inout RequestParts,
        atMost most: Int,
        at now: Instant,
        by rules: LinkRules,
        telling observation: Observation?,
        into events: inout [ConnectionEvent]
    ) -> Int {
        var count = 0
        while count < most, queue.hasWaiting, isBelowWatermark(rules), !machine.isHeld {
            if machine.requests.isExhausted, queue.firstExpectsResponse() != false { break }
            let next = rules.isByChannel ? popByChannel(from: &queue) : queue.popFirst()
            guard let request = next else { break }
            let (id, expectsResponse, reports) = (request.id, request.expectsResponse, request.reports)
            let place = admit(
                id,
                request.contents(),
                expectsResponse: expectsResponse,
                reports: reports,
                by: rules,
                into: &events
            )
            queue.went(id, to: place, on: machine.session)
            if parts.awaitsLink(id) { parts.noteOnLink(id) }
            observation?.add(.requestAdmitted(id: id, session: machine.session), at: now)
            count += 1
        }
        return count
    }

    /// Only the watermark holds answers back: the server may wait for one before it answers the requests in flight.
    mutating func admitAnswers(
        from queue: inout RequestQueue,
        at now: Instant,
        by rules: LinkRules,
        into events: inout [ConnectionEvent]
    ) -> Bool {
        var hasAdmitted = false
        while isBelowWatermark(rules), let answer = queue.popAnswer() {
            let (id, reports) = (answer.id, answer.reports)
            let place = admit(
                id,
                answer.contents(),
                expectsResponse: false,
                reports: reports,
                by: rules,
                into: &events
            )
            queue.went(id, to: place, on: machine.session)
            rules.stepObservation?.add(.requestAdmitted(id: id, session: machine.session), at: now)
            hasAdmitted = true
        }
        return hasAdmitted
    }

    private mutating func popByChannel(from queue: inout RequestQueue) -> QueuedRequest? {
        queue.beginParking(on: machine.session)
        while let channel = machine.requests.freedChannel {
            let next = queue.popParked(channel) {
                machine.requests.takesMore(onChannel: channel, expectsResponse: $0.expectsResponse)
            }
            if let next { return next }
            if queue.hasParked(channel) { machine.noteAwaited(channel) }
            machine.dropFreed()
        }
        var awaited: Set<UInt64> = []
        defer { for channel in awaited { machine.noteAwaited(channel) } }
        return queue.popFirst {
            codec.channel(of: $0)
        } mayGo: { channel, request in
            if machine.requests.takesMore(onChannel: channel, expectsResponse: request.expectsResponse) { return true }
            awaited.insert(channel)
            return false
        }
    }

    mutating func admit(
        _ requests: [Request],
        first: RequestID,
        atMost room: Int,
        expectsResponse: Bool,
        _ queue: inout RequestQueue,
        by rules: LinkRules
    ) -> Int {
        let most = min(room, requests.count)
        var events: [ConnectionEvent] = []  // stays empty: nothing is reported
        for index in 0..<most {
            guard takesAny(rules) else { return index }
            let id = first.advanced(by: index)
            let place = admit(
                id,
                requests[index].frame,
                expectsResponse: expectsResponse,
                reports: .none,
                by: rules,
                into: &events
            )
            queue.went(id, to: place, on: machine.session)
        }
        return most
    }

    mutating func takesMore(_ rules: LinkRules) -> Bool {
        isBelowWatermark(rules) && !machine.isHeld && !machine.requests.isExhausted
    }

    mutating func takesAny(_ rules: LinkRules) -> Bool { !rules.isByChannel && takesMore(rules) }

    @inline(__always)
    mutating func admit(
        _ id: RequestID,
        _ frame: consuming Frame,
        expectsResponse: Bool,
        reports: QueuedRequest.Progress,
        by rules: LinkRules,
        into events: inout [ConnectionEvent]
    ) -> PlaceOnLink {
        // In order, nothing may come between the pieces of a request.
        let holdsOthers =
            expectsResponse
            && (codec.isPipelining && !codec.mayPipeline(behind: frame) || rules.isInOrder && frame.kind == .part)
        let place = machine.send(
            id,
            frame,
            keepsRequest: rules.keepsRequests,
            expectsResponse: expectsResponse,
            reportsWritten: reports == .admissionAndWrite,
            holdsOthers: holdsOthers,
            channel: rules.isByChannel ? codec.channel(of: frame) : nil
        )
        guard let place else { preconditionFailure("no serial number is free for an admitted request") }
        if reports != .none {
            let serial: SerialNumber = if case .response(let number) = place, !rules.isInOrder { number } else { 0 }
            events.append(.admitted(id, serial: serial))
        }
        return place
    }

    mutating func sendCancelFrame(for serial: SerialNumber, type: UInt32, now: Instant) -> Bool {
        guard let frame = codec.cancelFrame(for: serial, type: type) else { return false }
        machine.send(cancelFrame: frame, for: serial, codec.cancelKind(ofType: type), now: now)
        return true
    }

    mutating func releasePart(of parts: inout RequestParts) -> Bool {
        let next = parts.releaseNext(on: machine.session, before: machine.outbound.firstUnstarted) { entry in
            machine.requests[entry.serial]?.id == entry.request
        }
        guard let next else { return false }
        let position = machine.send(part: next.part.frame, id: next.part.id, of: next.serial)
        parts.noteQueued(next.part.id, at: position, on: machine.session)
        return true
    }

    mutating func isBelowWatermark(_ rules: LinkRules) -> Bool {
        let byteCount = machine.outbound.byteCount
        if byteCount < rules.lowWatermark { isAboveWatermark = false }
        if byteCount >= rules.highWatermark { isAboveWatermark = true }
        return !isAboveWatermark
    }
}

extension Link {
    /// The copies of parts for several requests that are made in one turn, before other frames are left for the next. A
    /// server needs few bytes for such a part, and each copy costs as much as a part for one request. An abandoned
    /// request counts, because the part visits it.
    static let copiesInTurn = 4096
    /// If nothing may be left because the link ends: after this many copies the requests that further parts name fail,
    /// and after twice as many all requests on the link.
    static let maximumCopies = 1 << 18

    /// The frames by which the server ends the link.
    final class LastFrames {
        let first: Frame
        /// The one that ends the link at once.
        fileprivate(set) var final: Frame?

        init(_ frame: Frame) { first = frame }
    }

    struct Taken {
        fileprivate let now: Instant
        fileprivate var events: [ConnectionEvent] = []
        fileprivate var pushes: [Frame] = []
        /// The responses and parts for known requests, abandoned ones included.
        var answers = 0
        /// The responses among them whose requests were not abandoned.
        var responses = 0
        /// An object, so that batches without one have no room for it.
        fileprivate(set) var lastFrames: LastFrames?
        fileprivate(set) var dropped: Link.Dropped?
        /// Matched in order, the responses have shifted; or a frame names too many ranges of serials.
        var violation: FrameError? { didSet { isOver = true } }
        fileprivate var isOver = false
        var copies = 0
        var mayLeaveRest = false
        /// The first frame that is left for the next turn, because very many copies were made in this one.
        fileprivate(set) var rest: Int?
        var hasToWrite = false
        var hasPong = false

        init(at now: Instant) { self.now = now }

        fileprivate mutating func noteEnding(_ frame: Frame) {
            let frames = lastFrames ?? LastFrames(frame)
            if frames.final == nil, frame.linkEnding == .now { frames.final = frame }
            lastFrames = frames
        }

        @inline(__always)
        fileprivate mutating func endPushes() {
            if !pushes.isEmpty { events.append(.pushes(exchange(&pushes, with: []))) }
        }
    }
}

extension Link.State {
    /// Stops at a violation of the protocol, or at the frames that are left for the next turn.
    mutating func take(
        _ frames: inout [Frame],
        _ taken: inout Link.Taken,
        isDraining: Bool,
        by rules: LinkRules,
        into events: inout [ConnectionEvent]
    ) {
        taken.events = exchange(&events, with: [])
        for index in frames.indices where !taken.isOver {
            // The usual cases. The frame is moved: each copy of a frame costs two retains.
            if frames[index].kind == .push {
                if frames[index].linkEnding != nil { taken.noteEnding(frames[index]) }
                var push = exchange(&frames[index], with: Frame(.pong))
                push.session = machine.session
                taken.pushes.append(push)
                continue
            }
            taken.endPushes()
            if frames[index].kind == .response, frames[index].linkEnding == nil, !frames[index].hasMarks,
                !examinesResponses
            {
                answer(exchange(&frames[index], with: Frame(.pong)), rules, &taken)
                continue
            }
            if frames[index].kind == .part, frames[index].linkEnding == nil, !frames[index].hasMarks,
                !examinesResponses
            {
                takePart(exchange(&frames[index], with: Frame(.pong)), rules, &taken)
                continue
            }
            let frame = frames[index]
            if frame.isFarewell { taken.noteEnding(frame) }
            switch frame.kind {
            case .response:
                if examinesResponses, refuse(frame, rules, &taken) { continue }
                if frame.answers == .one { answer(frame, rules, &taken) } else { answerAll(frame, rules, &taken) }
            case .part:
                if examinesResponses, refuse(frame, rules, &taken) { continue }
                guard frame.answers != .one else {
                    takePart(frame, rules, &taken)
                    continue
                }
                takeSharedPart(frame, rules, &taken)
                // The server has said that the frames which follow are its last.
                let mayLeaveRest = taken.mayLeaveRest && taken.lastFrames?.final == nil
                if mayLeaveRest, taken.copies >= Link.copiesInTurn, index + 1 < frames.count {
                    (taken.rest, taken.isOver) = (index + 1, true)
                }
            case .ping, .pong: take(heartbeat: frame, &taken, isDraining, rules)
            case .goAway: break  // noted above
            case .ignored: break
            case .push: break  // handled above
            // In order, answers that are ready in another order would go to the wrong requests of the server.
            case .request where rules.isInOrder, .cancel where rules.isInOrder: taken.events.append(.unexpected)
            case .request:
                var request = frame
                request.session = machine.session
                taken.events.append(.requested(request))
            case .cancel:
                taken.events.append(.requestCancelled(frame.cancelledSerial ?? frame.serial, machine.session))
            }
        }
        taken.endPushes()
        if let rest = taken.rest {
            takeHeartbeats(among: &frames, from: rest, &taken, isDraining: isDraining, by: rules)
        }
        noteEnds()
        events = exchange(&taken.events, with: [])
    }

    /// Also removes the heartbeats: the owner may be paused then, and a server may wait for the answer to a ping.
    private mutating func takeHeartbeats(
        among frames: inout [Frame],
        from rest: Int,
        _ taken: inout Link.Taken,
        isDraining: Bool,
        by rules: LinkRules
    ) {
        func isHeartbeat(_ frame: Frame) -> Bool {
            (frame.kind == .ping || frame.kind == .pong) && frame.linkEnding == nil
        }
        guard frames[rest...].contains(where: isHeartbeat) else { return }
        for frame in frames[rest...] where isHeartbeat(frame) { take(heartbeat: frame, &taken, isDraining, rules) }
        let others = frames[rest...].filter { !isHeartbeat($0) }
        frames.replaceSubrange(rest..., with: others)
        if others.isEmpty { taken.rest = nil }
    }

    private mutating func take(
        heartbeat frame: Frame,
        _ taken: inout Link.Taken,
        _ isDraining: Bool,
        _ rules: LinkRules
    ) {
        // A draining link sends no pings, so its pongs mean nothing.
        if isDraining, frame.kind == .pong { return }
        let (meaning, hasToWrite) = takeHeartbeat(frame, rules, at: taken.now)
        if hasToWrite { taken.hasToWrite = true }
        if meaning == .answer { taken.hasPong = true }
    }

    private mutating func answerAll(_ frame: Frame, _ rules: LinkRules, _ taken: inout Link.Taken) {
        if refuseRanges(of: frame, &taken) { return }
        let answered = machine.answerAll(with: frame, key(of: frame, rules))
        taken.answers += answered.requests.count + answered.late.count
        taken.responses += answered.requests.count
        for late in answered.late { noteLate(late.id, type: late.type, frame, rules, &taken) }
        if !answered.requests.isEmpty { taken.events.append(.answeredAll(answered.requests, frame)) }
        if answered.hasCancelFrame { taken.events.append(.room) }
        // A server may say that everything has failed when nothing is in flight.
        if answered.isEmpty, frame.answers != .all {
            noteUnknown(frame, rules, &taken)
        }
    }

    private func refuseRanges(of frame: Frame, _ taken: inout Link.Taken) -> Bool {
        guard let count = frame.excessiveRanges else { return false }
        let limit = Frame.Answers.maximumRanges
        let error = FrameError(
            exceedingLimit: "a \(frame.kind) names \(count) ranges of serials: at most \(limit) (Answers.maximumRanges)"
        )
        if dropsMismatches { Link.Dropped.note(error, in: &taken.dropped) } else { taken.violation = error }
        return true
    }

    @inline(__always)
    private mutating func answer(_ frame: consuming Frame, _ rules: LinkRules, _ taken: inout Link.Taken) {
        switch machine.answer(key(of: frame, rules)) {
        case .request(let id, let position):
            taken.answers += 1
            taken.responses += 1
            taken.events.append(.answered(id, frame, position))
        case .late(let id, let type):
            taken.answers += 1
            noteLate(id, type: type, frame, rules, &taken)
        case .again(let id):
            taken.answers += 1
            taken.events.append(.late(id, isPart: false))
        case .cancelFrame:
            taken.answers += 1
            // Serials, and a place, are free.
            taken.events.append(.room)
        case .unknown:
            noteUnknown(frame, rules, &taken)
        }
    }

    private mutating func noteLate(
        _ id: RequestID,
        type: UInt32,
        _ frame: Frame,
        _ rules: LinkRules,
        _ taken: inout Link.Taken
    ) {
        taken.events.append(.late(id, isPart: false))
        guard rules.keepsLateResponses else { return }
        let response = LateResponse(
            id: id,
            requestType: type,
            response: Response(frame),
            session: machine.session,
            endpoint: endpoint
        )
        taken.events.append(.lateResponse(response))
    }

    mutating func expectedID(for frame: Frame, _ rules: LinkRules, at now: Instant) -> RequestID? {
        machine.expectedID(for: key(of: frame, rules), at: now)
    }

    mutating func isExpected(part: Frame, _ rules: LinkRules, at now: Instant) -> Bool {
        guard part.answers != .one else { return expectedID(for: part, rules, at: now) != nil }
        return part.excessiveRanges != nil || !machine.matchAll(part, key(of: part, rules), at: now).requests.isEmpty
    }

    @inline(__always)
    mutating func key(of frame: borrowing Frame, _ rules: LinkRules) -> SerialNumber {
        rules.isByChannel ? codec.channel(of: copy frame) : frame.serial
    }

    private mutating func takePart(_ frame: consuming Frame, _ rules: LinkRules, _ taken: inout Link.Taken) {
        switch machine.match(key(of: frame, rules), at: taken.now) {
        case .request(let entry, let number):
            taken.answers += 1
            if mayTake(frame, entry, number, &taken) { taken.events.append(.part(entry.id, frame)) }
        case .late(let id): taken.events.append(.late(id, isPart: true))
        case .unknown:
            noteUnknown(frame, rules, &taken)
        }
    }

    private mutating func takeSharedPart(_ frame: Frame, _ rules: LinkRules, _ taken: inout Link.Taken) {
        if refuseRanges(of: frame, &taken) { return }
        let named = machine.matchAll(frame, key(of: frame, rules), at: taken.now)
        // A server may tell everyone something when nothing is in flight.
        if named.isEmpty, frame.answers != .all { noteUnknown(frame, rules, &taken) }
        taken.answers += named.requests.count
        let earlier = taken.copies
        taken.copies += named.visitedCount
        if earlier >= Link.maximumCopies {
            let cause = FrameError(
                exceedingLimit: "parts for several requests have reached \(Link.maximumCopies) requests at a time"
            )
            for request in named.requests { fail(request.entry, request.number, Self.tooManyParts, cause, &taken) }
            // The requests that have failed are abandoned, so each further part would visit them all.
            if earlier >= 2 * Link.maximumCopies { taken.violation = cause }
            return
        }
        var requests: [InFlightTable.AnsweredRequests.Request] = []
        for request in named.requests where mayTake(frame, request.entry, request.number, &taken) {
            requests.append(
                InFlightTable.AnsweredRequests.Request(
                    id: request.entry.id,
                    position: request.entry.position,
                    serial: rules.isInOrder ? 0 : request.number
                )
            )
        }
        if !requests.isEmpty { taken.events.append(.sharedPart(requests, frame)) }
    }

    private static let tooManyParts = "too many parts for several requests were left when the link ended"

    /// Otherwise the request fails.
    private mutating func mayTake(
        _ frame: borrowing Frame,
        _ request: InFlightTable.Entry,
        _ number: SerialNumber,
        _ taken: inout Link.Taken
    ) -> Bool {
        if let malformedReason = frame.malformedReason {
            let cause = FrameError.malformed(copy frame, malformedReason)
            fail(request, number, "a frame of the reply is malformed", cause, &taken)
            return false
        }
        if machine.requests.isRepeated(number) {
            let cause = FrameError(.malformed, "a reply in parts to a request that was sent more than once")
            fail(request, number, "the parts may belong to two replies", cause, &taken)
            return false
        }
        return true
    }

    /// Why the frame cannot be from the server, whatever it answers; `nil` if it can be.
    private func forgery(_ frame: Frame) -> FrameError? {
        // Ranges of serials, and serials outside the range of the protocol, have no bits beyond 64.
        let namesOne = frame.answers == .one || frame.answers == .through
        if namesOne, machine.requests.range.contains(frame.serial), !machine.serialExtension.matches(frame) {
            return FrameError(.unrelatedResponse, "only the low 64 bits of its serial number are those of a request")
        }
        return dropsMismatches ? frame.malformedReason.map { .malformed(frame, $0) } : nil
    }

    private mutating func mismatch(of frame: Frame, with number: SerialNumber) -> FrameError? {
        guard let request = machine.requests.kept(number) else { return nil }
        do throws(FrameError) {
            // The link's own codec knows the defaults set by the handshake.
            try codec.check(frame, against: request)
            return nil
        } catch {
            return error
        }
    }

    /// A frame that cannot be from the server neither ends a request nor frees the serial of an abandoned one. A
    /// response that does not fit its request fails it; in order, where responses have shifted, the link ends. A
    /// datagram is dropped instead: it may be a copy or a forgery, and the right one may still come.
    private mutating func refuse(_ frame: Frame, _ rules: LinkRules, _ taken: inout Link.Taken) -> Bool {
        if let forgery = forgery(frame) {
            if dropsMismatches {
                Link.Dropped.note(forgery, in: &taken.dropped)
            } else {
                noteUnknown(frame, rules, &taken)
            }
            return true
        }
        guard rules.checksResponses, frame.answers == .one, frame.malformedReason == nil,
            case .request(let entry, let number) = machine.match(key(of: frame, rules), at: taken.now),
            let mismatch = mismatch(of: frame, with: number)
        else { return false }
        if dropsMismatches {
            Link.Dropped.note(mismatch, in: &taken.dropped)
        } else if mismatch.code == .unrelatedResponse {
            noteUnknown(frame, rules, &taken)
        } else if rules.isInOrder {
            taken.violation = mismatch
        } else {
            // It may belong to another request, and the right one may still come: the serial is quarantined.
            fail(entry, number, "the response does not belong to the request", mismatch, &taken)
        }
        return true
    }

    private func noteUnknown(_ frame: Frame, _ rules: LinkRules, _ taken: inout Link.Taken) {
        let namesNoRequest =
            !rules.isInOrder && frame.answers == .one && !machine.requests.range.contains(frame.serial)
        taken.events.append(
            .unknownResponse(
                frame.serial,
                type: frame.type,
                machine.session,
                frame.reason,
                namesNoRequest: namesNoRequest
            )
        )
    }

    private mutating func fail(
        _ request: InFlightTable.Entry,
        _ number: SerialNumber,
        _ message: String,
        _ cause: FrameError,
        _ taken: inout Link.Taken
    ) {
        let onLink = tryOnLink(at: request.position, now: taken.now, hasFailed: true)
        let cancellation = machine.cancel(request.id, at: .response(number), isTimeout: false, now: taken.now)
        guard case .awaited(let serial, let type) = cancellation else { return }
        _ = sendCancelFrame(for: serial, type: type, now: taken.now)
        taken.hasToWrite = true
        let code: ClientError.Code = cause.exceedsLimit ? .overloaded : .protocolViolation
        let error = ClientError(code, .unknown, message, endpoint: endpoint, cause: cause)
        taken.events.append(.failed(request.id, error, onLink))
    }

    mutating func takeHeartbeat(
        _ frame: Frame,
        _ rules: LinkRules,
        at now: Instant
    ) -> (meaning: Liveness.Meaning, hasToWrite: Bool) {
        let meaning = machine.heartbeat(frame, pongsLookLikePings: rules.looksAlike, at: now)
        guard meaning == .question, let pong = codec.pong(answering: frame) else { return (meaning, false) }
        return (meaning, machine.answerPing(with: pong))
    }
}

extension Frame {
    fileprivate var excessiveRanges: Int? {
        guard case .serials(let ranges) = answers, ranges.count > Answers.maximumRanges else { return nil }
        return ranges.count
    }
}
