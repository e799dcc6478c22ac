import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// One simulated life of a client and its servers.
struct SeedLife {
    let world: SeedWorld
    private var plan: SeedPlan { world.plan }
    private static let callers: UInt64 = 16

    init(seed: UInt64, recordsTrace: Bool = false) {
        world = SeedWorld(SeedPlan(seed: seed), recordsTrace: recordsTrace)
    }

    /// Runs the life. Afterwards `world` contains what happened.
    func run() {
        do {
            let (outcomes, received, leftovers) = try world.network.runBlocking {
                try await live()
            }
            world.judge(outcomes, received)
            world.judgeEnd(leftovers)
        } catch {
            world.violated("\(error)")
        }
    }

    private func live() async throws -> ([SeedCalls.Outcome], [[Frame]], [String]) {
        for host in plan.hosts { try await world.startServer(host) }
        let ledger = EventLedger()
        var options = plan.options
        options.observers = [ledger]
        let client = world.network.client(of: plan.endpoints, speaking: plan.codec, options: options)
        let calls = SeedCalls(world: world, client: client)
        let overflow: PushBuffering.Overflow = [.dropNewest, .dropOldest, .suspendReading, .finish][Int(plan.seed % 4)]
        let stream = client.pushes(buffering: PushBuffering(maximumCount: 2, overflow: overflow))

        async let connecting: Void = withTaskGroup(of: Void.self) { group in
            for number in 0..<4 { group.addTask { await calls.connect(number) } }
        }
        async let pushes: Void = read(stream)
        async let states: Void = follow(client)
        async let trouble: Void = world.makeTrouble(3, for: client)
        async let moreTrouble: Void = world.makeTrouble(4, for: client)
        async let closing: Void = closeEarly(client)
        async let topics = withTaskGroup(of: Bytes?.self) { group in
            for number in 0..<(plan.subscribes ? 2 : 0) { group.addTask { await calls.subscribe(number) } }
            return await group.reduce(into: Set<Bytes>()) { if let topic = $1 { $0.insert(topic) } }
        }
        let outcomes = await withTaskGroup(of: [SeedCalls.Outcome].self) { group in
            for number in 0..<Self.callers { group.addTask { await calls.call(number) } }
            return await group.reduce(into: []) { $0 += $1 }
        }
        let subscribed = await topics
        try await trouble
        try await moreTrouble
        try await closing
        world.note("everything is mended")
        world.mendEverything()
        if !plan.closesEarly { try await recover(client, subscribed) }
        for contradiction in await client.diagnostics.audit() { world.violated("before the end: \(contradiction)") }
        await close(client)
        await connecting
        // Streams end with the client.
        await pushes
        await states
        let leftovers = await client.leftovers
        let facts = await client.metrics
        for contradiction in await client.diagnostics.audit() { world.violated("at the end: \(contradiction)") }
        for host in plan.hosts { await world.stopServer(host) }
        // TLS keeps bytes longer for a peer that disappeared without closing.
        try await world.pass(.seconds(Wire.isSecured ? 40 : 1))
        for contradiction in ledger.contradictions(with: facts) { world.violated("the events: \(contradiction)") }
        var received: [[Frame]] = []
        for server in world.allServers { received.append(await server.received) }
        world.count("late", facts.lateResponses)
        world.count("retried", facts.retries)
        world.count("retry refused", facts.retriesRefused)
        world.count("pings", facts.connection.pings)
        world.count("links", facts.connection.links)
        world.count("failed attempts", facts.connection.failedAttempts)
        for (cause, times) in facts.connection.disconnects { world.count("end \(cause.rawValue)", times) }
        return (outcomes, received, leftovers)
    }

    private func read(_ stream: PushStream) async {
        for await _ in stream { try? await world.pass(.microseconds(200)) }
    }

    private func follow(_ client: Client) async {
        async let reports: Void = {
            for await report in client.disconnects { world.note("\(report)") }
        }()
        for await state in client.states { world.note("\(state)") }
        await reports
    }

    // MARK: After the faults

    /// The client must get responses again, and must have restored all subscriptions at the server.
    private func recover(_ client: Client, _ topics: Set<Bytes>) async throws {
        try await expectAnswer("probe 1", by: client)
        try await changeWithoutWaiting(client)
        guard plan.subscribes else { return }
        world.network.reset()
        try await expectAnswer("probe 2", by: client)
        for server in world.allServers {
            let bodies = await server.received.map(\.body)
            guard let end = bodies.lastIndex(where: { String($0).hasPrefix("probe 2") }) else { continue }
            let told = Set(bodies[..<end].suffix(topics.count))
            if told != topics { world.violated("of \(topics) only \(told) were restored") }
        }
    }

    /// During a planned change to a server that works, no request takes longer than its round trip: in virtual time, to
    /// the nanosecond.
    private func changeWithoutWaiting(_ client: Client) async throws {
        // With few serials a request may wait for one of those in quarantine.
        guard plan.overlapsLinks, plan.matching != .narrow else { return }
        var conditions = NetworkConditions()
        conditions.latency = .milliseconds(1)...(.milliseconds(1))
        conditions.fragmentation = 0
        world.network.setConditions(conditions)
        // By then the client has forgotten abandoned requests and errors.
        try await world.pass(.milliseconds(500))
        for _ in 0..<20 where await !client.isCalm { try await world.pass(.milliseconds(50)) }
        guard await client.isCalm else { return world.count("no planned change: not calm") }
        var random = plan.random(6)
        let links = await client.metrics.connection.links
        let way = Int.random(in: 0..<3, using: &random)
        let host = plan.hosts.randomElement(using: &random) ?? ""
        switch way {
        case 0: await client.renewLink()
        case 1: try? await client.switchEndpoint(to: plan.endpoint(host))
        default: for server in world.allServers { _ = try? await server.push(Frame(.push, type: 2, body: "!")) }
        }
        world.note("planned change \(way)")
        let changed = way == 2 && !client.sendsAfterGoAway
        for number in 0..<40 {
            let began = world.now
            let body = Bytes("change \(number)")
            let reply = try await client.send(ask(body), options: CallOptions(retry: .never))
            let took = world.now - began
            if reply.body != body { world.violated("\(body) was answered by \(reply)") }
            // If the client sends nothing after a goAway, requests wait for the next link.
            if took > .milliseconds(2), !changed { world.violated("\(body) took \(took) during a planned change") }
        }
        world.count("planned change", await client.metrics.connection.links > links ? 1 : 0)
        world.network.setConditions(plan.conditions)
    }

    private func expectAnswer(_ body: String, by client: Client) async throws {
        let began = world.now
        for number in 1... {
            let left = plan.recoveryBound - (world.now - began)
            guard left > .zero else { return world.violated("\(body) had no answer within \(plan.recoveryBound)") }
            // A request may have gone out on a hanging link that drains by now. It must time out, because only the
            // deadlines of its requests end such a link.
            let timeout = min(left, SeedPlan.requestTimeout)
            do throws(ClientError) {
                let reply = try await client.send(
                    ask(Bytes("\(body), \(number)")),
                    timeout: .after(timeout),
                    options: CallOptions(retry: .never)
                )
                if reply.body != Bytes("\(body), \(number)") { world.violated("\(body) was answered by \(reply)") }
                return world.note("\(body) was answered after \(world.now - began)")
            } catch {
                world.note("\(body), \(number): \(error)")
                // The request was lost with the old link.
                if error.code != .timedOut { try await world.pass(.milliseconds(1)) }
            }
        }
    }

    // MARK: The end

    private func closeEarly(_ client: Client) async throws {
        guard plan.closesEarly else { return }
        var random = plan.random(5)
        try await world.pass(upTo: 150_000, &random)
        await close(client)
    }

    /// Closes cleanly or at once. An orderly close is limited in time, closing at once takes no time.
    private func close(_ client: Client) async {
        let (began, stalled) = (world.now, world.stalled)
        world.note("closing")
        if plan.closesAtOnce { await client.closeNow() } else { await client.close() }
        let (took, limit) = (world.now - began, plan.closesAtOnce ? .zero : SeedPlan.drainTimeout)
        if took > limit + (world.stalled - stalled) { world.violated("closing took \(took)") }
        world.note("closed")
    }
}
