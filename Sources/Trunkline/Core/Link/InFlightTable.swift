/// The requests in flight on one link, by the number under which their responses come.
///
/// Where responses match by serial number, that is the number on the wire. Where they match in order it counts the link's
/// requests from 1, and the next response is that of the lowest.
///
///     insert ──► in flight ──response──► gone
///                   └──given up──► abandoned ──late response, end of quarantine──► gone
///
/// A number is not used again before it is gone: a late response must not reach another request. Removal is the only way
/// out, so nobody is resumed twice, and a late or repeated response is an ordinary case.
package struct InFlightTable<Waiter> {
    /// A request in flight.
    package struct Entry {
        package let id: RequestID
        /// Who waits for the response.
        package var waiter: Waiter
        /// The protocol's type number, for the cancel frame.
        package let type: UInt32
        /// Where its frame is in the link's outbound queue.
        package let position: OutboundPosition
    }

    enum Slot {
        case inFlight(Entry)
        /// Given up after it had started. With serials its quarantine ends then; in order, the server has no more time.
        case abandoned(until: Instant)
    }

    var slots = SequentialMap<Slot>()
    let range: ClosedRange<SerialNumber>
    let isInOrder: Bool
    /// The number to try first for the next request.
    var next: SerialNumber
    /// In order: every lower number is gone.
    var oldest: SerialNumber = 1
    /// How many requests were given up and may still be answered.
    package private(set) var abandonedCount = 0
    /// With serials: those abandoned, in the order in which their quarantine ends; some may be gone.
    private var quarantine = Deque<(serial: SerialNumber, until: Instant)>()

    package init(matching: ResponseMatching, firstSerial: SerialNumber? = nil) {
        switch matching {
        case .serial(let range): (self.range, isInOrder) = (range, false)
        case .inOrder: (range, isInOrder) = (1...SerialNumber.max, true)
        }
        next = firstSerial ?? range.lowerBound
    }

    /// How many requests are in flight, without those that were given up.
    package var count: Int { slots.count - abandonedCount }

    /// How many numbers are held: by requests in flight, or by those that were given up.
    package var heldCount: Int { slots.count }

    /// The number of requests for which there is memory.
    package var capacity: Int { slots.capacity }

    // MARK: In

    /// Whether every number is held.
    package var isExhausted: Bool {
        let (span, isAll) = (range.upperBound - range.lowerBound).addingReportingOverflow(1)
        return !isAll && slots.count >= span
    }

    /// Takes a request in and returns its number; `nil` when every one is held.
    package mutating func insert(
        _ id: RequestID,
        _ waiter: consuming Waiter,
        type: UInt32,
        at position: OutboundPosition
    ) -> SerialNumber? {
        if isExhausted { return nil }
        while slots.contains(next) { advance() }
        let number = next
        slots.insert(.inFlight(Entry(id: id, waiter: waiter, type: type, position: position)), for: number)
        advance()
        return number
    }

    mutating func advance() { next = next == range.upperBound ? range.lowerBound : next + 1 }

    /// The next request gets the lowest number that is free.
    package mutating func startOver() { if !isInOrder { next = range.lowerBound } }

    // MARK: Responses

    /// What a response, or a part of one, meets.
    package enum Match {
        /// It is for this request, under this number.
        case request(Entry, SerialNumber)
        /// Its request was given up: drop it.
        case late
        /// No request ever asked for it, or it was answered already.
        case unknown
    }

    /// A response has come. Its request leaves.
    ///
    /// No frame from `unstarted` on has been written: a response cannot be meant for those.
    package mutating func takeAnswered(_ serial: SerialNumber, before unstarted: OutboundPosition) -> Match {
        guard let number = number(of: serial) else { return .unknown }
        switch slots.remove(number) {
        case .inFlight(let entry)?:
            if entry.position < unstarted { return .request(entry, number) }
            slots.insert(.inFlight(entry), for: number)
            return .unknown
        case .abandoned?:
            abandonedCount -= 1
            return .late
        case nil: return .unknown
        }
    }

    /// Whose a response, or a part of one, is; the request stays. The number of one that was given up is held until
    /// `instant` at least: the server still works on it.
    package mutating func match(
        _ serial: SerialNumber,
        before unstarted: OutboundPosition,
        prolongingTo instant: Instant
    ) -> Match {
        guard let number = number(of: serial) else { return .unknown }
        switch slots[number] {
        case .inFlight(let entry)?: return entry.position < unstarted ? .request(entry, number) : .unknown
        case .abandoned(let until)?:
            if until < instant { hold(number, until: instant) }
            return .late
        case nil: return .unknown
        }
    }

    mutating func number(of serial: SerialNumber) -> SerialNumber? { isInOrder ? firstInOrder() : serial }

    /// In order: the number of the oldest request, given up or not; `nil` when there is none.
    mutating func firstInOrder() -> SerialNumber? {
        while oldest < next {
            if slots.contains(oldest) { return oldest }
            oldest += 1
        }
        return nil
    }

    // MARK: One request

    package subscript(_ number: SerialNumber) -> Entry? {
        if case .inFlight(let entry)? = slots[number] { entry } else { nil }
    }

    /// Replaces who waits for the response.
    package mutating func setWaiter(_ waiter: Waiter, of number: SerialNumber) {
        guard var entry = self[number] else { return }
        entry.waiter = waiter
        slots.insert(.inFlight(entry), for: number)
    }

    /// Takes out a request of which nothing was sent: its number is free.
    package mutating func remove(_ number: SerialNumber) -> Entry? {
        guard let entry = self[number] else { return nil }
        slots.remove(number)
        return entry
    }

    /// Takes out the request whose frame is at `position` and was not sent. Looks through all of them.
    package mutating func remove(at position: OutboundPosition) -> Entry? {
        let number = slots.firstKey { if case .inFlight(let entry) = $0 { entry.position == position } else { false } }
        return number.flatMap { remove($0) }
    }

    /// Takes out a request that had started and is given up: its number is held until it is answered or, with serials,
    /// `instant` has come.
    package mutating func abandon(_ number: SerialNumber, until instant: Instant) -> Entry? {
        guard let entry = self[number] else { return nil }
        abandonedCount += 1
        hold(number, until: instant)
        return entry
    }

    private mutating func hold(_ number: SerialNumber, until instant: Instant) {
        slots.insert(.abandoned(until: instant), for: number)
        guard !isInOrder else { return }
        quarantine.append((number, instant))
        // Behind one that the server never answers, those that it did answer would stay until their time is over.
        if quarantine.count > 2 * abandonedCount + 64 {
            let slots = slots
            quarantine.removeAll { !Self.isHeld($0, in: slots) }
        }
    }

    private static func isHeld(
        _ held: (serial: SerialNumber, until: Instant),
        in slots: SequentialMap<Slot>
    ) -> Bool {
        if case .abandoned(let until)? = slots[held.serial] { until == held.until } else { false }
    }

    // MARK: Time

    /// Frees the serials whose quarantine is over at `now`.
    package mutating func endQuarantine(at now: Instant) {
        while let first = quarantine.first {
            // An answer may have freed the serial, and another request taken it and been given up since.
            if Self.isHeld(first, in: slots) {
                guard first.until <= now else { return }
                slots.remove(first.serial)
                abandonedCount -= 1
            }
            _ = quarantine.popFirst()
        }
    }

    /// No quarantine ends before this; `nil` when there is none.
    package var nextQuarantineEnd: Instant? { quarantine.first?.until }

    // MARK: All requests

    /// Takes out the requests whose frames are at `position` or behind it, in the order of their frames.
    package mutating func removeAll(from position: OutboundPosition) -> [Entry] {
        var removed: [Entry] = []
        for (number, slot) in slots.sorted {
            guard case .inFlight(let entry) = slot, entry.position >= position else { continue }
            slots.remove(number)
            removed.append(entry)
        }
        return removed.sorted { $0.position < $1.position }
    }

    /// The requests in flight, in ascending order of their numbers.
    package var all: [Entry] {
        slots.sorted.compactMap { if case .inFlight(let entry) = $0.value { entry } else { nil } }
    }

    /// Whether a request whose frame is at one of `positions` is in flight. Looks through all of them.
    package func hasRequest(at positions: Range<OutboundPosition>) -> Bool {
        slots.hasValue { if case .inFlight(let entry) = $0 { positions.contains(entry.position) } else { false } }
    }

    // MARK: In order

    /// Whether somebody waits for the response that comes next.
    package mutating func isFirstAwaited(before unstarted: OutboundPosition) -> Bool {
        guard isInOrder, let entry = firstInOrder().flatMap({ self[$0] }) else { return false }
        return entry.position < unstarted
    }

    /// Whether every request before `unstarted` was answered: then no response was left out.
    package mutating func isLevel(before unstarted: OutboundPosition) -> Bool {
        guard let first = firstInOrder() else { return true }
        return self[first].map { $0.position >= unstarted } ?? false
    }

    /// Whether responses are due, and nobody waits for any of them.
    package func isForsaken(before unstarted: OutboundPosition) -> Bool {
        guard isInOrder, abandonedCount > 0 else { return false }
        // The latest is asked first: while a link is busy, it is not given up, and the others need not be looked through.
        if let latest = self[next - 1], latest.position < unstarted { return false }
        return !hasRequest(at: 0..<unstarted)
    }

    /// How long the server may take for the oldest request if that was given up; `nil` if it was not, and with serials.
    package mutating func oldestAbandonedUntil() -> Instant? {
        guard isInOrder, abandonedCount > 0, let first = firstInOrder(), case .abandoned(let until)? = slots[first]
        else { return nil }
        return until
    }

    /// Whether `number` is that of the latest request, which is in flight or was given up.
    package func isLatest(_ number: SerialNumber) -> Bool { number &+ 1 == next && slots.contains(number) }
}

extension InFlightTable: Sendable where Waiter: Sendable {}
extension InFlightTable.Entry: Sendable where Waiter: Sendable {}
extension InFlightTable.Slot: Sendable where Waiter: Sendable {}
extension InFlightTable.Match: Sendable where Waiter: Sendable {}
