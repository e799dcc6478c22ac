/// Why requests wait, for the observers and the log.
extension Dispatcher {
    mutating func noteLimit() {
        let areWaiting = requests.queue.hasWaiting
        guard ledger.wantsLimit(areWaiting: areWaiting) else { return }
        ledger.waits(because: !areWaiting || !isReady ? nil : driver.links.limitReached)
    }

    func load(at now: Instant) -> ClientLoad {
        var load = ClientLoad()
        load.responses = ledger.counters.responses
        load.waiting = requests.queue.waitingCount
        if requests.count <= 100_000 { load.oldest = requests.oldestOnLink.map { now.since($0) } }
        driver.links.note(in: &load, at: now)
        return load
    }
}

extension Client: ObservedClient {
    package nonisolated func load(at now: Instant) -> ClientLoad { reading { $0.load(at: now) } }
}

extension Links {
    fileprivate func note(in load: inout ClientLoad, at now: Instant) {
        (load.inFlight, load.abandoned) = (requestCount, held.abandoned)
        load.silence = ready.flatMap { $0.state.described(at: now, inFlight: 0, hasFailed: true).condition?.silence }
    }

    fileprivate var limitReached: ClientEvent.Limit? {
        guard let ready else { return nil }
        if isAtMaximum { return .maximumInFlight }
        if room <= 0 { return .datagramWindow }
        if ready.state.machine.requests.isExhausted { return .serials }
        return ready.state.isAboveWatermark ? .highWatermark : nil
    }
}
