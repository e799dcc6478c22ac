import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineTesting

/// The addresses of a name as the servers of a cluster, and when the name is looked up.
@Suite(.simulated) struct DiscoveryTests {}

extension DiscoveryTests {
    /// Runs `body` with a discovery of "orders:7000", whose answers take no time, and checks that cancelling it ends it.
    private func simulate(
        seed: UInt64 = 1,
        _ discovery: Discovery = .dns("orders:7000"),
        hosts: [String] = ["10.1.0.1"],
        ipv6: NameAnswer = .after(.zero),
        ipv4: NameAnswer = .after(.zero),
        _ body: @escaping @Sendable (SimulatedNetwork, RunningDiscovery) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: seed)
        try network.runBlocking {
            network.setName("orders", hosts: hosts)
            network.setResolution(of: "orders", ipv6: ipv6, ipv4: ipv4)
            let running = RunningDiscovery(discovery, on: network.loop)
            try await body(network, running)
            let before = network.clock.now
            running.cancel()
            try await network.clock.sleep(for: .milliseconds(1))
            #expect(running.isOver && network.clock.now.offset - before.offset < .milliseconds(2))
        }
    }

    private func addresses(_ range: ClosedRange<Int>) -> [String] { range.map { "10.1.0.\($0)" } }

    private func intervals(_ times: [Duration]) -> [Duration] { zip(times.dropFirst(), times).map { $0 - $1 } }

    // MARK: Lists

    @Test func aNameThatChangesChangesTheList() throws {
        try simulate(hosts: addresses(1...3)) { network, running in
            try await network.clock.sleep(for: .seconds(1))
            #expect(running.latest == ["10.1.0.1:7000", "10.1.0.2:7000", "10.1.0.3:7000"])
            network.setName("orders", hosts: addresses(1...6))
            try await network.clock.sleep(for: .seconds(36))
            #expect(running.latest == addresses(1...6).map { "\($0):7000" })
            #expect(running.errors.isEmpty)
        }
    }

    @Test func bothFamiliesAreInTheListWithoutDuplicates() throws {
        let hosts = ["10.1.0.2", "fd00::2", "10.1.0.1", "fd00::1", "10.1.0.2", "fd00::2"]
        try simulate(hosts: hosts) { network, running in
            try await network.clock.sleep(for: .seconds(1))
            #expect(running.latest == ["[fd00::2]:7000", "[fd00::1]:7000", "10.1.0.2:7000", "10.1.0.1:7000"])
        }
    }

    @Test func theCertificateIsForTheName() throws {
        try simulate(.dns("tls://orders:7443")) { network, running in
            try await network.clock.sleep(for: .seconds(1))
            #expect(running.lists == [[ClusterEndpoint("tls://10.1.0.1:7443", serverName: "orders")]])
        }
    }

    @Test func theServersOfANameMayUseDatagrams() throws {
        try simulate(.dns("udp://orders:7000"), hosts: ["10.1.0.1", "fd00::1"]) { network, running in
            try await network.clock.sleep(for: .seconds(1))
            #expect(running.latest == ["udp://[fd00::1]:7000", "udp://10.1.0.1:7000"])
        }
    }

    @Test(arguments: ["10.1.0.9", "fd00::9", "[fd00::9]"])
    func anAddressIsAListOfOne(host: String) throws {
        try simulate(.dns(.host(host, port: 7000))) { network, running in
            try await network.clock.sleep(for: .seconds(1))
            #expect(running.lists == [[ClusterEndpoint(.host(host, port: 7000))]])
        }
    }

    // MARK: Failures

    @Test func aFamilyThatFailsIsLeftOut() throws {
        let hosts = ["10.1.0.1", "fd00::1"]
        try simulate(hosts: hosts, ipv6: .failure(after: .zero)) { network, running in
            try await network.clock.sleep(for: .seconds(1))
            #expect(running.latest == ["10.1.0.1:7000"])
        }
        try simulate(hosts: hosts, ipv4: .failure(after: .seconds(3))) { network, running in
            try await network.clock.sleep(for: .seconds(4))
            #expect(running.latest == ["[fd00::1]:7000"])
            // The list and what is missing in it.
            #expect(running.times == [.seconds(3), .seconds(3)])
            let error = try #require(running.errors.first as? TransportError)
            #expect(error.code == .nameResolutionFailed)
            #expect(error.message == "the IPv4 addresses of orders were not found; no IPv4 addresses are used")
        }
    }

    /// Regression: the addresses of the other family were taken for the whole list. So a name server that failed once for
    /// one family removed most servers for half a minute, without an event.
    @Test func aFamilyThatFailsKeepsItsAddresses() throws {
        let four = addresses(1...3)
        try simulate(hosts: four + ["fd00::1"]) { network, running in
            try await network.clock.sleep(for: .seconds(1))
            let all = ["[fd00::1]:7000"] + four.map { "\($0):7000" }
            #expect(running.latest == all)
            network.setName("orders", hosts: four + ["fd00::2"])
            network.setResolution(of: "orders", ipv6: .after(.zero), ipv4: .failure(after: .zero))
            try await network.clock.sleep(for: .seconds(36))
            #expect(running.latest == ["[fd00::2]:7000"] + all.dropFirst())
            let error = try #require(running.errors.first as? TransportError)
            #expect(error.code == .nameResolutionFailed)
            #expect(
                error.message
                    == "the IPv4 addresses of orders were not found; the 3 IPv4 addresses found before stay in use"
            )
        }
    }

    /// Regression: half an answer was completed after half a minute.
    @Test func halfAnAnswerIsCompletedSoon() throws {
        try simulate(hosts: ["10.1.0.1", "fd00::1"], ipv4: .failure(after: .zero)) { network, running in
            try await network.clock.sleep(for: .seconds(120))
            let times = Set(running.times).sorted()
            for (interval, seconds) in zip(intervals(times), [1, 2, 4, 8, 16, 30, 30]) {
                #expect(ClosedRange.about(seconds).contains(interval), "\(interval) instead of \(seconds) s")
            }
            network.setResolution(of: "orders", ipv6: .after(.zero), ipv4: .after(.zero))
            try await network.clock.sleep(for: .seconds(37))
            #expect(running.latest == ["[fd00::1]:7000", "10.1.0.1:7000"])
            let errors = running.errors.count
            network.setResolution(of: "orders", ipv6: .never, ipv4: .after(.zero))
            try await network.clock.sleep(for: .seconds(48))
            #expect(running.latest == ["[fd00::1]:7000", "10.1.0.1:7000"])
            #expect((running.errors[errors] as? TransportError)?.code == .timedOut)
        }
    }

    /// That a name has no addresses of a family any more is a complete answer.
    @Test func aFamilyWithoutAddressesLosesItsAddresses() throws {
        try simulate(hosts: ["10.1.0.1", "fd00::1"]) { network, running in
            try await network.clock.sleep(for: .seconds(1))
            network.setName("orders", hosts: ["10.1.0.1"])
            try await network.clock.sleep(for: .seconds(36))
            #expect(running.latest == ["10.1.0.1:7000"])
            #expect(running.errors.isEmpty)
        }
    }

    @Test(arguments: [AddressFamilies.ipv4, .ipv6])
    func theOtherFamilyIsNotLookedUp(_ families: AddressFamilies) throws {
        let hosts = ["10.1.0.1", "fd00::1"]
        let isFour = families == .ipv4
        let discovery = Discovery.dns("orders:7000", families: families)
        try simulate(discovery, hosts: hosts, ipv6: isFour ? .never : .usual, ipv4: isFour ? .usual : .never) {
            network,
            running in
            try await network.clock.sleep(for: .seconds(1))
            #expect(running.latest == [isFour ? "10.1.0.1:7000" : "[fd00::1]:7000"])
            #expect(running.errors.isEmpty)
        }
        for host in hosts {
            // An address has no choice.
            try simulate(.dns(.host(host, port: 7000), families: families)) { network, running in
                try await network.clock.sleep(for: .seconds(1))
                #expect(running.lists == [[ClusterEndpoint(.host(host, port: 7000))]])
            }
        }
    }

    @Test func aFamilyThatDoesNotAnswerIsAwaitedForTenSeconds() throws {
        try simulate(hosts: ["10.1.0.1", "fd00::1"], ipv6: .never) { network, running in
            try await network.clock.sleep(for: .seconds(11))
            #expect(running.latest == ["10.1.0.1:7000"])
            #expect(running.times == [.seconds(10), .seconds(10)])
            let error = try #require(running.errors.first as? TransportError)
            #expect(
                error.message == "resolving orders: no answer for IPv6 within 10.0 seconds; no IPv6 addresses are used"
            )
        }
    }

    @Test func aNameThatIsNotAnsweredFails() throws {
        try simulate(ipv6: .never, ipv4: .never) { network, running in
            try await network.clock.sleep(for: .seconds(10) + .milliseconds(1))
            let error = try #require(running.errors.first as? TransportError)
            #expect(error.code == .timedOut)
            #expect(error.message == "resolving orders: no answer for IPv6 and IPv4 within 10.0 seconds")
        }
    }

    @Test func oneFamilyThatFailsAndOneThatDoesNotAnswerAreBothNamed() throws {
        try simulate(ipv6: .failure(after: .zero), ipv4: .never) { network, running in
            try await network.clock.sleep(for: .seconds(11))
            let error = try #require(running.errors.first as? TransportError)
            #expect(error.code == .timedOut)
            #expect(error.message.contains("no answer for IPv4 within"), "\(error)")
            #expect(error.message.contains("the IPv6 addresses of orders were not found"), "\(error)")
        }
    }

    @Test func anUnknownNameFails() throws {
        try simulate(.dns("nobody:1")) { network, running in
            try await network.clock.sleep(for: .milliseconds(500))
            let error = try #require(running.errors.first as? TransportError)
            #expect(error.code == .nameResolutionFailed && error.message == "no host is named nobody")
        }
    }

    // MARK: Pace

    @Test func aNameIsLookedUpEveryThirtySeconds() throws {
        try simulate { network, running in
            try await network.clock.sleep(for: .seconds(3600))
            let intervals = intervals(running.times)
            #expect((100...150).contains(intervals.count))
            #expect(intervals.allSatisfy { ClosedRange.about(30).contains($0) })
            #expect(Set(intervals).count > 50, "each interval is drawn")
        }
    }

    @Test func aFailureIsRepeatedSoonerAndSlower() throws {
        try simulate(ipv6: .failure(after: .zero), ipv4: .failure(after: .zero)) { network, running in
            try await network.clock.sleep(for: .seconds(60))
            #expect(running.lists.isEmpty)
            for (interval, seconds) in zip(intervals(running.times), [1, 2, 4, 5, 5, 5, 5]) {
                #expect(ClosedRange.about(seconds).contains(interval), "\(interval) instead of \(seconds) s")
            }
            // Once it works, it is asked as usual, and the next failure begins with a second.
            network.setResolution(of: "orders", ipv6: .after(.zero), ipv4: .after(.zero))
            try await network.clock.sleep(for: .seconds(7))
            #expect(running.lists.count == 1)
            let count = running.count
            network.setResolution(of: "orders", ipv6: .failure(after: .zero), ipv4: .failure(after: .zero))
            try await network.clock.sleep(for: .seconds(40))
            let rest = intervals(Array(running.times.dropFirst(count - 1)))
            #expect(ClosedRange.about(30).contains(rest[0]) && ClosedRange.about(1).contains(rest[1]))
        }
    }

    @Test func aLostServerCausesALookUpAtOnce() throws {
        try simulate { network, running in
            try await network.clock.sleep(for: .seconds(20))
            running.alarm.ring()
            try await network.clock.sleep(for: .milliseconds(1))
            #expect(running.count == 2)
        }
    }

    @Test func lostServersCauseALookUpEveryFiveSeconds() throws {
        try simulate { network, running in
            for _ in 0..<200 {
                running.alarm.ring()
                try await network.clock.sleep(for: .milliseconds(100))
            }
            #expect(running.count == 4 || running.count == 5)
            #expect(intervals(running.times).allSatisfy { .seconds(5)...(.milliseconds(5200)) ~= $0 })
            // The rings before the last question were answered by it, except those that came with it.
            try await network.clock.sleep(for: .seconds(5))
            let count = running.count
            try await network.clock.sleep(for: .seconds(15))
            #expect(running.count <= count + 1)
        }
    }

    @Test func aLostServerDoesNotCauseAnEarlierRetry() throws {
        try simulate(ipv6: .failure(after: .zero), ipv4: .failure(after: .zero)) { network, running in
            for _ in 0..<50 {
                running.alarm.ring()
                try await network.clock.sleep(for: .milliseconds(100))
            }
            #expect(running.count == 3)
            for (interval, seconds) in zip(intervals(running.times), [1, 2]) {
                #expect(ClosedRange.about(seconds).contains(interval))
            }
        }
    }

    @Test func differentProcessesAskAtDifferentTimes() throws {
        let times = Lock(Set<Duration>())
        for seed in 0..<10 as Range<UInt64> {
            try simulate(seed: seed) { network, running in
                try await network.clock.sleep(for: .seconds(40))
                times.withLock { _ = $0.insert(running.times[1]) }
            }
        }
        #expect(times.withLock { $0.count } == 10)
    }

    // MARK: End

    @Test func cancellingEndsAQuestion() throws {
        try simulate(ipv6: .never, ipv4: .never) { network, running in
            try await network.clock.sleep(for: .seconds(1))
            #expect(running.count == 0 && !running.isOver)
        }
    }

    @Test func nothingIsReportedAfterCancelling() throws {
        try simulate(ipv4: .after(.seconds(2))) { network, running in
            try await network.clock.sleep(for: .seconds(1))
            running.cancel()
            try await network.clock.sleep(for: .seconds(60))
            #expect(running.isOver && running.count == 0)
        }
    }

    // MARK: SRV records

    private func records(_ targets: [(String, UInt16)], priority: UInt16 = 1) -> SRVServers.Records {
        targets.map { (SRVRecord(priority: priority, weight: $0.1, port: 7000, target: $0.0), Double($0.1)) }
    }

    /// A discovery with the records in `answer`.
    private func srv(
        _ answer: Lock<Result<SRVServers.Records, TransportError>>,
        of name: String = "_acme._tcp.x",
        isSecured: Bool = false
    ) -> Discovery {
        Discovery(name: "test") { receiver in
            var servers = SRVServers(of: name, isSecured: isSecured)
            await servers.report(to: receiver) { () throws(TransportError) in try answer.withLock { $0 }.get() }
        }
    }

    @Test(arguments: ["_acme._udp.x", "_ACME._UDP.x.", "_acme._tcp._udp.x", "_udp"])
    func theNameOfTheRecordsSaysWhetherTheyUseDatagrams(_ name: String) throws {
        let answer = Lock(Result<SRVServers.Records, TransportError>.success(records([("a.x", 1)])))
        try simulate(srv(answer, of: name)) { network, running in
            network.setName("a.x.", hosts: ["10.1.0.1"])
            try await network.clock.sleep(for: .seconds(2))
            let usesDatagrams = name.lowercased().hasPrefix("_acme._udp")
            #expect(running.latest == [usesDatagrams ? "udp://10.1.0.1:7000" : "10.1.0.1:7000"])
        }
    }

    @Test func targetsShareTheWeightsOfTheirRecords() throws {
        let answer = Lock(Result<SRVServers.Records, TransportError>.success(records([("a.x", 6), ("b.x", 1)])))
        try simulate(srv(answer, isSecured: true)) { network, running in
            network.setName("a.x.", hosts: ["10.1.0.1", "fd00::1"])
            network.setName("b.x.", hosts: ["10.1.0.2"])
            try await network.clock.sleep(for: .seconds(2))
            func server(_ address: String, _ name: String, _ weight: Double) -> ClusterEndpoint {
                let endpoint = Endpoint.host(address, port: 7000).secured()
                let metadata = ["target": name, "priority": "1"]
                return ClusterEndpoint(endpoint, weight: weight, serverName: name, metadata: metadata)
            }
            #expect(
                running.lists.last == [
                    server("fd00::1", "a.x", 3), server("10.1.0.1", "a.x", 3), server("10.1.0.2", "b.x", 1),
                ]
            )
        }
    }

    @Test func aTargetThatFailsKeepsItsAddresses() throws {
        let answer = Lock(Result<SRVServers.Records, TransportError>.success(records([("a.x", 1), ("b.x", 1)])))
        try simulate(srv(answer)) { network, running in
            network.setName("a.x.", hosts: ["10.1.0.1"])
            network.setName("b.x.", hosts: ["10.1.0.2"])
            try await network.clock.sleep(for: .seconds(2))
            #expect(running.latest == ["10.1.0.1:7000", "10.1.0.2:7000"])
            let errors = running.errors.count
            network.setName("a.x.", hosts: ["10.1.0.3"])
            network.setName("b.x.", hosts: [])
            try await network.clock.sleep(for: .seconds(36))
            #expect(running.latest == ["10.1.0.3:7000", "10.1.0.2:7000"])
            #expect(running.errors.count > errors)
            // The record is gone, and with it the addresses.
            answer.withLock { $0 = .success(records([("a.x", 1)])) }
            try await network.clock.sleep(for: .seconds(8))
            #expect(running.latest == ["10.1.0.3:7000"])
        }
    }

    /// Regression: the addresses of the family that failed were lost.
    @Test func aTargetWithHalfAnAnswerKeepsItsAddresses() throws {
        let answer = Lock(Result<SRVServers.Records, TransportError>.success(records([("a.x", 1), ("b.x", 1)])))
        try simulate(srv(answer)) { network, running in
            network.setName("a.x.", hosts: ["10.1.0.1", "fd00::1"])
            network.setName("b.x.", hosts: ["10.1.0.2"])
            try await network.clock.sleep(for: .seconds(2))
            let all = ["[fd00::1]:7000", "10.1.0.1:7000", "10.1.0.2:7000"]
            #expect(running.latest == all)
            let errors = running.errors.count
            network.setResolution(of: "a.x.", ipv6: .usual, ipv4: .failure(after: .zero))
            try await network.clock.sleep(for: .seconds(36))
            #expect(running.latest == all)
            let error = try #require(running.errors.dropFirst(errors).first as? TransportError)
            #expect(error.message.hasSuffix("the one IPv4 address found before stays in use"), "\(error)")
        }
    }

    @Test func ifNoTargetHasAnAddressTheListStays() throws {
        let answer = Lock(Result<SRVServers.Records, TransportError>.success(records([("a.x", 1)])))
        try simulate(srv(answer)) { network, running in
            try await network.clock.sleep(for: .milliseconds(500))
            #expect(running.lists.isEmpty)
            #expect((running.errors.first as? TransportError)?.code == .nameResolutionFailed)
        }
    }

    @Test func aFailureOfTheRecordsIsRepeatedSooner() throws {
        let answer = Lock(
            Result<SRVServers.Records, TransportError>.failure(TransportError(.nameResolutionFailed, "no"))
        )
        try simulate(srv(answer)) { network, running in
            try await network.clock.sleep(for: .seconds(20))
            for (interval, seconds) in zip(intervals(running.times), [1, 2, 4, 5]) {
                #expect(ClosedRange.about(seconds).contains(interval))
            }
        }
    }

    @Test func aSimulationHasNoSRVRecords() throws {
        try simulate(.srv("_acme._tcp.orders")) { network, running in
            try await network.clock.sleep(for: .seconds(1))
            let error = try #require(running.errors.first as? TransportError)
            #expect(
                error.code == .nameResolutionFailed && error.message.contains("a simulated network has no SRV records")
            )
        }
    }

    // MARK: In a cluster

    @Test func aClusterUsesServersThatAppear() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            network.setName("orders", hosts: ["10.1.0.1"])
            let first = try await network.serve(at: "10.1.0.1:7000", speaking: .standard, overTLS: false)
            let cluster = Cluster(discovering: .dns("orders:7000"), speaking: .standard, on: network.loops) {
                $0.slowStart = .zero
            }
            #expect(try await cluster.send(ask("a")).body == "a")
            let second = try await network.serve(at: "10.1.0.2:7000", speaking: .standard, overTLS: false)
            // The first server is replaced: the lost link makes the cluster look again, and the request waits for that.
            try await network.clock.sleep(for: .seconds(6))
            network.setName("orders", hosts: ["10.1.0.2"])
            await first.stop()
            // Until the client knows.
            try await network.clock.sleep(for: .milliseconds(50))
            let begin = network.clock.now
            #expect(try await cluster.send(ask("b")).body == "b")
            #expect(begin.duration(to: network.clock.now) < .seconds(1))
            #expect(await second.journal.requestCount == 1)
            await cluster.close()
            await second.stop()
        }
    }
}
