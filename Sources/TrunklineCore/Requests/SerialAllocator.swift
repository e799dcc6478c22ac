/// Names one `send` within its client, from before it is registered until after it is over. Never used twice.
@usableFromInline
package typealias Ticket = UInt64

/// Hands out the serial numbers of one link, and of what waits for the next one, and knows who holds each.
///
/// Serials go up and wrap around, skipping those in flight and those in quarantine. A serial is in quarantine after its
/// request was given up but the server may still answer: the late answer must not reach another request.
@usableFromInline
package struct SerialAllocator: Sendable {
    @usableFromInline
    package let range: ClosedRange<SerialNumber>
    private var next: SerialNumber
    /// Serials that are taken: by a request in flight (its ticket) or by quarantine (`nil`).
    @usableFromInline var taken = SequentialMap<Holder>()
    /// Quarantined serials in the order in which their quarantine ends. Those the server answered are skipped.
    private(set) var quarantine = Deque<(serial: SerialNumber, holder: Holder)>()
    /// How many serials are in quarantine.
    @usableFromInline private(set) var quarantinedCount = 0

    @usableFromInline
    enum Holder: Sendable, Equatable {
        case request(Ticket)
        case quarantine(until: Instant)
    }

    @usableFromInline
    package init(_ range: ClosedRange<SerialNumber>, first: SerialNumber? = nil) {
        self.range = range
        next = first ?? range.lowerBound
    }

    /// How many serials are held, by requests or by quarantine.
    @usableFromInline
    package var takenCount: Int { taken.count }

    /// Takes the next free serial for `ticket`; `nil` when every one is held (exhausted).
    @usableFromInline
    package mutating func take(for ticket: Ticket) -> SerialNumber? {
        if isExhausted { return nil }
        while taken.contains(next) { advance() }
        let serial = next
        taken.insert(.request(ticket), for: serial)
        advance()
        return serial
    }

    /// Whether every serial is held.
    @usableFromInline
    package var isExhausted: Bool {
        let (span, isAll) = (range.upperBound - range.lowerBound).addingReportingOverflow(1)
        return !isAll && taken.count >= span
    }

    private mutating func advance() { next = next == range.upperBound ? range.lowerBound : next + 1 }

    /// Frees the serial of a response. Returns whose it was.
    @usableFromInline
    package mutating func take(answered serial: SerialNumber) -> Holding {
        switch taken.remove(serial) {
        case .request(let ticket)?: return .request(ticket)
        case .quarantine?:
            quarantinedCount -= 1
            return .late
        case nil: return .unknown
        }
    }

    /// Whose the serial of a part of a reply is; it stays taken.
    func holding(_ serial: SerialNumber) -> Holding {
        switch taken[serial] {
        case .request(let ticket)?: .request(ticket)
        case .quarantine?: .late
        case nil: .unknown
        }
    }

    /// Undoes `take(answered:)` of a request's serial.
    @usableFromInline
    package mutating func putBack(_ serial: SerialNumber, _ ticket: Ticket) {
        taken.insert(.request(ticket), for: serial)
    }

    @usableFromInline
    package enum Holding: Equatable, Sendable {
        case request(Ticket)
        /// The request was given up: the answer is dropped and the serial is free again.
        case late
        case unknown
    }

    /// Frees the serial of a request that never reached the server, or whose link is gone.
    @usableFromInline
    package mutating func release(_ serial: SerialNumber) { taken.remove(serial) }

    /// Holds the serial of a request that was given up until the server answers it or `deadline` has passed.
    @usableFromInline
    package mutating func quarantine(_ serial: SerialNumber, until deadline: Instant) {
        let holder = Holder.quarantine(until: deadline)
        if case .quarantine? = taken[serial] {} else { quarantinedCount += 1 }
        taken.insert(holder, for: serial)
        quarantine.append((serial, holder))
        // Behind one that the server never answers, those that it did answer would stay until their time is over.
        if quarantine.count > 2 * taken.count + 64 {
            let taken = taken
            quarantine.removeAll { taken[$0.serial] != $0.holder }
        }
    }

    /// Holds a serial that is in quarantine until `deadline` at least.
    mutating func prolongQuarantine(of serial: SerialNumber, until deadline: Instant) {
        guard case .quarantine(let until)? = taken[serial], until < deadline else { return }
        quarantine(serial, until: deadline)
    }

    /// Frees the serials whose quarantine is over at `now`.
    @usableFromInline
    package mutating func endQuarantine(at now: Instant) {
        while let first = quarantine.first {
            // An answer may have freed the serial, and another request taken it and been given up since.
            guard case .quarantine(let until) = first.holder, taken[first.serial] == first.holder else {
                _ = quarantine.popFirst()
                continue
            }
            guard until <= now else { return }
            _ = quarantine.popFirst()
            taken.remove(first.serial)
            quarantinedCount -= 1
        }
    }

    /// When the next quarantine ends; `nil` when there is none.
    @usableFromInline
    package var nextQuarantineEnd: Instant? {
        if case .quarantine(let until)? = quarantine.first?.holder { until } else { nil }
    }

    /// The link is gone, and with it every answer that could have come late.
    @usableFromInline
    package mutating func linkLost() {
        while let entry = quarantine.popFirst() {
            if taken[entry.serial] == entry.holder { taken.remove(entry.serial) }
        }
        quarantinedCount = 0
    }

    /// Takes the serials of a link that takes no new requests out, as those of an allocator of its own: those in quarantine,
    /// and those of the requests that `hasStarted` tells. The next link has all others.
    mutating func splitOff(hasStarted: (Ticket) -> Bool) -> SerialAllocator {
        var left = self
        taken = SequentialMap()
        (quarantine, quarantinedCount) = (Deque(), 0)
        for (serial, holder) in left.taken.sorted {
            guard case .request(let ticket) = holder, !hasStarted(ticket) else { continue }
            left.taken.remove(serial)
            taken.insert(holder, for: serial)
        }
        return left
    }
}
