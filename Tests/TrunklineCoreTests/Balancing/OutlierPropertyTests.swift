import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// Random inputs. The invariants are computed from the inputs and the returned actions, not from the counts of the
/// rules.
@Suite struct OutlierPropertyTests {}

extension OutlierPropertyTests {
    @Test func theInvariantsHold() {
        for seed in seeds(2000) {
            var run = Run(seed: seed)
            for step in 0..<200 {
                run.step()
                if let problem = run.problem {
                    Issue.record("seed \(seed), step \(step): \(problem)")
                    return
                }
            }
            run.finish()
            if let problem = run.problem { Issue.record("seed \(seed), at the end: \(problem)") }
        }
    }

    /// The inputs reach every action and reason; otherwise the test above would prove little.
    @Test func theInputsReachEverything() {
        var reached: [String: Int] = [:]
        for seed in UInt64(0)..<400 {
            var run = Run(seed: seed)
            for _ in 0..<200 { run.step() }
            reached.merge(run.reached, uniquingKeysWith: +)
        }
        for name in [
            "failuresInARow", "successRate", "errorRate", "latency", "probeFailed", "mayBeProbed", "returned",
            "returned by time", "panicBegan", "panicEnded",
        ] {
            #expect(reached[name, default: 0] >= 20, "\(name)")
        }
    }

    @Test func theSameSeedGivesTheSameActions() {
        for seed in UInt64(0)..<50 {
            var (one, other) = (Run(seed: seed), Run(seed: seed))
            for _ in 0..<200 {
                one.step()
                other.step()
                #expect(one.actions == other.actions, "seed \(seed)")
            }
        }
    }
}

/// Rules, and a simple model of them.
private struct Run {
    private struct Model {
        var state = OutlierRules.State.serving(slowStart: nil)
        var isReady = false
        var isProbed = false
        var sparedUntil: Instant?
        /// The number of ejections since the member was added.
        var ejections = 0
        var isLocal = true
        /// Whether a comparison has ejected it.
        var isCompared = false

        var isServing: Bool { if case .serving = state { true } else { false } }
        var isProbing: Bool { if case .probing = state { true } else { false } }
        var isBad: Bool { !isServing || !isReady || sparedUntil != nil }
        /// Whether time changes it.
        var isTimed: Bool {
            switch state {
            case .serving: sparedUntil != nil
            case .ejected: true
            case .probing: isReady
            }
        }
    }

    private var generator: SeededGenerator
    private var jitter: SeededGenerator
    private let settings: OutlierRules.Settings
    private let hasZones: Bool
    private var rules: OutlierRules
    private var now = Instant(nanoseconds: 5_000_000_000)
    private var models: [UInt64: Model] = [:]
    private var isPanicking = false
    /// The actions of the latest input.
    private(set) var actions: [OutlierRules.Action] = []
    /// The first invariant that did not hold.
    private(set) var problem: String?
    private(set) var reached: [String: Int] = [:]

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
        jitter = SeededGenerator(seed: ~seed)
        var settings = OutlierRules.Settings()
        settings.maximumShare = [0, 0.1, 0.3, 0.5, 0.5, 0.5, 1].randomElement(using: &generator) ?? 0.5
        settings.comparedShare = [0, 0.1, 0.5, 0.5, 0.5, 0.5].randomElement(using: &generator) ?? 0.1
        hasZones = Bool.random(using: &generator)
        settings.baseTime = .seconds(Int.random(in: 1...30, using: &generator))
        settings.maximumTime = .seconds(Int.random(in: 30...100, using: &generator))
        settings.successRate?.minimumRequests = 1
        settings.successRate?.deviations = 1
        self.settings = settings
        rules = OutlierRules(settings)
        for id in 0..<UInt64.random(in: 0...9, using: &generator) {
            let isLocal = !hasZones || Bool.random(using: &generator)
            perform { $0.add(id, isLocal: isLocal) }
            models[id] = Model(isLocal: isLocal)
            perform { $0.setReady(id, true) }
            models[id]?.isReady = true
        }
    }

    // MARK: Inputs

    private mutating func perform(_ input: (inout OutlierRules) -> [OutlierRules.Action]) { actions = input(&rules) }

    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

    mutating func step() {
        if chance(50) { now = now.advanced(by: .milliseconds(Int.random(in: 0...4000, using: &generator))) }
        // The caller calls `time(at:)` as soon as it is due.
        if let next = rules.nextTime, next <= now { endTimes() }
        guard problem == nil else { return }
        let id = UInt64.random(in: 0...9, using: &generator)
        switch Int.random(in: 0..<100, using: &generator) {
        case 0..<4: add(id)
        case 4..<7: remove(id)
        case 7..<35: setReady(id, chance(75))
        case 35..<55: fail(id)
        case 55..<65: closeInterval()
        case 65..<90: probe(id)
        case 90..<93: move(id)
        default: endTimes()
        }
    }

    private mutating func add(_ id: UInt64) {
        let isKnown = models[id] != nil
        let isLocal = !hasZones || chance(60)
        perform { $0.add(id, isLocal: isLocal) }
        if !isKnown { models[id] = Model(isLocal: isLocal) }
        check(mayBegin: false)
    }

    private mutating func move(_ id: UInt64) {
        let isLocal = !hasZones || chance(60)
        perform { $0.regroup(id, nil, isLocal: isLocal) }
        models[id]?.isLocal = isLocal
        check(mayBegin: false)
    }

    private mutating func remove(_ id: UInt64) {
        let isKnown = models.removeValue(forKey: id) != nil
        perform { $0.remove(id) }
        check(mayBegin: isKnown)
    }

    private mutating func setReady(_ id: UInt64, _ isReady: Bool) {
        let isChange = models[id].map { $0.isReady != isReady } ?? false
        models[id]?.isReady = isReady
        perform { $0.setReady(id, isReady) }
        let isWaiting = models[id].map { $0.isProbing && !$0.isProbed } ?? false
        let isInvited = isChange && isReady && isWaiting
        expect(actions.contains(.mayBeProbed(id)) == isInvited, "invitation to probe \(id)")
        check(mayBegin: isChange && !isReady)
    }

    private mutating func fail(_ id: UInt64) {
        let count = Int.random(in: 3...6, using: &generator)
        let wasDue = count >= 5 && models.count > 1 && models[id]?.isServing == true
        let expectation = ejectionIsPossible(id)
        actions = rules.noteFailuresInARow(id, count: count, at: now, using: &jitter)
        if wasDue { judge(id, expectation) } else { expect(actions.isEmpty, "actions without a reason") }
        check(mayBegin: wasDue)
    }

    private mutating func closeInterval() {
        var facts: [OutlierRules.Facts] = []
        for id in UInt64(0)...9 where chance(90) {
            let answers = Int.random(in: 0...60, using: &generator)
            let milliseconds = chance(85) ? Int64.random(in: 1...3, using: &generator) : 200
            let successes = Int.random(in: chance(85) ? 95...100 : 0...100, using: &generator)
            let failures = Int.random(in: 0...5, using: &generator)
            facts.append(
                OutlierRules.Facts(
                    id: id,
                    successes: successes,
                    failures: failures,
                    errors: failures + (chance(85) ? 0 : Int.random(in: 0...successes, using: &generator)),
                    latencyNanoseconds: milliseconds * 1_000_000 * Int64(answers),
                    answers: answers
                )
            )
        }
        let comparable = facts.filter { models[$0.id]?.isServing == true }
        let due =
            (settings.successRate?.outliers(comparable) ?? []) + (settings.errorRate?.outliers(comparable) ?? [])
            + (settings.latency?.outliers(comparable) ?? [])
        actions = rules.closeInterval(facts, at: now, using: &jitter)
        let wasPanicking = isPanicking
        var rest = actions[...]
        var judged = Set<UInt64>()
        for (id, reason) in due where models.count > 1 && judged.insert(id).inserted {
            // A comparison that does not lead to an ejection changes nothing.
            if ejectionIsPossible(id), comparedCount < most(settings.comparedShare) {
                guard let action = rest.popFirst(), case .ejected(id, _, reason) = action else {
                    return expect(false, "no ejection of \(id)")
                }
                apply(action)
            }
        }
        expect(rest.isEmpty, "actions without a reason")
        check(wasPanicking: wasPanicking, mayBegin: false)
    }

    private mutating func probe(_ id: UInt64) {
        let model = models[id]
        expect(
            rules.mayProbe(id) == (model.map { $0.isProbing && $0.isReady && !$0.isProbed } ?? false),
            "mayProbe"
        )
        if model?.isProbed == true {
            if chance(20) {
                perform { $0.probeCancelled(id) }
                models[id]?.isProbed = false
                expect(actions == (model?.isReady == true ? [.mayBeProbed(id)] : []), "cancelled probe")
            } else {
                let succeeded = chance(60)
                actions = rules.probeEnded(id, succeeded: succeeded, at: now, using: &jitter)
                models[id]?.isProbed = false
                switch actions.first {
                case .returned(id)?: expect(succeeded, "return after a failed probe")
                case .ejected(id, _, .probeFailed)?: expect(!succeeded, "ejection after a good probe")
                default: expect(false, "a probe without an outcome")
                }
            }
        } else if chance(70) {
            perform { $0.probeBegan(id) }
            if model?.isProbing == true { models[id]?.isProbed = true }
            expect(actions.isEmpty, "actions at the beginning of a probe")
        } else {
            actions = rules.probeEnded(id, succeeded: true, at: now, using: &jitter)
            expect(actions.isEmpty, "the outcome of a probe that has not begun")
        }
        check(mayBegin: false)
    }

    private mutating func endTimes() {
        let now = now
        let due = models.filter { if case .ejected(let until) = $0.value.state { until <= now } else { false } }
        let returning = models.filter {
            if case .probing(let until) = $0.value.state { $0.value.isReady && until <= now } else { false }
        }
        perform { $0.time(at: now) }
        expect(actions.count { if case .returned = $0 { true } else { false } } == returning.count, "ends of probing")
        for id in returning.keys {
            expect(actions.contains(.returned(id)), "the end of the probing of \(id)")
            models[id]?.isProbed = false
            reached["returned by time", default: 0] += 1
        }
        expect(actions.count { if case .mayBeProbed = $0 { true } else { false } } == due.count, "ends of ejections")
        for id in due.keys { expect(actions.contains(.mayBeProbed(id)), "the end of the ejection of \(id)") }
        for id in models.keys where models[id]?.sparedUntil.map({ $0 <= now }) == true { models[id]?.sparedUntil = nil }
        check(mayBegin: false)
        expect(rules.nextTime.map { $0 > now } ?? true, "time(at:) left something to do")
    }

    /// Lets time pass without other inputs: every ejected member may be probed in the end.
    mutating func finish() {
        for _ in 0..<50 {
            guard problem == nil, let next = rules.nextTime else { break }
            now = max(now, next)
            endTimes()
        }
        expect(rules.nextTime == nil, "time never ends")
        for (id, model) in models {
            expect(model.isServing || model.isProbing && !model.isReady, "member \(id) stays out")
        }
    }

    // MARK: Rules

    private var badCount: Int { models.values.count { $0.isBad } }
    private var outCount: Int { models.values.count { !$0.isServing } }

    /// Whether a serving member may be ejected now.
    private func ejectionIsPossible(_ id: UInt64) -> Bool {
        guard let model = models[id], model.isServing, !isPanicking else { return false }
        return outCount < most(settings.maximumShare) && !areTooManyBad(with: id)
    }

    private func most(_ share: Double) -> Int {
        share > 0 ? max(1, Int(Double(models.count) * min(share, 0.5))) : 0
    }

    private var comparedCount: Int { models.values.count { !$0.isServing && $0.isCompared } }

    /// Whether more than half are bad, and the good ones of both zones cannot carry the load together.
    private func areTooManyBad(with id: UInt64? = nil) -> Bool {
        let bad = models.filter { $0.value.isBad || $0.key == id }.values
        guard 2 * bad.count > models.count else { return false }
        var capacity = 0.0
        for isLocal in [true, false] {
            let all = models.values.count { $0.isLocal == isLocal }
            guard all > 0 else { return true }
            capacity += min(1, 1.4 * Double(all - bad.count { $0.isLocal == isLocal }) / Double(all))
        }
        return capacity < 1
    }

    /// A member's ejection was due: it is carried out, or else the member is spared.
    private mutating func judge(_ id: UInt64, _ isPossible: Bool) {
        var isEjected = false
        for case .ejected(id, _, _) in actions { isEjected = true }
        expect(isEjected == isPossible, "ejection of \(id)")
        if !isEjected, settings.maximumShare > 0 { models[id]?.sparedUntil = now.advanced(by: settings.baseTime) }
    }

    /// Applies the actions, and checks the result.
    private mutating func check(mayBegin: Bool) {
        let wasPanicking = isPanicking
        for action in actions { apply(action) }
        check(wasPanicking: wasPanicking, mayBegin: mayBegin)
    }

    private mutating func check(wasPanicking: Bool, mayBegin: Bool) {
        for action in actions { count(action) }
        expect(isPanicking == rules.isPanicking, "isPanicking")
        for (id, model) in models { expect(rules.state(of: id) == model.state, "the state of \(id)") }
        expect(rules.count == models.count, "the number of members")
        expect(badCount == rules.badCount, "the number of bad members")
        let isWithheld = outCount > 0 || models.values.contains { $0.sparedUntil != nil }
        let isDue = areTooManyBad() && isWithheld
        for (id, model) in models { expect(rules.isGood(id) == !model.isBad, "whether \(id) is good") }
        expect(isPanicking == (isDue && (wasPanicking || mayBegin)), "panic")
        checkUse()
    }

    /// Applies an action to the model, and checks that it was possible.
    private mutating func apply(_ action: OutlierRules.Action) {
        switch action {
        case .ejected(let id, let until, let reason):
            let wasProbing = models[id]?.isProbing == true
            expect(wasProbing == (reason == .probeFailed), "ejection from a wrong state")
            models[id]?.ejections += 1
            let most = settings.baseTime * (models[id]?.ejections ?? 0)
            let time = until.since(now)
            expect(time >= settings.baseTime * 0.899, "an ejection of \(time)")
            expect(time <= min(most, settings.maximumTime) * 1.101, "an ejection of \(time)")
            models[id]?.state = .ejected(until: until)
            models[id]?.sparedUntil = nil
            switch reason {
            case .probeFailed: break
            case .failuresInARow: models[id]?.isCompared = false
            default: models[id]?.isCompared = true
            }
        case .mayBeProbed(let id):
            expect(models[id].map { !$0.isServing } ?? false, "a probe from a wrong state")
            if models[id]?.isProbing == false {
                models[id]?.state = .probing(until: now.advanced(by: settings.probingTime))
            }
        case .returned(let id):
            expect(models[id]?.isProbing == true, "a return from a wrong state")
            models[id]?.state = .serving(slowStart: now)
        case .panicBegan(let bad, let total):
            expect(!isPanicking, "a second panic")
            expect(bad == badCount && total == models.count, "a panic of \(bad) of \(total)")
            isPanicking = true
        case .panicEnded:
            expect(isPanicking, "the end of no panic")
            isPanicking = false
        }
    }

    private mutating func checkUse() {
        let ready = models.filter(\.value.isReady).keys
        let used = ready.filter { rules.isInUse($0) }
        expect(ready.isEmpty || !used.isEmpty, "all ready members are out of use")
        if isPanicking { expect(used.count == ready.count, "a ready member is withheld during a panic") }
        for id in models.keys where !ready.contains(id) { expect(!rules.isInUse(id), "\(id) is in use without a link") }
        expect((rules.nextTime != nil) == models.values.contains(where: \.isTimed), "nextTime")
    }

    private mutating func expect(_ condition: Bool, _ message: @autoclosure () -> String) {
        if !condition, problem == nil { problem = message() }
    }

    private mutating func count(_ action: OutlierRules.Action) {
        let name =
            switch action {
            case .ejected(_, _, .failuresInARow): "failuresInARow"
            case .ejected(_, _, .successRate): "successRate"
            case .ejected(_, _, .errorRate): "errorRate"
            case .ejected(_, _, .latency): "latency"
            case .ejected(_, _, .probeFailed): "probeFailed"
            case .mayBeProbed: "mayBeProbed"
            case .returned: "returned"
            case .panicBegan: "panicBegan"
            case .panicEnded: "panicEnded"
            }
        reached[name, default: 0] += 1
    }
}
