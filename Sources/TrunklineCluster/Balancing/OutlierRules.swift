package import TrunklineCore

/// Decides which members of a cluster are out of use because they fail or are slow: when a member is ejected, probed
/// and returned. The model is the outlier detection of Envoy and of gRPC (gRFC A50).
///
/// Each input returns the actions that follow from it, in order. A member has one of three states:
///
///       add ──► serving ──(ejection: failures in a row, success rate, error rate, latency)──► ejected ◄─────┐
///                  ▲                                                                             │          │
///                  │                                                                     (its time is over) │
///                  │                                                                             ▼          │
///                  └─────(returned: a probe succeeded, or none failed in time)──────────────── probing ─────┘
///                                                                                  (probe failed: ejected again)
///
/// A member is bad if it is ejected, probing, without a ready link, or spared: its ejection was due, but was not
/// carried out. It stays spared for `baseTime`. After an ejection, at most half of the servers are bad, or the zones
/// can carry the load together (see below), so the last ready member is never ejected.
///
/// A comparison with other members may be wrong. So it ejects a small share of them (`comparedShare`), and an outlier
/// that it cannot eject is not spared, but is as good as before.
///
/// A member is a server, with two exceptions. A member to which this host has no route does not count: it says nothing
/// about its server. The members of one group are addresses of the same server, which is bad if all of them are.
///
///     no panic ──(a member becomes bad or is removed, and now more than half are bad)──► panic
///         ▲                                                                                │
///         └──(at most half are bad, or no member is ejected, probing or spared)────────────┘
///
/// "Half" is that of the servers. During a panic no serving member is ejected, and the caller uses every ready member.
/// If most members fail, the cause is probably elsewhere, such as the network or the requests, and the other members
/// could not carry the load. Ejections still end, and probes still decide, so that the states are right when the panic
/// ends. If no member is ejected, probing or spared, there is no panic, because it would change nothing.
///
/// If some members are in the zone of this process and others are not, there is no panic as long as the good members of
/// both can carry the load, as with the priorities of Envoy: the share of good ones among the local members and that
/// among the remote ones, each times `overprovisioning` and at most 1, make 1 or more together.
package struct OutlierRules: Sendable {
    package enum State: Hashable, Sendable {
        /// In use. → ejected. `slowStart` is when the member returned from its last ejection, if it had one.
        case serving(slowStart: Instant?)
        /// Not in use before `until`. → probing.
        case ejected(until: Instant)
        /// Not in use, but one request at a time may try it. At `until` it is used again, if it is ready and no probe
        /// has failed. → serving, ejected.
        case probing(until: Instant)
    }

    package enum Reason: Hashable, Sendable {
        /// The number of failures in a row has reached the limit.
        case failuresInARow(Int)
        /// The success rate of an interval, which is less than `limit`.
        case successRate(Double, limit: Double)
        /// The share of requests of an interval that failed or were answered with an error, and the median of the
        /// members' shares.
        case errorRate(Double, median: Double)
        /// The mean latency of an interval, and the median of the members' means.
        case latency(Duration, median: Duration)
        case probeFailed
    }

    package enum Action: Hashable, Sendable {
        /// The member is out of use.
        case ejected(UInt64, until: Instant, reason: Reason)
        /// The member's time is over. Try it with one request, as soon as it has a ready link.
        case mayBeProbed(UInt64)
        /// The member is in use again, and its slow start begins.
        case returned(UInt64)
        /// Every ready member is in use.
        case panicBegan(bad: Int, of: Int)
        case panicEnded
    }

    /// What one member's requests met in an interval. Negative numbers count as 0.
    package struct Facts: Hashable, Sendable {
        package var id: UInt64
        package var successes: Int
        package var failures: Int
        /// The number of all these requests that failed or were answered with an error. Error responses that are no
        /// failures are among the successes.
        package var errors: Int
        /// The sum of the latencies of all answers, in nanoseconds.
        package var latencyNanoseconds: Int64
        /// The number of answers whose latency was measured.
        package var answers: Int

        package init(
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
        /// Whether the caller has begun a probe. False unless the state is probing.
        var isProbed = false
        /// The end of the time for which the member is spared. `nil` unless the state is serving.
        var sparedUntil: Instant?
        /// The number of ejections in a row, less one for every interval of good service.
        var ejections = 0
        /// Whether the member was in use, ready, and not due for ejection since the interval began.
        var hasServedWell = false
        /// The server of which it is an address.
        var server: Server
        /// Whether this host may have a route to the member. If not, the member does not count.
        var hasRoute = true
        /// Whether it is in the zone of this process.
        var isLocal = true
        /// Whether a comparison has ejected it. No meaning while it is serving.
        var isCompared = false

        init(_ server: Server) { self.server = server }

        /// Returns to service.
        mutating func serve(since now: Instant) {
            (state, isProbed, hasServedWell) = (.serving(slowStart: now), false, false)
        }

        var isServing: Bool {
            if case .serving = state { true } else { false }
        }
        var isOut: Bool { !isServing }
        var isBad: Bool { isOut || !isReady || sparedUntil != nil }
        /// When time changes the member.
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

    /// A server: a member of its own, or a group of them.
    private enum Server: Hashable, Sendable {
        case member(UInt64)
        case group(String)
    }

    /// The members of one server, or of one zone, that count.
    private struct Counts: Sendable {
        var all = 0
        var bad = 0

        /// The share of the whole load that the good ones of a zone can carry.
        var capacity: Double { all > 0 ? min(1, OutlierRules.overprovisioning * Double(all - bad) / Double(all)) : 0 }
    }

    /// How much of the load of their zone the good members can carry, relative to their share. Envoy: 1.4.
    package static let overprovisioning = 1.4

    private let settings: Settings
    private var members: [UInt64: Member] = [:]
    /// The number of members that are ejected, probing or spared.
    private var withheldCount = 0
    /// The number of members that count.
    private var reachableCount = 0
    /// The number of these that are ejected or probing.
    private var outCount = 0
    private var sparedCount = 0
    /// The number of those out that a comparison has ejected.
    private var comparedCount = 0
    /// The members of the zone of this process that count, and the others.
    private var (local, remote) = (Counts(), Counts())
    /// The servers that have members that count.
    private var servers: [Server: Counts] = [:]
    /// The number of bad servers.
    package private(set) var badCount = 0
    /// Whether there is a panic: the caller uses every ready member, whatever its state.
    package private(set) var isPanicking = false

    package init(_ settings: Settings = Settings()) { self.settings = settings }

    // MARK: Getters

    /// The number of members.
    package var count: Int { members.count }

    /// The state of a member; `nil` if it is unknown.
    package func state(of id: UInt64) -> State? { members[id]?.state }

    /// Whether requests may be sent to the member: it is ready, and it is serving or there is a panic.
    package func isInUse(_ id: UInt64) -> Bool {
        members[id].map { $0.isReady && ($0.isServing || isPanicking) } ?? false
    }

    /// Whether the member is ready, and neither out of use nor due to be; `nil` if it is unknown.
    package func isGood(_ id: UInt64) -> Bool? { members[id].map { !$0.isBad } }

    /// Whether a probe of the member may begin: it is probing and ready, and no other probe has begun.
    package func mayProbe(_ id: UInt64) -> Bool {
        members[id].map { $0.isProbing && $0.isReady && !$0.isProbed } ?? false
    }

    /// When every request may be the probe of a member; `nil` if it is not probing. Until then, only requests that may
    /// be performed twice may.
    package func opensToAllRequests(_ id: UInt64) -> Instant? {
        guard case .probing(let until)? = members[id]?.state else { return nil }
        return until.advanced(by: settings.preferenceTime - settings.probingTime)
    }

    /// When `time(at:)` must be called; `nil` if time changes nothing.
    package var nextTime: Instant? {
        guard withheldCount > 0 else { return nil }
        return members.values.lazy.compactMap(\.nextTime).min()
    }

    // MARK: Members

    /// Adds a member without a ready link. A member that is removed and added again starts afresh. If the member is
    /// known, nothing changes.
    ///
    /// A new member cannot begin a panic: its link has not had the time to become ready.
    ///
    /// - Parameters:
    ///   - group: The name of a server with several addresses, each of which is a member; `nil` if the member is the
    ///     only one of its server.
    ///   - isLocal: Whether it is in the zone of this process. Default true, also if zones do not matter.
    package mutating func add(_ id: UInt64, group: String? = nil, isLocal: Bool = true) -> [Action] {
        guard members[id] == nil else { return [] }
        var member = Member(group.map { .group($0) } ?? .member(id))
        member.isLocal = isLocal
        set(id, member)
        return panicActions(mayBegin: false)
    }

    /// Changes the group and the zone of a member.
    package mutating func regroup(_ id: UInt64, _ group: String?, isLocal: Bool = true) -> [Action] {
        let server = group.map { Server.group($0) } ?? .member(id)
        guard var member = members[id], member.server != server || member.isLocal != isLocal else { return [] }
        (member.server, member.isLocal) = (server, isLocal)
        set(id, member)
        return panicActions(mayBegin: false)
    }

    /// Records whether this host has a route to the member. A ready member has one, whatever becomes of its further
    /// links.
    package mutating func setRoute(_ id: UInt64, exists hasRoute: Bool) -> [Action] {
        guard var member = members[id], hasRoute || !member.isReady, member.hasRoute != hasRoute else { return [] }
        member.hasRoute = hasRoute
        set(id, member)
        return panicActions(mayBegin: false)
    }

    /// Removes a member. If more are ejected than `maximumShare` of those that stay, they remain so for their time.
    package mutating func remove(_ id: UInt64) -> [Action] {
        guard members[id] != nil else { return [] }
        set(id, nil)
        return panicActions(mayBegin: true)
    }

    /// Records whether the member has a ready link. If it is waiting for a probe, it may be probed now.
    package mutating func setReady(_ id: UInt64, _ isReady: Bool) -> [Action] {
        guard var member = members[id], member.isReady != isReady else { return [] }
        member.isReady = isReady
        if isReady { member.hasRoute = true }
        if !isReady { member.hasServedWell = false }
        set(id, member)
        return (mayProbe(id) ? [.mayBeProbed(id)] : []) + panicActions(mayBegin: !isReady)
    }

    // MARK: Ejection

    /// Records that the last `count` requests of a member have failed. Does nothing while `count` is less than
    /// `consecutiveFailures`.
    package mutating func noteFailuresInARow(
        _ id: UInt64,
        count: Int,
        at now: Instant,
        using generator: inout SeededGenerator
    ) -> [Action] {
        guard let limit = settings.consecutiveFailures, count >= max(1, limit) else { return [] }
        return eject(id, for: .failuresInARow(count), at: now, using: &generator)
    }

    /// Ejects the outliers of an interval. Call it every `interval`. Only members that are serving are compared. Of a
    /// member that occurs twice, the first facts count.
    ///
    /// A member that was serving, ready and no outlier for the whole interval has one ejection in a row less.
    package mutating func closeInterval(
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

    /// Ejects a member that is serving. If too many are bad, spares it, unless the reason is a comparison.
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

    // MARK: Return

    /// Ends the ejections whose time is over, and the probing of ready members that were not probed in time. Call it at
    /// `nextTime`.
    package mutating func time(at now: Instant) -> [Action] {
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

    /// Records that a probe of a member has begun. Each must end, with `probeEnded` or `probeCancelled`, also if the
    /// member's link is lost: until then no other probe begins.
    package mutating func probeBegan(_ id: UInt64) -> [Action] {
        guard var member = members[id], member.isProbing else { return [] }
        member.isProbed = true
        set(id, member)
        return []
    }

    /// Records the outcome of a probe. A member whose probe fails is ejected again, for longer, also during a panic.
    /// The outcome of a probe that has not begun, or that the member's removal has made void, changes nothing.
    package mutating func probeEnded(
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

    /// Records that a probe of a member ended without an outcome, for example because its request was cancelled.
    package mutating func probeCancelled(_ id: UInt64) -> [Action] {
        guard var member = members[id], member.isProbed else { return [] }
        member.isProbed = false
        set(id, member)
        return mayProbe(id) ? [.mayBeProbed(id)] : []
    }

    // MARK: Counts

    /// Stores or removes a member, and keeps the counts.
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

    /// Whether the server of `member` is bad as soon as that is.
    private func isLastGood(_ member: Member) -> Bool {
        guard member.hasRoute, !member.isBad, let counts = servers[member.server] else { return false }
        return counts.bad == counts.all - 1
    }

    /// Whether the good members cannot carry the load.
    ///
    /// - Parameter member: A member that is to be bad, too.
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

    /// Begins or ends a panic if that is due.
    private mutating func panicActions(mayBegin: Bool) -> [Action] {
        let isDue = outCount + sparedCount > 0 && areTooManyBad()
        guard isDue != isPanicking, mayBegin || isPanicking else { return [] }
        isPanicking = isDue
        return [isDue ? .panicBegan(bad: badCount, of: servers.count) : .panicEnded]
    }
}

extension OutlierRules.Reason {
    /// Whether the member was compared with others, which may be wrong.
    fileprivate var isComparison: Bool {
        switch self {
        case .failuresInARow, .probeFailed: false
        case .successRate, .errorRate, .latency: true
        }
    }
}
