/// A frame that a caller adds to a request that is under way: see `ReplyStream.post(_:isPart:)`.
struct FollowUp: Sendable {
    /// Names it among everything that was ever put into the outbound queue. Requests have lower ones.
    let ticket: RequestID
    /// The request that it belongs to.
    let request: RequestID
    var frame: Frame
    /// Who waits until it is written; `nil` when nobody does any more.
    var suspension: Suspension<ClientError?>?
    /// Whether it is the last piece of the request.
    var endsRequest = false
    /// Its link was lost before a byte of it was written.
    var isDropped = false

    /// Tickets from here on are those of follow-ups.
    static let firstTicket: RequestID = 1 << 63

    /// Tells who waits that it failed. What was not written is `notSent`, whatever `error` says.
    func fail(_ error: ClientError, isSent: Bool) {
        suspension?.resume(returning: error.withFate(isSent ? .unknown : .notSent))
    }
}

/// The follow-ups of one client, from their submission to their end.
///
///     held ──(the request has started, and there is room)──► queued ──(the last byte is written)──► gone
///
/// A queued one is in the outbound queue of the very link on which its request has started, and belongs to it. So none can
/// go out on another link; and who ends a request takes its follow-ups out first, so that none goes out after the reply or
/// the cancel frame, when its serial may be another's.
struct FollowUps: Sendable {
    /// What is to be known of a request that was begun in pieces or has follow-ups.
    struct Target: Sendable {
        /// For the cancel frame.
        let type: UInt32
        /// Whether the server waits for more pieces of it.
        var isIncomplete: Bool
        /// A follow-up was handed to its link: it cannot be sent again.
        var isContinued = false
    }

    private(set) var targets: [RequestID: Target] = [:]
    /// In the order in which they were submitted.
    var held: [FollowUp] = []
    private(set) var queued: [RequestID: FollowUp] = [:]
    // MARK: Requests

    /// Whether there is any request to be ended here. Asked for every response.
    var hasTargets: Bool { !targets.isEmpty }

    /// A request goes out whose first frame is a piece of it.
    mutating func begin(_ request: RequestID, type: UInt32) {
        targets[request] = Target(type: type, isIncomplete: true)
    }

    /// Ends a request; returns what is left of it, in order, and which of them wait in the client.
    mutating func end(_ request: RequestID) -> (target: Target, held: [FollowUp], queued: [FollowUp])? {
        guard let target = targets.removeValue(forKey: request) else { return nil }
        let mine = held.filter { $0.request == request }
        if !mine.isEmpty { held.removeAll { $0.request == request } }
        // In order: that of a dictionary differs from process to process.
        let out = queued.values.filter { $0.request == request }.sorted { $0.ticket < $1.ticket }
        for followUp in out { queued[followUp.ticket] = nil }
        if targets.isEmpty, targets.capacity > 1024 { (targets, queued) = ([:], queued.isEmpty ? [:] : queued) }
        if held.isEmpty, held.capacity > 1024 { held = [] }
        return (target, mine, out)
    }

    /// Ends everything.
    mutating func removeAll() -> (held: [FollowUp], queued: [FollowUp]) {
        let all = (held, queued.values.sorted { $0.ticket < $1.ticket })
        self = FollowUps()
        return all
    }

    // MARK: One of them

    /// Takes one in, of a request of `type` that is under way.
    mutating func hold(_ followUp: FollowUp, requestType type: UInt32) {
        if targets[followUp.request] == nil { targets[followUp.request] = Target(type: type, isIncomplete: false) }
        held.append(followUp)
    }

    /// The held one at `index` goes out.
    mutating func release(at index: Int) -> (frame: Frame, id: RequestID) {
        var part = held.remove(at: index)
        let frame = part.frame
        targets[part.request]?.isContinued = true
        part.frame.body = Bytes()  // the outbound queue has it
        queued[part.ticket] = part
        return (frame, part.ticket)
    }

    mutating func takeHeld(_ ticket: RequestID) -> FollowUp? {
        held.firstIndex { $0.ticket == ticket }.map { held.remove(at: $0) }
    }

    mutating func takeQueued(_ ticket: RequestID) -> FollowUp? { queued.removeValue(forKey: ticket) }

    /// Nobody waits any more for one that is half written.
    mutating func takeSuspension(of ticket: RequestID) -> Suspension<ClientError?>? {
        queued[ticket]?.suspension.take()
    }

    /// The last byte of one is with the kernel.
    mutating func written(_ ticket: RequestID) {
        guard let followUp = queued.removeValue(forKey: ticket) else { return }
        if followUp.endsRequest { targets[followUp.request]?.isIncomplete = false }
        followUp.suspension?.resume(returning: nil)
    }

    /// These were lost with their link before a byte of them was written.
    mutating func noteDropped(_ tickets: [RequestID]) {
        for ticket in tickets { queued[ticket]?.isDropped = true }
    }
}
