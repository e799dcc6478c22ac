import TrunklineCache

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// One simulated life of a cluster and its servers.
struct ClusterLife {
    let world: ClusterWorld
    private var plan: ClusterPlan { world.plan }
    private static let time = Duration.seconds(20)

    init(seed: UInt64, recordsTrace: Bool = false) {
        world = ClusterWorld(ClusterPlan(seed: seed), recordsTrace: recordsTrace)
    }

    /// Runs the life. Afterwards `world` contains what happened.
    func run() {
        do {
            let (outcomes, received) = try world.network.runBlocking { try await live() }
            world.judge(outcomes, received)
            if world.network.openLinks != 0 { world.violated("\(world.network.openLinks) links left over") }
            let timers = world.network.loop.timers.armedCount
            if timers != 0 { world.violated("\(timers) timers left over") }
        } catch {
            world.violated("\(error)")
        }
    }

    private func live() async throws -> ([ClusterCalls.Outcome], [[Frame]]) {
        try await world.startServers()
        var options = plan.clientOptions
        options.observers.append(world)
        let cluster = Cluster(
            discovering: plan.isNamed ? .dns(ClusterWorld.name) : Discovery(world.lists),
            speaking: plan.codec,
            options: options,
            on: world.network.loops
        ) { $0 = plan.options }
        world.watch(cluster)
        let calls = ClusterCalls(world: world, cluster: cluster, cached: CachingSender(cluster))
        async let watching: Void = watch(cluster)
        async let connecting: Void? = try? cluster.connect()
        async let discovering: Void = world.discover()
        async let answering: Void = world.answer(cluster)
        async let trouble: Void = world.makeTrouble(3)
        async let moreTrouble: Void = world.makeTrouble(4)
        async let closing: Void = closeEarly(cluster)
        let outcomes = await withTaskGroup(of: [ClusterCalls.Outcome].self) { group in
            for caller in 1...UInt64(12) {
                group.addTask { await calls.calls(of: caller, 8, within: Self.time) }
            }
            for number in 0..<plan.crowd { group.addTask { await calls.call(ofCrowd: UInt64(number)) } }
            return await group.reduce(into: []) { $0 += $1 }
        }
        try await discovering
        try await trouble
        try await moreTrouble
        try await closing
        await checkCounts(of: cluster, outcomes)
        world.mendEverything()
        world.note("everything is mended")
        if !plan.closesEarly {
            world.listAll()
            try await recover(cluster)
        }
        // Requests that were cancelled or abandoned end by themselves.
        try await world.pass(.seconds(1))
        for left in await cluster.leftLoads { world.violated("left over: \(left)") }
        for contradiction in await cluster.diagnostics.audit() { world.violated(contradiction) }
        await close(cluster)
        _ = await connecting
        world.end()
        try await watching
        try await answering
        for left in await cluster.leftLoads { world.violated("left over after the end: \(left)") }
        for contradiction in await cluster.diagnostics.audit() { world.violated("after the end: \(contradiction)") }
        let hedging = cluster.hedging.withLock { ($0.requests, $0.copies) }
        world.count("hedged", hedging.0)
        world.count("second copies", hedging.1)
        world.forgetCluster()
        for server in world.servers { await server.stop() }
        try await world.pass(.seconds(2))
        var received: [[Frame]] = []
        for server in world.servers { received.append(await server.received) }
        return (outcomes, received)
    }

    /// The cluster counts each call once, whatever its tries, and each one that failed.
    private func checkCounts(of cluster: Cluster, _ outcomes: [ClusterCalls.Outcome]) async {
        let metrics = await cluster.metrics
        let outcomes = outcomes.filter { !$0.isPiece }
        if metrics.calls != outcomes.count {
            world.violated("\(outcomes.count) calls were made, and \(metrics.calls) counted")
        }
        let failures = outcomes.compactMap { outcome in
            if case .failure(let error) = outcome.result { error } else { nil }
        }
        // A stream that is not read to its end may fail or not, and for any reason.
        let abandoned = failures.count { $0.message == ClusterCalls.abandoned }
        if let budget = plan.clientOptions.requests.retryBudget {
            // One more, because the calls and the retries are not counted at the same moment.
            let most =
                Double(budget.initial) + budget.share * Double(metrics.calls) + budget.perSecond * world.now.inSeconds
            if Double(metrics.retries) > most + 1 { world.violated("\(metrics.retries) retries, at most \(most)") }
        }
        let seen = Dictionary(
            failures.filter { $0.message != ClusterCalls.abandoned }.map { ($0.metric, 1) },
            uniquingKeysWith: +
        )
        let counted = metrics.failures
        let more = counted.values.reduce(0, +) - seen.values.reduce(0, +)
        if !(0...abandoned).contains(more) || seen.contains(where: { $0.value > counted[$0.key] ?? 0 }) {
            world.violated("the failures \(seen) were counted as \(counted), \(abandoned) calls were abandoned")
        }
    }

    // MARK: Meanwhile

    /// Looks at the cluster from time to time: an ejected server gets no requests, and no call waits while a server
    /// could take it.
    private func watch(_ cluster: Cluster) async throws {
        var last: Cluster.Look?
        var stuckSince: Duration?
        while !world.isOver {
            try await world.pass(.milliseconds(10))
            let look = await cluster.look()
            world.setEjected(Set(look.ejected.values.map(\.endpoint)))
            world.setProbing(look.probing)
            for endpoint in look.crowded { world.violated("\(endpoint) has more requests than its limit allows") }
            if let last {
                compare(last, look)
                // While only some servers are ready, a crowd goes on part by part.
                let isMoving = look.waiting < last.waiting
                if !isMoving, last.table === look.table, look.waiting > 0, look.hasRoom {
                    if let stuckSince, world.now - stuckSince >= .milliseconds(100) {
                        world.violated("\(look.waiting) calls wait since \(stuckSince) although a server has room")
                        return
                    }
                    stuckSince = stuckSince ?? world.now
                } else {
                    stuckSince = nil
                }
            }
            last = look
        }
    }

    private func compare(_ last: Cluster.Look, _ look: Cluster.Look) {
        if look.isPanicking, !last.isPanicking { world.count("panic") }
        if look.waiting > 0 { world.count("waiting calls") }
        if look.links > last.links { world.count("more links") }
        if look.waiting > 0, last.waiting - look.waiting > 0, look.hasRoom { world.count("release of a crowd") }
        for id in look.ejected.keys where last.ejected[id] == nil { world.count("ejection") }
        for id in last.ejected.keys where look.ejected[id] == nil { world.count("end of an ejection") }
        guard last.table === look.table else { return }
        for (id, server) in look.ejected {
            guard let before = last.ejected[id], server.inFlight > before.inFlight else { continue }
            world.violated("\(server.endpoint) is ejected and got a request")
        }
    }

    private func closeEarly(_ cluster: Cluster) async throws {
        guard plan.closesEarly else { return }
        var random = plan.random(5)
        try await world.pass(upTo: Self.time, &random)
        await close(cluster)
    }

    /// Closes cleanly or at once. An orderly close is limited in time, closing at once takes no time.
    private func close(_ cluster: Cluster) async {
        let began = world.now
        world.note("closing")
        if plan.closesAtOnce { await cluster.closeNow() } else { await cluster.close() }
        let (took, limit) = (world.now - began, plan.closesAtOnce ? .zero : plan.drainTimeout)
        if took > limit { world.violated("closing took \(took) of \(limit)") }
        world.note("closed")
    }

    // MARK: After the faults

    /// All servers that the cluster uses must serve again, and it must use all.
    private func recover(_ cluster: Cluster) async throws {
        let began = world.now
        world.beginCountingReceived()
        var missing = [Endpoint]()
        while world.now - began < plan.recoveryBound {
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<min(60, 3 * plan.hosts.count) {
                    group.addTask { _ = try? await cluster.send(ask(Bytes("recovery \(number)"))) }
                }
            }
            let (used, counts) = (await cluster.usedServers, world.receivedSinceEnd)
            let isComplete = used.count == min(plan.options.subset.map { max(1, $0) } ?? .max, plan.hosts.count)
            let served = Set(counts.filter { $0.value > 0 }.map { plan.endpoint($0.key).endpoint })
            missing = await cluster.expectedServers.filter { !served.contains($0) }
            if isComplete, missing.isEmpty {
                world.count("recovered")
                world.note("recovered after \(world.now - began)")
                if plan.rotates {
                    world.count("recovered with answers that rotate")
                } else if plan.isEven {
                    try await share(cluster)
                }
                return
            }
            try await world.pass(plan.rotates ? .seconds(1) : .milliseconds(100))
        }
        let states = await cluster.metrics.servers.filter { missing.contains($0.endpoint) }.map {
            "\($0.endpoint): \($0.state), \($0.inFlight) of \($0.links) links in flight, average \($0.latencyScore)"
        }
        world.violated("did not serve within \(plan.recoveryBound): \(states)")
    }

    /// When all servers serve and the slow starts are over, each server must have about its share of the requests.
    private func share(_ cluster: Cluster) async throws {
        var calmSince = world.now
        // A server may still be ejected meanwhile, because of what was measured during the faults. Its slow start is then
        // later.
        repeat {
            let began = world.now
            while await cluster.metrics.servers.contains(where: { $0.state != .serving }) {
                if world.now - began > plan.recoveryBound { return world.violated("a server does not serve again") }
                try await world.pass(.seconds(1))
                calmSince = world.now
            }
            try await world.pass(.seconds(1))
        } while world.now - calmSince < .seconds(12)
        world.beginCountingReceived()
        for round in 0..<30 {
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<2 * plan.hosts.count {
                    group.addTask { _ = try? await cluster.send(ask(Bytes("share \(round) \(number)"))) }
                }
            }
        }
        world.count("shares")
        let counts = world.receivedSinceEnd
        // Each of them should have 60.
        let few = plan.hosts.indices.filter { counts[$0, default: 0] < 15 }
        if few.isEmpty { return }
        let scores = await cluster.metrics.servers.map { "\($0.endpoint): \($0.latencyScore)" }
        world.violated("\(few.map { plan.hosts[$0] }) had fewer than 15 of 60 requests: \(counts), \(scores)")
    }
}

extension ClusterWorld {
    /// Compares the results of the callers with what the servers received.
    func judge(_ outcomes: [ClusterCalls.Outcome], _ received: [[Frame]]) {
        // Further pieces of uploads are not among them.
        let requests = received.joined().filter { $0.kind == .request || $0.kind == .part }
        let seen = Dictionary(requests.map { ($0.body, 1) }, uniquingKeysWith: +).merging(pieces) { $0 + $1 }
        var bodies: Set<Bytes> = []
        for outcome in outcomes {
            let (name, times) = ("request \(String(outcome.body))", seen[outcome.body] ?? 0)
            if !bodies.insert(outcome.body).inserted { violated("\(name) has two outcomes") }
            if times > outcome.mostTries { violated("\(name) was received \(times) times") }
            if times > 1 { count("received several times") }
            switch outcome.result {
            case .success(let reply):
                count(outcome.isPiece ? "piece success" : "outcome success")
                // A message that was written may be lost with its link.
                if outcome.isOneWay { continue }
                if times == 0 { violated("\(name) succeeded but was never received") }
                if reply.body != outcome.body { violated("\(name) got another response: \(reply)") }
            case .failure(let error):
                if !outcome.isPiece { count("outcome \(error.code) \(error.fate)") }
                switch error.fate {
                case .notSent:
                    if times > 0 { violated("\(name) was received, but its caller got \(error)") }
                    if outcome.mayWait, [.connectionLost, .unavailable, .protocolViolation].contains(error.code) {
                        violated("\(name) was not sent, and did not go to another server: \(error)")
                    }
                case .unknown: break
                case .answered:
                    if times == 0 { violated("\(name) was rejected but never received") }
                    if let response = error.response, error.code == .rejected, response.body != outcome.body {
                        violated("\(name) got another request's error: \(response)")
                    }
                }
            }
        }
    }
}

extension ClientError {
    /// How the metrics count it.
    fileprivate var metric: ClientMetrics.Failure { ClientMetrics.Failure(code, fate) }
}
