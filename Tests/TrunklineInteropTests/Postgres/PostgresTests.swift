import Foundation
import Synchronization
import Testing
import Trunkline

/// PostgreSQL: a query is cancelled by a second connection, with a secret from the handshake of the first.
@Suite(
    .tags(.realThreads),
    .timeLimit(.minutes(10)),
    .enabled(if: Postgres.isAvailable, "PostgreSQL is not installed")
)
struct PostgresTests {}

extension PostgresTests {
    /// Waits until the server executes `pg_sleep`.
    private func untilAQuerySleeps(on postgres: Postgres) async throws {
        let options = ClientOptions { options in
            options.handshake.perform = { _ = try await $0.send(PostgresCodec.startup(database: "postgres")) }
            options.connecting.timeout = .seconds(60)
            options.handshake.timeout = .seconds(60)
        }
        try await Trunkline.withClient(to: postgres.endpoint, speaking: PostgresCodec(), options: options) { client in
            let sleeping = PostgresCodec.query("select count(*) from pg_stat_activity where wait_event = 'PgSleep'")
            while try await client.send(sleeping, timeout: .seconds(120)).body != "1" {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    @Test func aQueryIsCancelledOnTheServer() async throws {
        let (responses, continuation) = AsyncStream.makeStream(of: LateResponse.self)
        try await Postgres.withClient {
            $0.requests.lateResponse = { continuation.yield($0) }
        } _: { client, postgres in
            let handle = client.start(PostgresCodec.query("select pg_sleep(1000)"))
            // A query that was not written yet is not sent, and the server forgets the signal if it came before the
            // query.
            try await untilAQuerySleeps(on: postgres)
            handle.cancel()
            await #expect(throws: ClientError.self) { try await handle.value }
            let answer = try await client.send(PostgresCodec.query("select 7")).body
            #expect(answer == "7")
            let late = await responses.first { _ in true }
            // query_canceled ("PostgreSQL Error Codes").
            #expect(late?.reason?.name == "57014")
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.abandoned == 0)
        }
    }

    /// Callers cancel some of their queries at any time. No other query is cancelled, and each gets its own answer.
    @Test func aCancellationNeverMeetsAnotherQuery() async throws {
        let cancelled = Mutex(0)
        try await Postgres.withClient { options in
            options.requests.lateResponse = { late in
                if late.reason?.name == "57014" { cancelled.withLock { $0 += 1 } }
            }
        } _: { client, _ in
            await withTaskGroup { group in
                for caller in 0..<8 {
                    group.addTask {
                        for number in 0..<25 {
                            let text = "\(caller)-\(number)"
                            let isCancelled = number % 3 == caller % 3
                            let seconds = isCancelled ? "0.05" : "0.00\(number % 10)"
                            let handle = client.start(PostgresCodec.query("select '\(text)' from pg_sleep(\(seconds))"))
                            if isCancelled {
                                while handle.session == nil { try? await Task.sleep(for: .milliseconds(1)) }
                                try? await Task.sleep(for: .milliseconds(.random(in: 0...60)))
                                handle.cancel()
                            }
                            do throws(ClientError) {
                                let body = try await handle.value.body
                                #expect(body == Bytes(text))
                            } catch {
                                #expect(isCancelled && error.code == .cancelled, "\(error)")
                            }
                        }
                    }
                }
            }
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.requests == 200)
            #expect(metrics.requests == metrics.responses + metrics.failed)
            print("PostgreSQL has cancelled \(cancelled.withLock { $0 }) of \(metrics.failed) queries")
        }
    }

    @Test func errorsHaveTheirNameAndText() async throws {
        try await Postgres.withClient { client, _ in
            let error = await #expect(throws: ClientError.self) {
                try await client.send(PostgresCodec.query("select 1/0"))
            }
            #expect(error?.code == .rejected && error?.fate == .answered)
            #expect(error?.reason == ServerReason("22012", text: "division by zero"))
            #expect(await client.metrics.rejections.keys.contains("22012"))
        }
    }

    /// "FATAL" is a farewell: the server says why it closes the connection.
    @Test func aTerminatedSessionSaysWhy() async throws {
        try await Postgres.withClient { client, _ in
            let error = await #expect(throws: ClientError.self) {
                try await client.send(
                    PostgresCodec.query("select pg_terminate_backend(pg_backend_pid()), pg_sleep(60)")
                )
            }
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            #expect(error?.reason?.name == "57P01")
            #expect(await client.metrics.connection.linkEndReasons["57P01"] == 1)
            let answer = try await client.send(PostgresCodec.query("select 7")).body
            #expect(answer == "7")
        }
    }

    @Test func aRefusedLoginSaysWhy() async throws {
        try await Postgres.withClient(of: "nowhere") {
            $0.reconnecting.maximumAttempts = 1
        } _: { client, _ in
            var reason: ServerReason?
            repeat {
                let error = await #expect(throws: ClientError.self) {
                    try await client.send(PostgresCodec.query("select 7"))
                }
                reason = error?.reason
            } while reason?.name == "57P03"  // cannot_connect_now: it is starting
            // invalid_catalog_name
            #expect(reason?.name == "3D000")
        }
    }
}
