/// Who waits for what on one client: the only place that knows, and removal is the only way out.
///
/// Every request is registered once, under its ticket, and leaves by exactly one of `answer`, `cancel`, `linkLost`,
/// `take` or `removeAll`, each of which hands its waiter out. A waiter that has left can't be found again, so it can't
/// be resumed twice, and a late or repeated response is an ordinary case.
///
///     registered ──admit──► admitted ──(its first byte is written)──► started ──answer──► gone
///         └─────────────────────┴──── cancel: not sent ─── cancel: quarantine ┘
@usableFromInline
package struct RequestTable<Waiter> {
    /// A request that has not left.
    @usableFromInline
    package struct Entry {
        @usableFromInline
        package var waiter: Waiter
        /// The protocol's type number, for the cancel frame.
        @usableFromInline
        package var type: UInt32
        /// Given when the request is admitted; 0 before, and for one-way messages and in-order protocols.
        @usableFromInline
        package var serial: SerialNumber = 0
        /// Where its frame is in the outbound order; 0 before it is admitted.
        @usableFromInline
        package var position: OutboundPosition = 0
        /// Whether a response is to come; false for a one-way message, which waits to be written only.
        @usableFromInline
        package var expectsResponse: Bool

        @inlinable
        init(waiter: Waiter, type: UInt32, expectsResponse: Bool) {
            self.waiter = waiter
            self.type = type
            self.expectsResponse = expectsResponse
        }
    }

    @usableFromInline var entries = SequentialMap<Entry>()
    @usableFromInline var deadlines = DeadlineQueue()
    /// Serial matching: who holds which serial, on the present link and among those that wait for the next one. `nil` for
    /// in-order protocols.
    @usableFromInline var serials: SerialAllocator?
    /// In-order matching: whose response comes next.
    @usableFromInline var order = ResponseOrder()
    /// In-order matching: where the latest request is that nothing may follow before it is answered; 0 for none yet.
    @usableFromInline var heldBehind: OutboundPosition = 0
    @usableFromInline let quarantine: Duration
    /// Requests at positions before this one, if it is not 0, went out on links that take no new ones any more.
    @usableFromInline package internal(set) var retiredEnd: OutboundPosition = 0
    /// Those links, in the order in which they were left. Their positions ascend and do not overlap.
    @usableFromInline var retired: [RetiredLink] = []

    /// What is due on a link that takes no new requests any more.
    @usableFromInline
    struct RetiredLink: Sendable {
        let session: UInt64
        /// The requests that have started on it are at some of these.
        let positions: Range<OutboundPosition>
        var serials: SerialAllocator?
        var order: ResponseOrder
        /// How many of those requests have not left.
        var count: Int

        var abandonedCount: Int { serials?.quarantinedCount ?? order.abandonedCount }
    }

    @usableFromInline
    package init(matching: ResponseMatching, quarantine: Duration, firstSerial: SerialNumber? = nil) {
        if case .serial(let range) = matching { serials = SerialAllocator(range, first: firstSerial) }
        self.quarantine = quarantine
    }

    /// How many requests have not left.
    @inlinable
    package var count: Int { entries.count }

    @inlinable
    package var isEmpty: Bool { entries.isEmpty }

    /// How many serials are held: by requests, or by quarantine.
    @usableFromInline
    package var heldSerials: Int {
        (serials?.takenCount ?? 0) + retired.reduce(0) { $0 + ($1.serials?.takenCount ?? 0) }
    }

    /// How many requests that had started on the present link were given up while the server may still work on them: it has
    /// not answered, and their quarantine is not over.
    @inlinable
    package var abandonedCount: Int { serials?.quarantinedCount ?? order.abandonedCount }

    /// The same for links that take no new requests.
    @inlinable
    package var retiredAbandonedCount: Int { retired.isEmpty ? 0 : countRetiredAbandoned() }

    @usableFromInline
    func countRetiredAbandoned() -> Int { retired.reduce(0) { $0 + $1.abandonedCount } }

    /// Every serial of the present link is held: how many there are, and how many of them by requests that were given up.
    package var exhaustion: (count: Int, abandoned: Int)? {
        guard let serials, serials.isExhausted else { return nil }
        return (serials.takenCount, serials.quarantinedCount)
    }

    /// Everyone who has not left, in order.
    @usableFromInline
    package var tickets: [Ticket] { entries.sorted.map(\.key) }

    @inlinable
    package subscript(ticket: Ticket) -> Entry? { entries[ticket] }

    /// Whether any request has not started on a link: it waits its turn, or its frame is at `unstarted` or after. Looks
    /// through all of them.
    package func hasUnstarted(from unstarted: OutboundPosition) -> Bool {
        entries.hasValue { $0.position == 0 || $0.position >= unstarted }
    }

    /// Whether any request whose frame is at one of `positions` waits for its response. Looks through all of them.
    package func hasUnanswered(at positions: Range<OutboundPosition>) -> Bool {
        entries.hasValue { $0.expectsResponse && positions.contains($0.position) }
    }

    // MARK: In

    /// Takes a request in, to be admitted later. `ticket` must be new.
    @inlinable
    package mutating func register(
        _ ticket: Ticket,
        waiter: Waiter,
        type: UInt32,
        expectsResponse: Bool,
        deadline: Instant?
    ) {
        entries.insert(Entry(waiter: waiter, type: type, expectsResponse: expectsResponse), for: ticket)
        watch(ticket, deadline)
    }

    /// Takes a request in and lets it go out at `position` at once. Returns its serial; `nil`, and it is not taken in,
    /// when every serial is held.
    @inlinable
    package mutating func registerAdmitted(
        _ ticket: Ticket,
        waiter: Waiter,
        type: UInt32,
        expectsResponse: Bool,
        deadline: Instant?,
        at position: OutboundPosition
    ) -> SerialNumber? {
        var entry = Entry(waiter: waiter, type: type, expectsResponse: expectsResponse)
        guard admit(ticket, &entry, at: position) else { return nil }
        entries.insert(entry, for: ticket)
        watch(ticket, deadline)
        return entry.serial
    }

    /// Lets a registered request go out at `position`; returns its serial, `nil` when every serial is held.
    @inlinable
    package mutating func admit(_ ticket: Ticket, at position: OutboundPosition) -> SerialNumber? {
        guard var entry = entries[ticket], admit(ticket, &entry, at: position) else { return nil }
        entries.insert(entry, for: ticket)
        return entry.serial
    }

    @inlinable
    mutating func admit(_ ticket: Ticket, _ entry: inout Entry, at position: OutboundPosition) -> Bool {
        if entry.expectsResponse {
            if serials != nil {
                guard let serial = serials?.take(for: ticket) else { return false }
                entry.serial = serial
            } else {
                order.append(ticket, at: position)
            }
        }
        entry.position = position
        return true
    }

    /// Has `ticket` turn up among the expired at `deadline`, unless it has left by then.
    @inlinable
    package mutating func watch(_ ticket: Ticket, _ deadline: Instant?) {
        guard let deadline else { return }
        deadlines.insert(ticket, deadline: deadline)
        if deadlines.isCrowded(alive: entries.count) {
            let entries = entries
            deadlines.compact { entries.contains($0) }
        }
    }

    /// Puts a request back that has just left, to be admitted later. Its deadline is still watched, which holds only in
    /// the very step in which it left: dead deadlines are dropped when others come in.
    @usableFromInline
    package mutating func restore(_ ticket: Ticket, waiter: Waiter, type: UInt32, expectsResponse: Bool) {
        entries.insert(Entry(waiter: waiter, type: type, expectsResponse: expectsResponse), for: ticket)
    }

    /// Replaces the waiter of a request that has not left.
    @usableFromInline
    package mutating func setWaiter(_ waiter: Waiter, of ticket: Ticket) {
        guard var entry = entries[ticket] else { return }
        entry.waiter = waiter
        entries.insert(entry, for: ticket)
    }

    // MARK: Out

    /// What a response meets.
    @usableFromInline
    package enum Answer {
        /// Hand it to this waiter.
        case resume(Ticket, Waiter)
        /// Its request was given up: drop it.
        case late
        /// No request ever asked for it, or it was answered already.
        case unknown
    }

    /// A response has come: by its serial, or for the oldest request where the protocol has none.
    ///
    /// No frame from `unstarted` on has been written: a response cannot be meant for those.
    @inlinable
    package mutating func answer(_ serial: SerialNumber, unstarted: OutboundPosition) -> Answer {
        guard serials != nil else { return answerInOrder(unstarted) }
        switch serials?.take(answered: serial) {
        case .request(let ticket)?:
            guard let entry = entries.remove(ticket) else { return .unknown }
            if entry.position < unstarted, entry.position >= retiredEnd {
                return .resume(ticket, entry.waiter)
            }
            // The server can't mean this request: nothing of it was written yet, or it was on another link.
            entries.insert(entry, for: ticket)
            serials?.putBack(serial, ticket)
            return .unknown
        case .late?: return .late
        case .unknown?, nil: return .unknown
        }
    }

    @inlinable
    mutating func answerInOrder(_ unstarted: OutboundPosition) -> Answer {
        guard let ticket = order.popFirst(before: unstarted) else { return .unknown }
        return answered(ticket)
    }

    @inlinable
    mutating func answered(_ ticket: Ticket) -> Answer {
        guard let entry = entries.remove(ticket) else { return .late }
        noteLeft(entry)
        return .resume(ticket, entry.waiter)
    }

    /// What giving a request up asks for.
    @usableFromInline
    package enum Cancellation {
        /// It has left already.
        case none
        /// It was never written: take it out of the outbound queue (when it has a position) and say so.
        case notSent(Waiter, OutboundPosition)
        /// The server has it, or part of it: tell the server if the protocol can.
        case sent(Waiter, serial: SerialNumber, type: UInt32)
    }

    /// The caller, or its deadline, gives the request up. `hasStarted` tells whether any byte of it was written.
    @usableFromInline
    package mutating func cancel(
        _ ticket: Ticket,
        now: Instant,
        hasStarted: (OutboundPosition) -> Bool
    ) -> Cancellation {
        guard let entry = entries.remove(ticket) else { return .none }
        noteLeft(entry)
        guard entry.position != 0 && hasStarted(entry.position) else {
            forgetUnsent(entry)
            return .notSent(entry.waiter, entry.position)
        }
        if entry.expectsResponse { abandon(entry, until: now.advanced(by: quarantine)) }
        return .sent(entry.waiter, serial: entry.serial, type: entry.type)
    }

    /// The server may still work on it, and answer.
    private mutating func abandon(_ entry: Entry, until deadline: Instant) {
        if entry.position >= retiredEnd {
            serials?.quarantine(entry.serial, until: deadline)
            order.abandon(entry.position, until: deadline)
        } else if let index = retired.firstIndex(where: { $0.positions.contains(entry.position) }) {
            retired[index].serials?.quarantine(entry.serial, until: deadline)
            retired[index].order.abandon(entry.position, until: deadline)
        }
    }

    /// Takes a request out that never reached the server (it could not be encoded) or needs no answer (it was one-way).
    @usableFromInline
    package mutating func take(_ ticket: Ticket) -> Waiter? {
        guard let entry = entries.remove(ticket) else { return nil }
        noteLeft(entry)
        if entry.expectsResponse { forgetUnsent(entry) }
        return entry.waiter
    }

    /// Nothing of it was sent, so nothing of it will be answered.
    private mutating func forgetUnsent(_ entry: Entry) {
        guard entry.position != 0, entry.expectsResponse else { return }
        if serials != nil {
            serials?.release(entry.serial)
        } else {
            order.drop(entry.position)
        }
    }

    /// The link is gone: hands out, in the order of their tickets, those whose answer can't come any more.
    ///
    /// The others have not started; they keep their serials and their places for the next link.
    @usableFromInline
    package mutating func linkLost(hasStarted: (OutboundPosition) -> Bool) -> [(ticket: Ticket, waiter: Waiter)] {
        var lost: [(ticket: Ticket, waiter: Waiter)] = []
        for (ticket, entry) in entries.sorted
        where entry.position >= max(1, retiredEnd) && hasStarted(entry.position) {
            entries.remove(ticket)
            if entry.expectsResponse { serials?.release(entry.serial) }
            lost.append((ticket, entry.waiter))
        }
        order.removeAll { hasStarted($0) }
        serials?.linkLost()
        return lost
    }

    /// Hands out everyone who waits, in the order of their tickets. There is no link, or there will be none: no serial
    /// is held any more.
    @usableFromInline
    package mutating func removeAll() -> [(ticket: Ticket, entry: Entry)] {
        let all = entries.sorted.map { (ticket: $0.key, entry: $0.value) }
        for (ticket, entry) in all {
            entries.remove(ticket)
            if entry.expectsResponse, entry.position >= max(1, retiredEnd) { serials?.release(entry.serial) }
        }
        order = ResponseOrder()
        (retired, retiredEnd) = ([], 0)
        serials?.linkLost()
        return all
    }
}

extension RequestTable: Sendable where Waiter: Sendable {}
extension RequestTable.Entry: Sendable where Waiter: Sendable {}
