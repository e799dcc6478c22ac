@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Compares the results of the callers with what the servers received.
extension SeedWorld {
    func judge(_ outcomes: [SeedCalls.Outcome], _ received: [[Frame]]) {
        // Further pieces of uploads are not among them.
        let requests = received.joined().filter { $0.kind == .request || $0.kind == .part }
        let seen = Dictionary(requests.map { ($0.body, 1) }, uniquingKeysWith: +).merging(pieces) { $0 + $1 }
        for (body, times) in seen.sorted(by: { String($0.key) < String($1.key) }) {
            guard let number = SeedPlan.number(in: body) else { continue }
            let limit = if case .idempotent(let attempts, _) = plan.retry(of: number) { attempts } else { 1 }
            if times > limit { violated("request \(String(body).prefix(5)) was carried out \(times) times") }
        }
        for outcome in outcomes {
            count("requests")
            judge(outcome, isSeen: seen[outcome.body] != nil)
        }
        for (body, error) in subscriptions { judgeSubscription(body, error, times: seen[body] ?? 0) }
        // A cancel frame comes after its request, on the same link. With few serials this cannot be checked.
        guard plan.matching != .narrow else { return }
        for frames in received {
            let serials = Set(frames.lazy.filter { $0.kind == .request || $0.kind == .part }.map(\.serial))
            for frame in frames where frame.kind == .cancel && !serials.contains(frame.serial) {
                violated("a cancel frame for \(frame.serial), which had no request on its link")
            }
        }
    }

    /// A call of `subscribe` sends its request at most twice, and handshakes repeat it only once the call has succeeded.
    private func judgeSubscription(_ body: Bytes, _ error: ClientError?, times: Int) {
        guard let error else {
            if times == 0 { violated("\(body) was accepted but never received") }
            return
        }
        count("subscription \(error.code) \(error.fate)")
        if times > 2 { violated("\(body) failed, but was carried out \(times) times") }
        if times == 2 { count("subscription failed after two requests") }
        switch error.fate {
        case .notSent: if times > 0 { violated("\(body) was received, but its caller got \(error)") }
        case .unknown: break
        case .answered: violated("\(body) was rejected: \(error)")
        }
    }

    private func judge(_ outcome: SeedCalls.Outcome, isSeen: Bool) {
        let name = "request \(String(outcome.body).prefix(5))"
        switch outcome.result {
        case .success(let reply):
            count("outcome success")
            if outcome.isOneWay { return }
            if reply.body != outcome.body { violated("\(name) got another request's response: \(reply)") }
            if !isSeen { violated("\(name) was answered but never received") }
        case .failure(let error):
            count("outcome \(error.code) \(error.fate)")
            switch error.fate {
            case .notSent: if isSeen { violated("\(name) was received, but its caller got \(error)") }
            case .unknown: break
            case .answered where outcome.mayOverflow && error.code == .overloaded:
                if !isSeen { violated("\(name) overflowed but was never received") }
            case .answered:
                guard error.code == .rejected, let response = error.response else {
                    return violated("\(name): \(error)")
                }
                if response.body != outcome.body { violated("\(name) got another request's error: \(response)") }
                if !isSeen { violated("\(name) was rejected but never received") }
            }
        }
    }

    /// Checks what must be true at the end.
    func judgeEnd(_ leftovers: [String]) {
        for leftover in leftovers { violated("left over: \(leftover)") }
        if network.openLinks != 0 { violated("\(network.openLinks) links left over") }
        let timers = network.loop.timers.armedCount
        if timers != 0 { violated("\(timers) timers left over") }
    }
}

extension Client {
    /// Whether the client has a link, and no request is in flight or abandoned. The duration of a request then depends
    /// on the link alone.
    var isCalm: Bool {
        guard let ready = driver.links.onlyReady, driver.machine.attempt == nil else { return false }
        return ready.state.machine.count == 0 && ready.state.machine.requests.abandonedCount == 0
            && dispatcher.requests.count == 0
    }

    nonisolated var sendsAfterGoAway: Bool { connection.options.failover.sendsAfterGoAway }

    /// What a closed client should not have any more.
    var leftovers: [String] {
        let facts: [(String, Bool)] = [
            ("requests", dispatcher.requests.count > 0), ("deadlines", dispatcher.requests.nextDeadline != nil),
            ("parts of requests", dispatcher.parts.heldCount > 0 || !dispatcher.parts.queued.isEmpty),
            ("room that enqueued messages take", !messageRoom.isEmpty),
            ("callers of connect", !dispatcher.connectWaiters.isEmpty),
            ("callers of close", !dispatcher.closeWaiters.isEmpty),
            ("streams of pushes", !dispatcher.streams.channels.isEmpty),
            ("full streams", !dispatcher.streams.fullReplies.isEmpty),
            ("a timer", clock.deadline != nil),
        ]
        return facts.filter(\.1).map(\.0) + driver.leftovers
    }
}

extension ConnectionDriver {
    fileprivate var leftovers: [String] {
        let facts: [(String, Bool)] = [
            ("links", !links.isEmpty), ("an attempt", attempt != nil), ("events", !port.events.isEmpty),
            ("frames to be written", frameUse.map { $0.writes.count > 0 } ?? false),
            ("a reader", frameUse?.reader != nil), ("waiters", !ending.waiters.isEmpty),
        ]
        let armed = ConnectionTimers.Name.allCases.filter { timers.isArmed($0) }
        return facts.filter(\.1).map(\.0) + armed.map { "the timer \($0)" }
    }
}
