import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Datagrams over the sockets of this host.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5))) struct DatagramLoopbackTests {}

extension DatagramLoopbackTests {
    private func withDatagrams(
        by mechanism: Mechanism,
        options: ClientOptions = repeating(),
        handler: @escaping LoopbackServer.Handler = { _ in .echo },
        _ body: nonisolated(nonsending) (LoopbackServer, Client) async throws -> Void
    ) async throws {
        let serverOptions = LoopbackServer.Options { $0.receivesDatagrams = true }
        try await withServerAndClient(
            by: mechanism,
            options: serverOptions,
            clientOptions: options,
            overTLS: false,
            handler: handler,
            body
        )
    }

    @Test(arguments: Mechanism.allCases) func manyCallersGetTheirOwnAnswers(_ mechanism: Mechanism) async throws {
        try await withDatagrams(by: mechanism) { server, client in
            #expect(server.endpoint.description.hasPrefix("udp://127.0.0.1:"))
            try await withThrowingTaskGroup { group in
                for caller in 0..<50 {
                    group.addTask {
                        for call in 0..<20 {
                            let reply = try await client.send(ask("\(caller) \(call)"))
                            #expect(reply.body == Bytes("\(caller) \(call)"))
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(await server.journal.totalConnections == 1)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// More than the buffers of the sockets hold at once: what the kernel drops is sent again.
    @Test(arguments: Mechanism.allCases) func aBurstIsAnswered(_ mechanism: Mechanism) async throws {
        let options = repeating { $0.requests.repeatAfter = .milliseconds(100) }
        try await withDatagrams(by: mechanism, options: options) { server, client in
            let replies = await client.send(all: (0..<5000).map { ask(filled(1000) + Bytes("\($0)")) })
            for (index, reply) in replies.enumerated() {
                let body = try reply.get().body
                #expect(body.dropFirst(1000).elementsEqual("\(index)".utf8))
            }
        }
    }

    @Test(arguments: Mechanism.allCases) func aPortThatNobodyReadsIsACause(_ mechanism: Mechanism) async throws {
        try await withDatagrams(by: mechanism, options: quickOptions()) { server, client in
            try await expectEcho("one", by: client)
            await server.stop()
            let error = await failure { () throws(ClientError) in try await client.send(ask("two")) }
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            #expect((error?.cause as? TransportError)?.code == .refused)
            #expect("\(error.map { "\($0)" } ?? "")".contains("no server receives datagrams at 127.0.0.1"))
        }
    }

    @Test func aServerMayStartLater() async throws {
        let options = LoopbackServer.Options { $0.receivesDatagrams = true }
        // No other test uses the address, so none gets the port meanwhile.
        let first = try await LoopbackServer.start(
            at: loopback(61),
            speaking: FrameLayout.standard,
            options: options
        )
        let endpoint = first.endpoint
        await first.stop()
        let clientOptions = repeating { options in
            options.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(20))
            options.requests.retry = .idempotent(tries: 1_000)
        }
        try await withClient(to: endpoint, speaking: .standard, options: clientOptions) { client in
            let handle = client.start(ask("early"))
            var ends = client.disconnects.makeAsyncIterator()
            #expect(await ends.next()?.cause == .refused)
            let second = try await LoopbackServer.start(
                at: loopback(61, port: endpoint.port ?? 0),
                speaking: FrameLayout.standard,
                options: options
            )
            try await expectBody("early", of: handle)
            await second.stop()
        }
    }

    /// The kernel passes on only what comes from the address that was asked.
    @Test func strangersAreNotHeard() async throws {
        try await withDatagrams(by: .epoll, handler: { $0.body == "wait" ? .noReply : .echo }) { server, client in
            try await expectEcho("one", by: client)
            let local = try #require(await client.connection.addressOfLink)
            let handle = client.start(ask("wait"), timeout: .milliseconds(500))
            let stranger = openDatagramSocket(for: .loopback(port: 0))
            defer { close(stranger) }
            // An answer to that request, as far as anybody but the server can make one up.
            for serial in UInt8(1)...8 {
                let answer: [UInt8] = [0, 0, 4, 0x10, 0, 0, 0, serial, 0, 0, 0, 1, 0x78]
                let sent = unsafe withSockaddr(local) { pointer, length in
                    unsafe sendto(stranger, answer, answer.count, 0, pointer, length)
                }
                #expect(sent == answer.count)
            }
            #expect(await failure(of: handle)?.code == .timedOut)
            #expect(await client.metrics.unknownResponses == 0)
        }
    }

    @Test func aServerOfDatagramsHasNoTLSAndNoPath() async throws {
        let options = LoopbackServer.Options {
            $0.receivesDatagrams = true
            $0.unixPath = "/tmp/trunkline-none"
        }
        do {
            _ = try await LoopbackServer.start(speaking: FrameLayout.standard, options: options)
            Issue.record("it has started")
        } catch {
            #expect(error.code == .invalidAddress)
        }
    }
}

extension Connection {
    /// The address of this end of the ready link.
    fileprivate var addressOfLink: SocketAddress? { driver.ready?.transport.localAddress }
}
