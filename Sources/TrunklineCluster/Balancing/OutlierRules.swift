package import TrunklineCore

/// Decides when members of a cluster that fail or are slow are ejected, probed and returned, as in the outlier
/// detection of Envoy and of gRPC (gRFC A50). Each input returns the actions that follow, in order. States of a member:
///
///       add ──► serving ──(ejection: failures in a row, success rate, error rate, latency)──► ejected ◄─────┐
///                  ▲                                                                             │          │
///                  │                                                                     (its time is over) │
///                  │                                                                             ▼          │
///                  └─────(returned: a probe succeeded, or none failed in time)──────────────── probing ─────┘
///                                                                                  (probe failed: ejected again)
///
/// A member is bad if it is ejected, probing, without a ready link, or spared: its ejection was due, but was not
/// carried out, for `baseTime`. After an ejection, at most half of the servers are bad, or the zones can carry the load
/// together, so the last ready member is never ejected.
///
/// A comparison with other members may be wrong. So it ejects only `comparedShare` of them, and spares none.
///
/// A member without a route from this host does not count. The members of a group are addresses of one server, which is
/// bad if all of them are.
///
///     no panic ──(a member becomes bad or is removed, and now more than half are bad)──► panic
///         ▲                                                                                │
///         └──(at most half are bad, or no member is ejected, probing or spared)────────────┘
///
/// "Half" is that of the servers. During a panic no serving member is ejected, and the caller uses every ready member:
/// if most fail, the cause is probably elsewhere, and the others could not carry the load. Ejections still end and
/// probes still decide, so that the states are right when the panic ends.
///
/// With local and remote members, as with the priorities of Envoy, there is no panic while their shares of good ones,
/// each times `overprovisioning` and at most 1, make 1 or more together.
package struct OutlierRules: Sendable {
    package enum State: Hashable, Sendable {
        /// In use. → ejected. `slowStart` is when the member returned from its last ejection, if it had one.
        case serving(slowStart: Instant?)
        /// Not in use before `until`. → probing.
        case ejected(until: Instant)
        /// Not in use, but one request at a time may try it. Returns at `until` if it is ready. → serving, ejected.
        case probing(until: Instant)
    }

    package enum Reason: Hashable, Sendable {
        case failuresInARow(Int)
        case successRate(Double, limit: Double)
        case errorRate(Double, median: Double)
        case latency(Duration, median: Duration)
        case probeFailed
    }

    package enum Action: Hashable, Sendable {
        case ejected(UInt64, until: Instant, reason: Reason)
        /// Try the member with one request, as soon as it has a ready link.
        case mayBeProbed(UInt64)
        case returned(UInt64)
        case panicBegan(bad: Int, of: Int)
        case panicEnded
    }

    /// What one member's requests met in an interval. Negative numbers count as 0.
    struct Facts: Hashable, Sendable {
        var id: UInt64
        var successes: Int
        var failures: Int
        /// Requests that failed or were answered with an error. Error responses that are no failures are successes,
        /// too.
        var errors: Int
        var latencyNanoseconds: Int64
        var answers: Int

        init(
            id: UInt64,
            successes: Int,
            failures: Int,
            errors: Int = 0,
            latencyNanoseconds: Int64,
            answers: Int
        ) {
            (self.id, self.successes, self.failures, self.errors) = (id, successes, failures, errors)
            (self.latencyNanoseconds, self.answers) = (latencyNanoseconds, answers)
        }
    }

    private struct Member: Sendable {
        var state = State.serving(slowStart: nil)
        var isReady = false
        /// False unless the state is probing.
        var isProbed = false
        /// `nil` unless the state is serving.
        var sparedUntil: Instant?
        /// In a row, less one for every interval of good service.
        var ejections = 0
        /// Whether the member was in use, ready, and not due for ejection since the interval began.
        var hasServedWell = false
        var server: Server
        var hasRoute = true
        var isLocal = true
        /// Whether a comparison has ejected it. No meaning while it is serving.
        var isCompared = false

        init(_ server: Server) { self.server = server }

        mutating func serve(since now: Instant) {
            (state, isProbed, hasServedWell) = (.serving(slowStart: now), false, false)
        }

        var isServing: Bool {
            if case .serving = state { true } else { false }
        }
        var isOut: Bool { !isServing }
        var isBad: Bool { isOut || !isReady || sparedUntil != nil }
        var nextTime: Instant? {
            switch state {
            case .ejected(let until): until
            // Without a link there is nothing to return to.
            case .probing(let until): isReady ? until : nil
            case .serving: sparedUntil
            }
        }
        var isProbing: Bool { if case .probing = state { true } else { false } }
    }

    private enum Server: Hashable, Sendable {
        case member(UInt64)
        case group(String)
    }

    private struct Counts: Sendable {
        var all = 0
        var bad = 0

        var capacity: Double { all > 0 ? min(1, OutlierRules.overprovisioning * Double(all - bad) / Double(all)) : 0 }
    }

    /// How much of their zone's load the good members can carry, relative to their share. Envoy: 1.4.
    static let overprovisioning = 1.4

    private let settings: Settings
    private var members: [UInt64: Member] = [:]
    /// The number of members that are ejected, probing or spared, also those without a route.
    private var withheldCount = 0
    /// The following counts are of members with a route. Out: ejected or probing. Compared: ejected by a comparison.
    private var reachableCount = 0
    private var outCount = 0
    private var sparedCount = 0
    private var comparedCount = 0
    private var (local, remote) = (Counts(), Counts())
    private var servers: [Server: Counts] = [:]
    /// The number of servers.
    private(set) var badCount = 0
    private(set) var isPanicking = false

    init(_ settings: Settings = Settings()) { self.settings = settings }

    var count: Int { members.count }

    func state(of id: UInt64) -> State? { members[id]?.state }

    func isInUse(_ id: UInt64) -> Bool {
        members[id].map { $0.isReady && ($0.isServing || isPanicking) } ?? false
    }

    /// Whether the member is ready, and neither out of use nor due to be; `nil` if it is unknown.
    func isGood(_ id: UInt64) -> Bool? { members[id].map { !$0.isBad } }

    func mayProbe(_ id: UInt64) -> Bool {
        members[id].map { $0.isProbing && $0.isReady && !$0.isProbed } ?? false
    }

    /// Until then, only requests that may be performed twice are probes; `nil` if the member is not probing.
    func opensToAllRequests(_ id: UInt64) -> Instant? {
        guard case .probing(let until)? = members[id]?.state else { return nil }
        return until.advanced(by: settings.preferenceTime - settings.probingTime)
    }

    var nextTime: Instant? {
        guard withheldCount > 0 else { return nil }
        return members.values.lazy.compactMap(\.nextTime).min()
    }

    /// Adds a member without a ready link; a known one does not change. It cannot begin a panic: its link has not had
    /// the time to become ready.
    mutating func add(_ id: UInt64, group: String? = nil, isLocal: Bool = true) -> [Action] {
        guard members[id] == nil else { return [] }
        var member = Member(group.map { .group($0) } ?? .member(id))
        member.isLocal = isLocal
        set(id, member)
        return panicActions(mayBegin: false)
    }

    mutating func regroup(_ id: UInt64, _ group: String?, isLocal: Bool = true) -> [Action] {
        let server = group.map { Server.group($0) } ?? .member(id)
        guard var member = members[id], member.server != server || member.isLocal != isLocal else { return [] }
        (member.server, member.isLocal) = (server, isLocal)
        set(id, member)
        return panicActions(mayBegin: false)
    }

    /// A ready member has a route, whatever becomes of its further links.
    mutating func setRoute(_ id: UInt64, exists hasRoute: Bool) -> [Action] {
        guard var member = members[id], hasRoute || !member.isReady, member.hasRoute != hasRoute else { return [] }
        member.hasRoute = hasRoute
        set(id, member)
        return panicActions(mayBegin: false)
    }

    /// If more are ejected than `maximumShare` of those that stay, they remain so for their time.
    mutating func remove(_ id: UInt64) -> [Action] {
        guard members[id] != nil else { return [] }
        set(id, nil)
        return panicActions(mayBegin: true)
    }

    mutating func setReady(_ id: UInt64, _ isReady: Bool) -> [Action] {
        guard var member = members[id], member.isReady != isReady else { return [] }
        member.isReady = isReady
        if isReady { member.hasRoute = true }
        if !isReady { member.hasServedWell = false }
        set(id, member)
        return (mayProbe(id) ? [.mayBeProbed(id)] : []) + panicActions(mayBegin: !isReady)
    }

    mutating func noteFailuresInARow(
        _ id: UInt64,
        count: Int,
        at now: Instant,
        using generator: inout SeededGenerator
    ) -> [Action] {
        guard let limit = settings.consecutiveFailures, count >= max(1, limit) else { return [] }
        return eject(id, for: .failuresInARow(count), at: now, using: &generator)
    }

    /// Ejects the outliers of an interval, among the members that are serving. Of a member that occurs twice, the first
    /// facts count.
    mutating func closeInterval(
        _ facts: [Facts],
        at now: Instant,
        using generator: inout SeededGenerator
    ) -> [Action] {
        var known = Set<UInt64>()
        let comparable = facts.filter { members[$0.id]?.isServing == true && known.insert($0.id).inserted }
        let outliers = settings.successRate.map { $0.outliers(comparable) } ?? []
        let wrong = settings.errorRate.map { $0.outliers(comparable) } ?? []
        let slow = settings.latency.map { $0.outliers(comparable) } ?? []
        var actions: [Action] = []
        for (id, reason) in outliers + wrong + slow {
            actions += eject(id, for: reason, at: now, using: &generator)
        }
        for id in members.keys {
            guard var member = members[id], member.isServing else { continue }
            if member.hasServedWell { member.ejections = max(0, member.ejections - 1) }
            member.hasServedWell = member.isReady
            set(id, member)
        }
        return actions
    }

    /// Ejects a member. If too many are bad, spares it, unless the reason is a comparison.
    private mutating func eject(
        _ id: UInt64,
        for reason: Reason,
        at now: Instant,
        using generator: inout SeededGenerator
    ) -> [Action] {
        // A single member is always used.
        guard reachableCount > 1, var member = members[id], member.isServing else { return [] }
        member.hasServedWell = false
        let most = settings.mostOut(of: reachableCount)
        // During a panic, too many are bad without this one.
        let isPossible = outCount < most && !areTooManyBad(with: member)
        let isCompared = reason.isComparison
        if most == 0 || isCompared && (!isPossible || comparedCount >= settings.mostCompared(of: reachableCount)) {
            set(id, member)
            return []
        }
        guard isPossible else {
            member.sparedUntil = now.advanced(by: settings.ejectionTime(1))
            set(id, member)
            return panicActions(mayBegin: true)
        }
        return [takeOut(id, member, for: reason, at: now, using: &generator)] + panicActions(mayBegin: true)
    }

    private mutating func takeOut(
        _ id: UInt64,
        _ member: Member,
        for reason: Reason,
        at now: Instant,
        using generator: inout SeededGenerator
    ) -> Action {
        var member = member
        member.ejections = member.ejections.addingClamped(1)
        member.isProbed = false
        member.sparedUntil = nil
        if reason != .probeFailed { member.isCompared = reason.isComparison }
        let until = now.advanced(by: settings.jittered(settings.ejectionTime(member.ejections), using: &generator))
        member.state = .ejected(until: until)
        set(id, member)
        return .ejected(id, until: until, reason: reason)
    }

    mutating func time(at now: Instant) -> [Action] {
        guard withheldCount > 0 else { return [] }
        var actions: [Action] = []
        // In the order of their numbers: that of a dictionary differs from process to process.
        for id in members.keys.sorted() {
            guard var member = members[id], let end = member.nextTime, end <= now else { continue }
            switch member.state {
            case .ejected:
                member.state = .probing(until: now.advanced(by: settings.probingTime))
                actions.append(.mayBeProbed(id))
            case .probing:
                member.serve(since: now)
                actions.append(.returned(id))
            case .serving: member.sparedUntil = nil
            }
            set(id, member)
        }
        return actions + panicActions(mayBegin: false)
    }

    /// Each probe must end with `probeEnded` or `probeCancelled`, also if the link is lost: until then no other begins.
    mutating func probeBegan(_ id: UInt64) -> [Action] {
        guard var member = members[id], member.isProbing else { return [] }
        member.isProbed = true
        set(id, member)
        return []
    }

    /// A member whose probe fails is ejected again, also during a panic. The outcome of a probe that has not begun, or
    /// whose member was removed, changes nothing.
    mutating func probeEnded(
        _ id: UInt64,
        succeeded: Bool,
        at now: Instant,
        using generator: inout SeededGenerator
    ) -> [Action] {
        guard var member = members[id], member.isProbed else { return [] }
        guard succeeded else { return [takeOut(id, member, for: .probeFailed, at: now, using: &generator)] }
        member.serve(since: now)
        set(id, member)
        return [.returned(id)] + panicActions(mayBegin: false)
    }

    mutating func probeCancelled(_ id: UInt64) -> [Action] {
        guard var member = members[id], member.isProbed else { return [] }
        member.isProbed = false
        set(id, member)
        return mayProbe(id) ? [.mayBeProbed(id)] : []
    }

    /// The only way to change `members`: keeps the counts.
    private mutating func set(_ id: UInt64, _ member: Member?) {
        count(members[id], by: -1)
        count(member, by: 1)
        members[id] = member
    }

    private mutating func count(_ member: Member?, by step: Int) {
        guard let member else { return }
        if member.isOut || member.sparedUntil != nil { withheldCount += step }
        guard member.hasRoute else { return }
        reachableCount += step
        if member.isOut { outCount += step }
        if member.isOut, member.isCompared { comparedCount += step }
        let badStep = member.isBad ? step : 0
        if member.isLocal {
            (local.all, local.bad) = (local.all + step, local.bad + badStep)
        } else {
            (remote.all, remote.bad) = (remote.all + step, remote.bad + badStep)
        }
        if member.sparedUntil != nil { sparedCount += step }
        var counts = servers[member.server] ?? Counts()
        if counts.all > 0, counts.bad == counts.all { badCount -= 1 }
        counts.all += step
        if member.isBad { counts.bad += step }
        if counts.all > 0, counts.bad == counts.all { badCount += 1 }
        servers[member.server] = counts.all > 0 ? counts : nil
    }

    private func isLastGood(_ member: Member) -> Bool {
        guard member.hasRoute, !member.isBad, let counts = servers[member.server] else { return false }
        return counts.bad == counts.all - 1
    }

    private func areTooManyBad(with member: Member? = nil) -> Bool {
        let bad = badCount + (member.map { isLastGood($0) ? 1 : 0 } ?? 0)
        guard bad > servers.count - bad else { return false }
        guard local.all > 0, remote.all > 0 else { return true }
        var (local, remote) = (local, remote)
        if let member, member.hasRoute, !member.isBad {
            if member.isLocal { local.bad += 1 } else { remote.bad += 1 }
        }
        return local.capacity + remote.capacity < 1
    }

    private mutating func panicActions(mayBegin: Bool) -> [Action] {
        let isDue = outCount + sparedCount > 0 && areTooManyBad()
        guard isDue != isPanicking, mayBegin || isPanicking else { return [] }
        isPanicking = isDue
        return [isDue ? .panicBegan(bad: badCount, of: servers.count) : .panicEnded]
    }
}

extension OutlierRules.Reason {
    fileprivate var isComparison: Bool {
        switch self {
        case .failuresInARow, .probeFailed: false
        case .successRate, .errorRate, .latency: true
        }
    }
}
