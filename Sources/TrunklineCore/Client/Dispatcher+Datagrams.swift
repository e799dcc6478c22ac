/// Requests in datagrams, which may be lost: those that may be performed twice are sent again until they are answered.
extension Dispatcher {
    mutating func beginDatagrams() {
        retries.hasUsedDatagrams = true
        for id in requests.ids {
            if let extras = requests.waiter(of: id)?.extras { awaitAnswer(id, extras) }
        }
    }

    @inline(never)
    mutating func awaitAnswer(_ id: RequestID, _ extras: RequestExtras) {
        guard extras.repetition == nil, let call = extras.call, call.mayBeRepeated, call.options.expectsResponse
        else { return }
        look(at: id, extras, after: firstWait, wait: firstWait)
    }

    private static let longestWait = Duration.seconds(60)

    private var firstWait: Duration { min(max(options.requests.repeatAfter, .milliseconds(10)), .century) }

    private mutating func look(
        at id: RequestID,
        _ extras: RequestExtras,
        after delay: Duration,
        wait: Duration,
        sentAt: Instant = .distantPast
    ) {
        let lookAt = loop.now.advanced(by: delay)
        extras.repetition = RequestExtras.Repetition(lookAt: lookAt, wait: wait, sentAt: sentAt)
        requests.watch(id, lookAt)
    }

    /// Returns false if no repetition was due.
    @inline(never)
    mutating func repeatIfDue(_ id: RequestID, at now: Instant) -> Bool {
        guard let waiter = requests.waiter(of: id), let extras = waiter.extras, let repetition = extras.repetition,
            repetition.lookAt <= now, let call = extras.call, call.options.deadline.map({ $0 > now }) ?? true
        else { return false }
        extras.repetition = nil
        // Parts of a reply to two copies could not be told apart. Nor is a request sent again that is not complete.
        guard waiter.firstPart == nil, parts.targets[id] == nil else { return true }
        guard let request = requests[id], case .onLink(let session, .response(let number)) = request.place else {
            if retries.usesDatagrams { look(at: id, extras, after: firstWait, wait: firstWait) }
            return true
        }
        let sentAt = max(repetition.sentAt, request.admitted)
        let waited = now.since(sentAt)
        if waited < repetition.wait {
            look(at: id, extras, after: repetition.wait - waited, wait: repetition.wait, sentAt: sentAt)
            return true
        }
        // A link of another kind loses nothing.
        guard let isWritten = driver.links.maySendAgain(id, session, number) else { return true }
        guard isWritten else {
            look(at: id, extras, after: firstWait, wait: firstWait)
            return true
        }
        guard retries.rules.withdraw(at: now, requests: ledger.counters.requests) else {
            ledger.refusedRetry()
            look(at: id, extras, after: repetition.wait, wait: repetition.wait, sentAt: sentAt)
            return true
        }
        driver.requests.sendAgain(call.frame, id, session, number, sentAt: sentAt)
        ledger.repeats(id)
        let wait = min(repetition.wait * 2, max(Self.longestWait, firstWait))
        look(at: id, extras, after: wait, wait: wait, sentAt: now)
        return true
    }
}
