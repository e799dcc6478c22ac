import Trunkline

@testable import TrunklineTesting

/// The faults of a simulated life.
enum SeedFault: String, CaseIterable {
    case latency, reset, halfOpen, partition, refusal, unreachable, swallowing, selfConnect
    case slowNames, failingNames, silentNames, halfSilentNames, halfSlowNames
    case slowHandshake, refusedHandshake, busyHandshake, silentHandshake
    case slowReader, silentServer, hungServer, noPongs, restart, closing, orderlyCloses, serverPing, goAway, stall, stop
    case suspension, emptyEndpoints, fewerEndpoints, switching, reconnectNow, renewal
    case interfaceDown, flappingInterface, addressMoved, routeLost, betterRoute, brokenPath, sleep
}

extension SeedWorld {
    /// Causes faults, one after the other. Each is mended before the next.
    func makeTrouble(_ salt: UInt64, for client: Client) async throws {
        var random = plan.random(salt)
        for _ in 0..<Int.random(in: 0...4, using: &random) {
            try await pass(upTo: 60_000, &random)
            guard let fault = SeedFault.allCases.randomElement(using: &random) else { return }
            guard let host = plan.hosts.randomElement(using: &random) else { return }
            let time = Duration.microseconds(Int.random(in: 0...80_000, using: &random))
            note("\(fault) of \(host) for \(time)")
            count("fault \(fault)")
            try await perform(fault, host, time, client)
            note("\(fault) of \(host) is over")
        }
    }

    /// Mends what faults leave behind permanently.
    func mendEverything() {
        network.heal()
        stopMisbehaving()
        network.setConditions(plan.conditions)
        setMood(.usual)
        network.setInterface("eth0", isUp: true)
        network.addAddress("10.255.0.1", to: "eth0")
        network.setMetric(Self.spareMetric, of: "wlan0")
        network.heal(interface: "eth0")
        for host in plan.hosts { network.removeRoute(to: host) }
        // The client needs three timeouts to notice it.
        if plan.losesFraming { network.reset() }
    }

    private func perform(_ fault: SeedFault, _ host: String, _ time: Duration, _ client: Client) async throws {
        switch fault {
        case .latency, .reset, .halfOpen, .partition, .refusal, .unreachable, .swallowing, .selfConnect, .stall, .stop:
            try await performOnNetwork(fault, host, time)
        case .slowNames: try await resolve(host, .after(.milliseconds(30)), time)
        case .failingNames: try await resolve(host, .failure(after: .milliseconds(1)), time)
        case .silentNames: try await resolve(host, .never, time)
        case .halfSilentNames: try await resolveHalf(host, .never, time)
        case .halfSlowNames: try await resolveHalf(host, .after(.milliseconds(300)), time)
        case .slowHandshake: try await handshake(.slow, time)
        case .refusedHandshake: try await handshake(.refusing, time)
        case .busyHandshake: try await handshake(.busy, time)
        case .silentHandshake: try await handshake(.silent, time)
        case .slowReader, .silentServer, .hungServer, .noPongs, .restart, .closing, .orderlyCloses, .serverPing,
            .goAway:
            try await performOnServer(fault, host, time)
        case .interfaceDown, .flappingInterface, .addressMoved, .routeLost, .betterRoute, .brokenPath, .sleep:
            try await performOnHost(fault, host, time)
        case .suspension, .emptyEndpoints, .fewerEndpoints, .switching, .reconnectNow, .renewal:
            try await performOnClient(fault, host, time, client)
        }
    }

    /// Answers look-ups of one family only, at the usual time.
    private func resolveHalf(_ host: String, _ other: NameAnswer, _ time: Duration) async throws {
        let isIPv4Usual = time < .milliseconds(40)
        try await resolve(host, ipv6: isIPv4Usual ? other : .usual, ipv4: isIPv4Usual ? .usual : other, time)
    }

    private func resolve(_ host: String, _ answer: NameAnswer, _ time: Duration) async throws {
        try await resolve(host, ipv6: answer, ipv4: answer, time)
    }

    private func resolve(_ host: String, ipv6: NameAnswer, ipv4: NameAnswer, _ time: Duration) async throws {
        network.setResolution(of: "\(host).test", ipv6: ipv6, ipv4: ipv4)
        network.reset(host)
        try await pass(time)
        network.setResolution(of: "\(host).test")
    }

    private func handshake(_ mood: HandshakeMood, _ time: Duration) async throws {
        setMood(mood)
        network.reset()
        try await pass(time)
        setMood(.usual)
    }

    private func performOnNetwork(_ fault: SeedFault, _ host: String, _ time: Duration) async throws {
        switch fault {
        case .latency:
            var slow = plan.conditions
            slow.latency = .milliseconds(5)...(.milliseconds(30))
            slow.fragmentation = 0.9
            network.setConditions(slow, for: host)
            try await pass(time)
            network.setConditions(plan.conditions, for: host)
        case .halfOpen:
            network.halfOpen(host)
            try await pass(time)
            // Only a heartbeat with pongs notices it.
            if plan.heartbeat != .pingPong { network.reset(host) }
        case .partition:
            network.partition(host)
            try await pass(time)
            network.heal(host)
        case .refusal, .unreachable, .swallowing, .selfConnect:
            switch fault {
            case .selfConnect: network.connectToThemselves(to: host)
            case .refusal: network.refuseConnections(to: host)
            case .unreachable: network.makeUnreachable(host)
            default: network.swallowConnections(to: host)
            }
            network.reset(host)
            try await pass(time)
            network.acceptConnections(to: host)
        case .stall: stall(for: time)
        case .stop:
            // So long that deadlines pass while answers arrive.
            stop(for: time * 10)
            try await pass(time * 10)
        default: network.reset(host)
        }
    }

    /// The metric of the second interface of the client's host, which is worse than that of the first.
    static let spareMetric = 600

    private func performOnHost(_ fault: SeedFault, _ host: String, _ time: Duration) async throws {
        switch fault {
        case .interfaceDown:
            network.setInterface("eth0", isUp: false)
            try await pass(time)
            network.setInterface("eth0", isUp: true)
        case .flappingInterface:
            for _ in 0..<5 {
                network.setInterface("eth0", isUp: false)
                try await pass(time / 10)
                network.setInterface("eth0", isUp: true)
                try await pass(time / 10)
            }
        case .addressMoved:
            network.removeAddress("10.255.0.1", from: "eth0")
            try await pass(time)
            network.addAddress("10.255.0.1", to: "eth0")
        case .routeLost:
            network.setRoute(to: host, through: nil)
            try await pass(time)
            network.removeRoute(to: host)
        case .betterRoute:
            network.setMetric(1, of: "wlan0")
            try await pass(time)
            network.setMetric(Self.spareMetric, of: "wlan0")
        case .brokenPath:
            network.partition(interface: "eth0")
            try await pass(time)
            network.heal(interface: "eth0")
        default: sleep(for: time)
        }
    }

    private func performOnServer(_ fault: SeedFault, _ host: String, _ time: Duration) async throws {
        guard let server = server(host) else { return }  // it is being restarted
        switch fault {
        case .slowReader:
            await server.pauseReading()
            try await pass(time)
            await server.resumeReading()
        case .silentServer:
            await server.fallSilent()
            try await pass(time)
            await server.speakAgain()
        case .hungServer:
            // So long that requests time out, one after the other.
            await server.fallSilent()
            try await pass(SeedPlan.requestTimeout + time)
            await server.speakAgain()
        case .orderlyCloses:
            let end = now + time * 2
            while now < end {
                await server.disconnectAll()
                try await pass(.milliseconds(7))
            }
        case .noPongs:
            await server.answerPings(false)
            try await pass(time)
            await server.answerPings()
        case .restart:
            await stopServer(host)
            try await pass(time)
            try await startServer(host)
        case .serverPing: _ = try? await server.ping()
        case .goAway:
            let hint = time < .milliseconds(20) ? "" : "\(min(time, SeedPlan.longestHint) / .milliseconds(1))"
            _ = try? await server.push(Frame(.push, type: 2, body: Bytes("!\(hint)")))
        default: await server.disconnectAll(reset: time < .milliseconds(40))
        }
    }

    private func performOnClient(_ fault: SeedFault, _ host: String, _ time: Duration, _ client: Client) async throws {
        switch fault {
        case .suspension:
            await client.suspend()
            try await pass(time)
            await client.resume()
        case .emptyEndpoints, .fewerEndpoints:
            await client.replaceEndpoints(fault == .emptyEndpoints ? [] : [plan.endpoint(host)])
            try await pass(time)
            await client.replaceEndpoints(plan.endpoints)
        case .renewal: await client.renewLink()
        case .switching: try? await client.switchEndpoint(to: plan.endpoint(host))
        default: await client.reconnectNow()
        }
    }
}
