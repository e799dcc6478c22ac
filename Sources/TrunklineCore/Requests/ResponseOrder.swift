/// In-order matching: every request that went out, or is about to, and whose response has not come, given up or not.
@usableFromInline
package struct ResponseOrder: Sendable {
    @usableFromInline var places = Deque<Place>()
    /// How many of `places` are dropped.
    @usableFromInline var droppedCount = 0
    /// How many of `places` are those of requests that were given up.
    @usableFromInline var abandonedCount = 0

    @usableFromInline
    struct Place: Sendable {
        @usableFromInline let ticket: Ticket
        /// Higher than that of every place before it.
        @usableFromInline let position: OutboundPosition
        /// Nothing of its request was sent, so no response will come: it is passed over.
        @usableFromInline var isDropped = false
        /// Set when its request was given up after it had started: how long the server may take for it.
        @usableFromInline var abandonedUntil: Instant?

        @usableFromInline
        init(ticket: Ticket, position: OutboundPosition) {
            self.ticket = ticket
            self.position = position
        }
    }

    @inlinable
    init() {}

    /// Adds a request behind all others; `position` must be higher than theirs.
    @inlinable
    mutating func append(_ ticket: Ticket, at position: OutboundPosition) {
        places.append(Place(ticket: ticket, position: position))
    }

    /// Takes the oldest request, whose response has come; `nil` when nothing before `unstarted` awaits one.
    @inlinable
    mutating func popFirst(before unstarted: OutboundPosition) -> Ticket? {
        while let place = places.first {
            if place.isDropped {
                droppedCount -= 1
            } else if place.position >= unstarted {
                return nil
            }
            _ = places.popFirst()
            if place.isDropped { continue }
            if place.abandonedUntil != nil { abandonedCount -= 1 }
            return place.ticket
        }
        return nil
    }

    /// The oldest request, of whose response a part has come; `nil` when nothing before `unstarted` awaits one.
    mutating func first(before unstarted: OutboundPosition) -> Ticket? {
        while let place = places.first {
            guard place.isDropped else { return place.position < unstarted ? place.ticket : nil }
            droppedCount -= 1
            _ = places.popFirst()
        }
        return nil
    }

    /// The place of the latest request; `nil` when its response has come, nothing of it was sent, or its link is not the
    /// present one any more.
    @inlinable
    var last: OutboundPosition? {
        guard let place = places.last, !place.isDropped else { return nil }
        return place.position
    }

    /// The latest request before `unstarted` whose response has not come; `nil` when there is none.
    func latest(before unstarted: OutboundPosition) -> Ticket? {
        var end = index(of: unstarted)
        while end > 0, places[end - 1].isDropped { end -= 1 }
        return end == 0 ? nil : places[end - 1].ticket
    }

    /// How many places are before `position`.
    private func index(of position: OutboundPosition) -> Int {
        var (low, high) = (0, places.count)
        while low < high {
            let middle = (low + high) / 2
            if places[middle].position < position { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Drops the place of a request of which nothing was sent.
    ///
    /// It is found by halving and taken out later, together with others: when thousands of requests that wait for a
    /// link end together, the loop must not look through all of them for each.
    mutating func drop(_ position: OutboundPosition) {
        let index = index(of: position)
        guard index < places.count, places[index].position == position, !places[index].isDropped else { return }
        places[index].isDropped = true
        droppedCount += 1
        if droppedCount > places.count / 2 + 16 { removeAll { _ in false } }
    }

    /// The request at `position`, which has started, was given up. Its place stays.
    mutating func abandon(_ position: OutboundPosition, until deadline: Instant) {
        let index = index(of: position)
        guard index < places.count, places[index].position == position, !places[index].isDropped else { return }
        if places[index].abandonedUntil == nil { abandonedCount += 1 }
        places[index].abandonedUntil = deadline
    }

    /// A part of the oldest response has come: if its request was given up, the server still works on it.
    mutating func prolong(until deadline: Instant) {
        guard let place = places.first, !place.isDropped, place.abandonedUntil != nil else { return }
        places[0].abandonedUntil = deadline
    }

    /// How long the server may take for the oldest request if that was given up; `nil` if it was not.
    mutating func oldestAbandonedUntil() -> Instant? {
        guard abandonedCount > 0 else { return nil }
        _ = first(before: .max)  // drops what is dropped
        return places.first?.abandonedUntil
    }

    /// Takes the places before `position` out, as an order of their own.
    mutating func splitOff(before position: OutboundPosition) -> ResponseOrder {
        var before = self
        before.removeAll { $0 >= position }
        removeAll { $0 < position }
        return before
    }

    /// Takes out every place whose position satisfies `predicate`, and the dropped ones.
    mutating func removeAll(where predicate: (OutboundPosition) -> Bool) {
        places.removeAll { $0.isDropped || predicate($0.position) }
        droppedCount = 0
        guard abandonedCount > 0 else { return }
        abandonedCount = (0..<places.count).count { places[$0].abandonedUntil != nil }
    }
}
