import Trunkline
import TrunklineCluster
import TrunklineTesting

/// The faults of a simulated life of a cluster.
enum ClusterFault: String, CaseIterable {
    case slow, failing, resetting, hanging, restart, politeRestart, reset, partition, refusal, halfOpen, goAway
}

/// What the discovery does now and then.
enum ClusterNews: String, CaseIterable {
    case removal, addition, empty, error, wrongAddress, wrongWeight, duplicates, others, replacement
}

extension ClusterWorld {
    static let goAway = Frame(.push, type: 2, body: "!")

    /// Causes faults, one after the other. Each is mended before the next.
    func makeTrouble(_ salt: UInt64) async throws {
        var random = plan.random(salt)
        for _ in 0..<Int.random(in: 1...5, using: &random) {
            try await pass(upTo: .seconds(4), &random)
            let fault = ClusterFault.allCases[Int.random(in: 0..<ClusterFault.allCases.count, using: &random)]
            // Sometimes many servers at once.
            let isWide = Int.random(in: 0..<4, using: &random) == 0
            let number = isWide ? Int.random(in: 1...plan.hosts.count, using: &random) : 1
            let victims = plan.hosts.indices.shuffled(using: &random).prefix(number)
            let time = Duration.milliseconds(Int.random(in: 0...6000, using: &random))
            count("fault \(fault)")
            note("\(fault) of \(victims.map { plan.hosts[$0] }) for \(time)")
            for victim in victims { try await begin(fault, victim, &random) }
            try await pass(time)
            for victim in victims { try await mend(fault, victim) }
            note("\(fault) of \(victims.map { plan.hosts[$0] }) is over")
        }
    }

    private func begin(_ fault: ClusterFault, _ index: Int, _ random: inout SeededGenerator) async throws {
        let (host, server) = (plan.hosts[index], servers[index])
        switch fault {
        case .slow: setMood(.slow, index)
        case .failing: setMood(.failing, index)
        case .resetting: setMood(.resetting, index)
        case .hanging: setMood(.hanging, index)
        case .restart: await server.kill()
        case .politeRestart:
            await server.stopAccepting()
            try await server.push(Self.goAway)
            try await pass(.milliseconds(200))
            await server.kill()
        case .reset: network.reset(host)
        case .partition: network.partition(host)
        case .refusal:
            network.refuseConnections(to: host)
            network.reset(host)
        case .halfOpen: network.halfOpen(host)
        case .goAway:
            let hint = Bool.random(using: &random) ? "" : "\(Int.random(in: 1...500, using: &random))"
            try await server.push(Frame(.push, type: 2, body: Bytes("!\(hint)")))
        }
    }

    private func mend(_ fault: ClusterFault, _ index: Int) async throws {
        let host = plan.hosts[index]
        switch fault {
        case .slow, .failing, .resetting, .hanging: setMood(.usual, index)
        case .restart, .politeRestart: try await servers[index].resumeAccepting()
        case .partition: network.heal(host)
        case .refusal: network.acceptConnections(to: host)
        case .reset, .halfOpen, .goAway: break
        }
    }

    func mendEverything() {
        network.heal()
        for index in plan.hosts.indices {
            setMood(.usual, index)
            network.acceptConnections(to: plan.hosts[index])
        }
    }

    // MARK: Discovery

    /// Reports lists, some of them wrong.
    func discover() async throws {
        var random = plan.random(9)
        try await pass(upTo: .milliseconds(200), &random)
        if Bool.random(using: &random) { setListed([0, 1]) }
        lists.found(listed.map { plan.endpoint($0) })
        for _ in 0..<Int.random(in: 0...6, using: &random) {
            try await pass(upTo: .seconds(4), &random)
            let news = ClusterNews.allCases[Int.random(in: 0..<ClusterNews.allCases.count, using: &random)]
            count("news \(news)")
            tell(news, &random)
        }
    }

    private func tell(_ news: ClusterNews, _ random: inout SeededGenerator) {
        var listed = listed
        switch news {
        case .empty: return lists.found([])
        case .error: return lists.fail()
        case .wrongAddress:
            return lists.found(listed.map { plan.endpoint($0) } + ["nowhere:7000"])
        case .wrongWeight:
            var wrong = listed.map { plan.endpoint($0) }
            wrong[0].weight = [.nan, .infinity, -1, 1e308][Int.random(in: 0..<4, using: &random)]
            return lists.found(wrong)
        case .duplicates:
            let all = listed.map { plan.endpoint($0) }
            return lists.found((all + all).shuffled(using: &random))
        case .removal:
            if listed.count > 1 { listed.remove(at: Int.random(in: 0..<listed.count, using: &random)) }
        case .addition: listed += plan.hosts.indices.filter { !listed.contains($0) }.shuffled(using: &random).prefix(1)
        case .replacement:
            let others = plan.hosts.indices.filter { !listed.contains($0) }
            if !others.isEmpty { listed = others }
        case .others:
            let count = Int.random(in: 1...plan.hosts.count, using: &random)
            listed = Array(plan.hosts.indices.shuffled(using: &random).prefix(count))
        }
        setListed(listed)
        note("listed: \(listed)")
        lists.found(listed.map { plan.endpoint($0) })
    }

    func listAll() {
        setListed(Array(plan.hosts.indices))
        lists.found(listed.map { plan.endpoint($0) })
    }
}
