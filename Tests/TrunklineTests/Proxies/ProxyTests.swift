import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging
@testable import TrunklineTesting

/// Links through a proxy, in the simulation.
@Suite(.simulated) struct ProxyTests {}

extension ProxyTests {
    private static let account = (username: "edge", password: "se:cret")

    @Test(arguments: Proxy.Kind.allCases, [false, true])
    func linksGoThroughTheProxyWhichLooksUpTheName(_ kind: Proxy.Kind, isSlow: Bool) throws {
        try simulate(kind, isSlow: isSlow) { network, proxy, client in
            let replies = await client.send(all: (0..<100).map { ask($0) })
            for (index, reply) in replies.enumerated() {
                let body = try reply.get().body
                #expect(body == Bytes("\(index)"))
            }
            #expect(await proxy.targets == ["db:7000"])
            #expect(await proxy.logins == 0)
        }
    }

    @Test(arguments: Proxy.Kind.allCases) func credentialsAreSent(_ kind: Proxy.Kind) throws {
        let log = LogCollector()
        let options = ClientOptions { $0.logging = log.logging() }
        try simulate(kind, asking: Self.account, sending: Self.account, options: options) { _, proxy, client in
            _ = try await client.send(ask("hello"))
            #expect(await proxy.logins == 1)
            await client.close()
        }
        let ready = try #require(log.record("client.ready"))
        #expect(ready.message.contains("; through \(kind.rawValue)://proxy:1080"), "\(ready)")
        #expect(!log.text.contains("se:cret") && !log.text.contains("edge"))
    }

    @Test(arguments: Proxy.Kind.allCases) func missingOrWrongCredentialsAreAPermanentFailure(_ kind: Proxy.Kind) throws
    {
        for sent in [nil, (username: "edge", password: "wrong")] {
            try simulate(kind, asking: Self.account, sending: sent) { network, proxy, client in
                let error = await failure { () throws(ClientError) in try await client.send(ask("hello")) }
                #expect(error?.code == .unavailable && error?.fate == .notSent)
                let code = (error?.cause as? TransportError)?.code
                #expect(code == .proxy(sent == nil ? .authenticationRequired : .credentialsRefused))
                let text = "\(error.map { "\($0)" } ?? "")"
                #expect(text.contains("through \(kind.rawValue)://proxy:1080"))
                let name = sent == nil ? "proxy(authenticationRequired): " : "proxy(credentialsRefused): "
                #expect(text.contains(name), "\(text)")
                // "edge:wrong" in base 64.
                for secret in ["wrong", "ZWRnZTp3cm9uZw=="] {
                    #expect(!"\(error.map { "\($0)" } ?? "")".contains(secret))
                }
                #expect(await client.metrics.connection.attemptFailures[.proxy] == 1)
                // Proxies lock accounts: the next caller does not make the client log in again at once.
                _ = await failure { () throws(ClientError) in
                    try await client.send(ask("hello"), timeout: .seconds(10))
                }
                #expect(await client.metrics.connection.attemptFailures[.proxy] == 1)
                #expect(await proxy.refusedLogins == 1)
            }
        }
    }

    @Test(arguments: [
        (Proxy.Kind.socks5, 1, ProxyFailure.other(1)), (.socks5, 2, .notAllowed), (.socks5, 3, .networkUnreachable),
        (.socks5, 4, .hostUnreachable), (.socks5, 5, .refused), (.socks5, 6, .timedOut), (.socks5, 7, .unsupported),
        (.socks5, 8, .unsupported), (.http, 400, .other(400)), (.http, 403, .notAllowed), (.http, 405, .unsupported),
        (.http, 502, .hostUnreachable), (.http, 503, .hostUnreachable), (.http, 504, .timedOut),
    ])
    func everyRefusalHasItsCause(_ kind: Proxy.Kind, reply: Int, expected: ProxyFailure) throws {
        try simulate(kind) { _, proxy, client in
            await proxy.set(.refuses(reply))
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("hello"), timeout: .seconds(10))
            }
            #expect((error?.cause as? TransportError)?.code == .proxy(expected))
            #expect(error?.code == (expected.isPermanent ? .unavailable : .timedOut))
            // It is used again as soon as it serves.
            guard !expected.isPermanent else { return }
            await proxy.set(.serves)
            try await expectEcho("again", by: client)
        }
    }

    @Test(arguments: Proxy.Kind.allCases) func aProxyThatCannotBeReachedIsNamed(_ kind: Proxy.Kind) throws {
        try simulate(kind) { network, proxy, client in
            await proxy.stop()
            network.setName("unknown", hosts: [])
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("hello"), timeout: .seconds(5))
            }
            #expect((error?.cause as? TransportError)?.code == .proxy(.unreachable))
            #expect("\(error.map { "\($0)" } ?? "")".contains("\(kind.rawValue)://proxy:1080 cannot be reached"))
        }
    }

    @Test(arguments: Proxy.Kind.allCases) func theNameOfAProxyMayBeUnknown(_ kind: Proxy.Kind) throws {
        try simulate(kind, endpoint: "db:7000", proxyHost: "nobody") { network, _, client in
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("hello"), timeout: .seconds(5))
            }
            #expect((error?.cause as? TransportError)?.code == .proxy(.unreachable))
        }
    }

    /// A tunnel that the proxy cut read "the server closed the connection".
    @Test(arguments: Proxy.Kind.allCases) func aProxyThatCutsTheTunnelIsNamed(_ kind: Proxy.Kind) throws {
        let log = LogCollector()
        let options = ClientOptions { $0.logging = log.logging() }
        try simulate(kind, options: options, overTLS: false) { network, proxy, client in
            try await expectEcho("a", by: client)
            await proxy.stop()
            try await network.clock.sleep(for: .seconds(1))
            await client.close()
        }
        let lines = log.records.filter { $0.event == "link.ended" || $0.event == "link.lost" }
        let line = lines.first?.message ?? ""
        #expect(
            line.contains("the tunnel was closed by the proxy \(kind.rawValue)://proxy:1080, or by the server"),
            "\(line)"
        )
        #expect(line.contains("the link to db:7000 (through \(kind.rawValue)://proxy:1080, "), "\(line)")
        #expect(!line.contains("the server closed the connection"), "\(line)")
    }

    /// A proxy that dies while it answers, at every byte.
    @Test(arguments: Proxy.Kind.allCases) func aProxyThatClosesIsTriedAgain(_ kind: Proxy.Kind) throws {
        for count in kind == .socks5 ? Array(0...11) : [0, 1, 5, 14, 20] {
            try simulate(kind) { network, proxy, client in
                await proxy.set(.cutsOff(after: count))
                let error = await failure { () throws(ClientError) in
                    try await client.send(ask("hello"), timeout: .seconds(2))
                }
                #expect((error?.cause as? TransportError)?.code == .proxy(.closed), "\(count)")
                await proxy.set(.serves)
                try await expectEcho("again", by: client)
            }
        }
    }

    @Test(arguments: Proxy.Kind.allCases) func aSilentProxyIsATimeout(_ kind: Proxy.Kind) throws {
        try simulate(kind) { network, proxy, client in
            await proxy.set(.isSilent)
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("hello"), timeout: .seconds(4))
            }
            let cause = error?.cause as? TransportError
            #expect(cause?.code == .timedOut)
            #expect(cause?.message.contains("the proxy has not answered") == true)
            await proxy.set(.serves)
            try await expectEcho("again", by: client)
        }
    }

    @Test(arguments: Proxy.Kind.allCases) func garbageIsAProtocolViolation(_ kind: Proxy.Kind) throws {
        let long = Array("HTTP/1.1 200 OK\r\n".utf8) + [UInt8](repeating: 0x61, count: 20_000)
        for answer in [Array("220 mail ready\r\n".utf8), [4, 90, 0, 0, 0, 0, 0, 0], [5, 0x40], long] {
            try simulate(kind) { _, proxy, client in
                await proxy.set(.says(answer))
                let error = await failure { () throws(ClientError) in
                    try await client.send(ask("hello"), timeout: .seconds(2))
                }
                #expect((error?.cause as? TransportError)?.code == .proxy(.protocolViolation))
            }
        }
    }

    /// The proxy's name has eight addresses, of which the first two do not answer. It refuses the login: once.
    @Test(arguments: Proxy.Kind.allCases) func aRefusalIsNotRepeatedAtTheOtherAddresses(_ kind: Proxy.Kind) throws {
        try simulate(kind, asking: Self.account, sending: (username: "edge", password: "wrong")) {
            network,
            proxy,
            client in
            let hosts = (1...7).map { "other\($0)" }
            for host in hosts { network.refuseConnections(to: host) }
            network.setName("proxy", hosts: [hosts[0], hosts[1], "proxy"] + hosts[2...])
            let error = await failure { () throws(ClientError) in try await client.send(ask("hello")) }
            #expect(error?.code == .unavailable)
            #expect((error?.cause as? TransportError)?.code == .proxy(.credentialsRefused))
            #expect(await proxy.refusedLogins == 1)
        }
    }

    /// A proxy that takes longer than `attemptDelay` to connect: the server sees one link.
    @Test func aSlowProxyIsAskedOnce() throws {
        try simulate(.socks5) { network, proxy, client in
            network.setName("proxy", hosts: ["proxy", "other"])
            let other = TestProxy(.socks5, on: network.loop)
            try await other.listen(on: try #require(literalAddress(network.host("other"), port: 1080)))
            await proxy.set(.delays(.seconds(1)))
            await other.set(.delays(.seconds(1)))
            try await expectEcho("hello", by: client)
            #expect(await proxy.targets.count + other.targets.count == 1)
            await client.close()
            await other.stop()
        }
    }

    /// The first bytes of the server come with the end of the proxy's answer. Not over TLS, where the client speaks first.
    @Test(arguments: Proxy.Kind.allCases) func aServerMaySpeakFirst(_ kind: Proxy.Kind) throws {
        let greeting = filled(3000)
        let options = ClientOptions { options in
            options.handshake.perform = { link in
                let first = try await link.nextMessage()
                guard first.body == greeting else { throw HandshakeRefusal("\(first.body.count) bytes") }
            }
        }
        let push = Frame(.push, type: 2, body: greeting)
        try simulate(kind, options: options, greeting: push, overTLS: false) { _, proxy, client in
            await proxy.joinGreeting()
            try await expectEcho("hello", by: client)
        }
    }

    @Test(arguments: Proxy.Kind.allCases) func aLinkThroughAProxyThatResetsIsLostAndReplaced(_ kind: Proxy.Kind) throws
    {
        try simulate(kind) { network, proxy, client in
            try await expectEcho("one", by: client)
            var ends = client.disconnects.makeAsyncIterator()
            await proxy.resetAll()
            let report = await ends.next()
            #expect(report?.cause == .reset)
            try await expectEcho("two", by: client)
            #expect(await client.metrics.connection.links == 2)
            #expect(await proxy.targets == ["db:7000", "db:7000"])
        }
    }

    @Test func exceptionsAreReachedDirectly() throws {
        try simulate(.socks5, exceptions: ["db"]) { _, proxy, client in
            try await expectEcho("hello", by: client)
            #expect(await proxy.targets == [])
        }
    }

    @Test(arguments: Proxy.Kind.allCases) func anAddressIsSentAsAnAddress(_ kind: Proxy.Kind) throws {
        try simulate(kind, endpoint: nil) { _, proxy, client in
            try await expectEcho("hello", by: client)
            let target = try #require(await proxy.targets.first)
            #expect(target.hasSuffix(":7000") && literalBytes(String(target.dropLast(5))) != nil)
        }
    }

    /// Names that fit no request of the proxy's protocol.
    @Test func aNameThatCannotBeSentIsAPermanentFailure() throws {
        let long = String(repeating: "a", count: 256)
        for (kind, host) in [(Proxy.Kind.socks5, long), (.http, "ä")] {
            try simulate(kind, endpoint: .host(host, port: 1)) { _, proxy, client in
                let error = await failure { () throws(ClientError) in try await client.send(ask("hello")) }
                #expect(error?.code == .unavailable)
                #expect((error?.cause as? TransportError)?.code == .invalidAddress)
                #expect(await proxy.targets == [])
            }
        }
    }

    /// Calls while proxies refuse, die, fall silent and serve again.
    @Test(.timeLimit(.seeded)) func everyCallEndsOnceThroughAFailingProxy() throws {
        for seed in seeds(30) {
            var random = SeededGenerator(seed: seed)
            let kind = Proxy.Kind.allCases.randomElement(using: &random)!
            let isSlow = Bool.random(using: &random)
            let options = ClientOptions { $0.requests.retry = .idempotent(tries: 3) }
            try simulate(kind, seed: seed, options: options, isSlow: isSlow) { network, proxy, client in
                await withTaskGroup { group in
                    for caller in 0..<6 {
                        group.addTask(executorPreference: network.executor) {
                            for call in 0..<10 {
                                let text = Bytes("\(caller)-\(call)")
                                do throws(ClientError) {
                                    let reply = try await client.send(ask(text), timeout: .seconds(20))
                                    #expect(reply.body == text, "seed \(seed)")
                                } catch {
                                    #expect(
                                        [.timedOut, .connectionLost, .unavailable].contains(error.code),
                                        "seed \(seed): \(error)"
                                    )
                                }
                                try? await network.clock.sleep(for: .milliseconds(300))
                            }
                        }
                    }
                    group.addTask(executorPreference: network.executor) {
                        var random = SeededGenerator(seed: seed)
                        for _ in 0..<12 {
                            let conducts: [TestProxy.Conduct] = [
                                .serves, .serves, .isSilent, .refuses(kind == .socks5 ? 5 : 503),
                                .cutsOff(after: .random(in: 0...11, using: &random)), .says([1, 2, 3]),
                            ]
                            await proxy.set(conducts.randomElement(using: &random)!)
                            if Bool.random(using: &random) { await proxy.resetAll() }
                            try? await network.clock.sleep(for: .milliseconds(.random(in: 50...2000, using: &random)))
                        }
                        await proxy.set(.serves)
                    }
                }
                try await expectEcho("at the end", by: client, timeout: .seconds(90))
                let metrics = await client.metrics
                #expect(metrics.requests == metrics.responses + metrics.failed && metrics.pending == 0, "seed \(seed)")
                #expect(metrics.unknownResponses == 0, "seed \(seed)")
            }
        }
    }

    // MARK: Support

    /// Runs `body` with a server at "db:7000", a proxy at "proxy:1080", and a client that uses it.
    private func simulate(
        _ kind: Proxy.Kind,
        seed: UInt64 = 1,
        endpoint: Endpoint? = "db:7000",
        proxyHost: String = "proxy",
        asking account: (username: String, password: String)? = nil,
        sending credentials: (username: String, password: String)? = nil,
        options: ClientOptions = ClientOptions(),
        exceptions: [String] = [],
        greeting: Frame? = nil,
        isSlow: Bool = false,
        overTLS: Bool = Wire.isSecured,
        _ body: @escaping @Sendable (SimulatedNetwork, TestProxy, Client) async throws -> Void
    ) throws {
        var options = options
        var proxy =
            kind == .socks5
            ? Proxy.socks5(proxyHost, username: credentials?.username, password: credentials?.password ?? "")
            : Proxy.http(proxyHost, port: 1080, username: credentials?.username, password: credentials?.password ?? "")
        proxy.exceptions = exceptions
        options.connecting.proxy = proxy
        let network = SimulatedNetwork(seed: seed)
        try network.runBlocking { [options] in
            var serverOptions = LoopbackServer.Options()
            if let greeting { serverOptions.onConnect = .push(greeting) }
            let server = try await network.serve(
                at: "db:7000",
                speaking: FrameLayout.standard,
                options: serverOptions,
                overTLS: overTLS
            )
            let address = try #require(literalAddress(network.host("proxy"), port: 1080))
            let proxy = TestProxy(kind, on: network.loop, account: account, isSlow: isSlow)
            try await proxy.listen(on: address)
            let endpoint = endpoint ?? .host(network.host("db"), port: 7000)
            let client = network.client(
                of: [endpoint],
                speaking: FrameLayout.standard,
                options: options,
                overTLS: overTLS
            )
            do {
                try await body(network, proxy, client)
            } catch {
                await client.closeNow()
                await proxy.stop()
                await server.stop()
                throw error
            }
            #expect(await client.diagnostics.audit() == [], "seed \(seed)")
            await client.close()
            await proxy.stop()
            await server.stop()
        }
        #expect(network.openLinks == 0, "seed \(seed)")
    }
}
