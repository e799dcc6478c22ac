import TrunklineCore

/// Requests that are sent again: they stay under their ticket and their deadline, and rest until their back-off is over.
extension Exchange {
    /// Lets a request that has just left by a failure rest before another try. Returns whether it does; it has failed
    /// for good if not.
    mutating func retry(_ ticket: Ticket, _ waiter: Waiter, after error: ClientError, at now: Instant) -> Bool {
        guard case .particular(let present, let terms) = waiter, let plain = present.anew else { return false }
        if followUps.targets[ticket]?.isContinued == true { return false }
        if let until = terms.restsUntil {
            // It did not wait for the server that could not be reached: it only begins to when its rest is over.
            guard error.code == .unavailable else { return false }
            rest(ticket, waiter, terms, until)
            return true
        }
        guard let next = terms.next(after: error, at: now, using: &generator), let until = next.restsUntil,
            until < plain.shared?.end ?? .distantFuture
        else { return false }
        // Of a request that was never written the server has no trouble.
        if error.fate == .unknown, account?.withdraw(at: now, requests: counters.requests) == false {
            counters.retriesRefused += 1
            return false
        }
        counters.retries += 1
        plain.handle?.noteRetry()
        rest(ticket, .particular(plain, next), next, until)
        return true
    }

    private mutating func rest(_ ticket: Ticket, _ waiter: Waiter, _ terms: Terms, _ until: Instant) {
        table.restore(ticket, waiter: waiter, type: terms.frame.type, expectsResponse: terms.expectsResponse)
        resting.insert(ticket, deadline: until)
        if resting.isCrowded(alive: table.count) { compactResting() }
    }

    mutating func compactResting() {
        let table = table
        resting.compact { table[$0] != nil }
    }

    /// Takes the requests whose back-off is over; they are still registered.
    mutating func takeRested(at now: Instant) -> [Ticket] {
        var rested: [Ticket] = []
        while let ticket = resting.popDue(at: now) {
            if table[ticket] != nil { rested.append(ticket) }  // else it was given up while it rested
        }
        return rested
    }

    /// Lets a request whose back-off is over wait its turn again. Returns false if it would have to wait for a link and
    /// may not.
    mutating func tryAgain(_ ticket: Ticket) -> Bool {
        guard case .particular(let plain, let terms)? = table[ticket]?.waiter else { return true }
        guard terms.waitsForReady || isReady else { return false }
        table.setWaiter(.particular(plain, terms.awake), of: ticket)
        wait(ticket, terms.frame)
        return true
    }

    /// The requests that end with their link although nothing of them was written. Those that had started on a link
    /// that was left are still under way there.
    func linkbound(where isMeant: (Terms) -> Bool) -> [Ticket] {
        guard hasLinkbound else { return [] }
        return table.tickets.filter { ticket in
            guard let entry = table[ticket], let terms = entry.waiter.terms else { return false }
            let isElsewhere = entry.position != 0 && entry.position < table.retiredEnd
            return terms.endsWithItsLink && isMeant(terms) && terms.restsUntil == nil && !isElsewhere
        }
    }

    /// Nobody is left, and nobody comes any more: no timer is to fire for those who were.
    mutating func forgetDeadlines() {
        table.forgetDeadlines()
        resting = DeadlineQueue()
    }

    /// When to look for deadlines, quarantines and back-offs that are over; `nil` for never.
    var nextDeadline: Instant? {
        [table.nextDeadline, resting.earliest, replacement.lookAgainAt].compactMap { $0 }.min()
    }

    /// The next request whose deadline has passed; it is still there, to be cancelled.
    mutating func nextExpired(at now: Instant) -> Ticket? {
        while let ticket = table.nextExpired(at: now) {
            guard let later = table[ticket]?.waiter.nextLook(at: now) else { return ticket }
            if later < .distantFuture { table.watch(ticket, later) }
        }
        return nil
    }
}
