import Foundation
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging

/// The log of clients with real sockets, certificates and tasks.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct LoggingLoopbackTests {
    private let log = LogCollector()

    /// Attempts until the log has a record of the failed TLS handshake, which it returns.
    private func refusedAttempt(
        _ server: LoopbackServer.Options,
        _ change: (inout ClientOptions) -> Void
    ) async throws -> LogRecord {
        let options = ClientOptions {
            $0.logging = log.logging()
            $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(20))
            $0.connecting.timeout = patience
            $0.requests.timeout = patience
            change(&$0)
        }
        return try await withLoopbackServer(speaking: .standard, options: server) { server in
            let client = Client(to: server.endpoint, speaking: .standard, options: options)
            let error = await failure { () throws(ClientError) in try await client.connect() }
            #expect(error?.code == .tlsFailed)
            await client.close()
            for _ in 0..<30_000 where log.record("attempt.failed") == nil { await moment() }
            return try #require(log.record("attempt.failed"))
        }
    }

    @Test func anExpiredCertificateOfTheServerIsNamedWithItsDate() async throws {
        let authority = try TestAuthority()
        let expired = try authority.identity(
            forNames: ["127.0.0.1"],
            validity: .seconds(-86_400 * 9) ... .seconds(-3600)
        )
        let record = try await refusedAttempt(LoopbackServer.Options { $0.tls = .init(expired) }) {
            $0.tls.roots = .only(authority.root)
        }
        #expect(record.level == .error && record.message.contains("/CN=127.0.0.1 expired on 2"))
        let time = try #require(record.timeSince1970)
        let age = Date().timeIntervalSince1970 - time / .seconds(1)
        #expect((-1...300).contains(age) && record.description.hasPrefix("\(CalendarTime(time).text()) error "))
        #expect(record.message.contains("to do: renew the certificate of the server"))
    }

    @Test func anExpiredCertificateOfTheClientIsNamedWithItsDate() async throws {
        let (servers, workers) = (try TestAuthority(), try TestAuthority(named: "workers"))
        let identity = try servers.identity(for: "127.0.0.1")
        let expired = try workers.identity(
            forNames: ["worker"],
            usage: .client,
            validity: .seconds(-86_400 * 9) ... .seconds(-3600)
        )
        let options = LoopbackServer.Options { $0.tls = .init(identity) { $0.clientRoots = workers.root } }
        let record = try await refusedAttempt(options) {
            $0.tls.roots = .only(servers.root)
            $0.tls.identity = expired
        }
        #expect(record.level == .error && record.message.contains("alert certificate expired"))
        #expect(record.message.contains("/CN=worker expired on 2"))
        #expect(record.message.contains("to do: renew the certificate of this client"))
        let key = String(try expired.privateKey.load())
        for line in key.split(separator: "\n").dropFirst() { #expect(!log.text.contains(line)) }
    }

}

/// In the suite of the queue, whose tests run one at a time: two that block threads at once could take every thread of
/// a small machine.
extension EventQueueTests {
    /// When `close()` returns, the log is complete: a program may end then. (It waits at most 2 s, on a busy machine.)
    @Test(arguments: Mechanism.allCases)
    func theLogIsCompleteWhenCloseReturns(mechanism: Mechanism) async throws {
        for _ in 0..<20 {
            let log = LogCollector()
            let options = ClientOptions { $0.logging = log.logging() }
            try await withServerAndClient(by: mechanism, clientOptions: options) { _, client in
                try await expectEcho("a", by: client)
                let began = ContinuousClock.now
                await client.close()
                if began.duration(to: .now) >= .seconds(2) { return }
                // On a busy machine the loop may be late.
                let events = log.events.filter { $0 != "loop.late" }
                #expect(events == ["client.created", "client.ready", "client.closed"])
            }
        }
    }

    /// A closure that blocks stalls neither the client nor, for long, its closing. It learns how many records it missed.
    @Test func aSlowLogStallsNothing() async throws {
        let isReleased = Lock(false)
        let records = Lock<[LogRecord]>([])
        defer { isReleased.withLock { $0 = true } }
        let logging = ClientLogging(level: .debug) { record in
            records.withLock { $0.append(record) }
            // No longer than two minutes: other tests need the thread.
            let limit = ContinuousClock.now + .seconds(120)
            while !isReleased.withLock({ $0 }), ContinuousClock.now < limit { Thread.sleep(forTimeInterval: 0.001) }
        }
        let options = ClientOptions { $0.logging = logging }
        let handler: LoopbackServer.Handler = { _ in .noReply }
        try await withLoopbackServer(speaking: .standard, handler: handler) { server in
            let client = Client(to: server.endpoint, speaking: .standard, options: options)
            let handles = (0..<2000).map { client.start(ask($0), timeout: .milliseconds(20)) }
            for handle in handles { _ = await failure(of: handle) }
            await client.closeNow()
        }
        for _ in 0..<30_000 where records.withLock(\.isEmpty) { await moment() }
        #expect(records.withLock(\.count) == 1)
        isReleased.withLock { $0 = true }
        for _ in 0..<30_000 where records.withLock({ $0.last?.event }) != "log.missing" { await moment() }
        let last = records.withLock(\.last)
        #expect(last?.level == .warning && last?.message.contains("records are missing here") == true)
        #expect(records.withLock(\.count) <= 1100)
    }
}
