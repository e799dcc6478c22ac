import Foundation
import Testing
import Trunkline

/// `COPY` of PostgreSQL: data after the server's go-ahead, in a protocol that matches responses in order.
@Suite(
    .tags(.realThreads),
    .timeLimit(.minutes(10)),
    .enabled(if: Postgres.isAvailable, "PostgreSQL is not installed")
)
struct PostgresCopyTests {}

extension PostgresCopyTests {
    private static let copy = PostgresCodec.query("copy numbers from stdin")

    private func rows(_ numbers: Range<Int>) -> Request {
        PostgresCodec.Message.copyData(Bytes(numbers.map { "\($0)\n" }.joined()))
    }

    /// Runs `body` with a client of a server with the empty table `numbers`.
    private func withTable(_ body: nonisolated(nonsending) (Client, Postgres) async throws -> Void) async throws {
        try await Postgres.withClient { client, postgres in
            _ = try await client.send(PostgresCodec.query("create table numbers (number int primary key)"))
            try await body(client, postgres)
        }
    }

    private func count(by client: Client) async throws -> Int? {
        Int(String(try await client.send(PostgresCodec.query("select count(*) from numbers")).body))
    }

    private func expectRows(_ number: Int, by client: Client) async throws {
        let found = try await count(by: client)
        #expect(found == number)
    }

    /// Copies rows in pieces, as in the article about uploads.
    private func copy(_ blocks: [Request], by client: Client) async throws {
        let copy = client.open(Self.copy)
        var replies = copy.responses.makeAsyncIterator()
        _ = try await replies.next()  // CopyInResponse
        for rows in blocks { try await copy.send(rows) }
        try await copy.finish(PostgresCodec.Message.copyDone(""))
        while try await replies.next() != nil {}
    }

    @Test func rowsAreCopiedInAndOut() async throws {
        try await withTable { client, _ in
            let blocks = (0..<50).map { rows($0 * 1000..<$0 * 1000 + 1000) }
            try await copy(blocks, by: client)
            try await expectRows(50_000, by: client)
            let out = PostgresCodec.query("copy (select number from numbers order by number limit 3000) to stdout")
            let text = try await client.send(out).body
            #expect(text == Bytes((0..<3000).map { "\($0)\n" }.joined()))
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// Other callers' queries would be read as data, or end the connection.
    @Test func queriesOfOthersWait() async throws {
        try await withTable { client, _ in
            let before = client.start(PostgresCodec.query("select 'before' from pg_sleep(0.1)"))
            let upload = client.open(Self.copy)
            let others = (0..<5).map { client.start(PostgresCodec.query("select \($0)")) }
            var replies = upload.responses.makeAsyncIterator()
            #expect(try await replies.next()?.body.isEmpty == true)
            for block in 0..<20 { try await upload.send(rows(block * 1000..<block * 1000 + 1000)) }
            #expect(others.allSatisfy { $0.state == .queued })
            try await upload.finish(PostgresCodec.Message.copyDone(""))
            #expect(try await replies.next() != nil)
            #expect(try await replies.next() == nil)
            #expect(try await before.value.body == "before")
            for (number, other) in others.enumerated() { #expect(try await other.value.body == Bytes("\(number)")) }
            try await expectRows(20_000, by: client)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func aRefusedCopyKeepsTheLink() async throws {
        try await withTable { client, _ in
            for _ in 0..<10 {
                let upload = client.open(PostgresCodec.query("copy nothing from stdin"))
                let error = await #expect(throws: ClientError.self) { for try await _ in upload.responses {} }
                // undefined_table
                #expect(error?.code == .rejected && error?.fate == .answered && error?.reason?.name == "42P01")
                let piece = await #expect(throws: ClientError.self) { try await upload.send(rows(0..<1)) }
                #expect(piece?.fate == .notSent)
                try await expectRows(0, by: client)
            }
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// The server answers between two pieces, and drops those that are under way.
    @Test(arguments: [1, 5000])
    func anErrorInTheDataKeepsTheLink(rowsOfPiece: Int) async throws {
        try await withTable { client, _ in
            for _ in 0..<20 {
                let upload = client.open(Self.copy)
                var replies = upload.responses.makeAsyncIterator()
                #expect(try await replies.next() != nil)
                try await upload.send(rows(0..<rowsOfPiece))
                try await upload.send(PostgresCodec.Message.copyData("x\n"))
                var failure: ClientError?
                var next = rowsOfPiece
                while failure == nil {
                    do throws(ClientError) {
                        try await upload.send(rows(next..<next + rowsOfPiece))
                        next += rowsOfPiece
                    } catch {
                        failure = error
                    }
                }
                #expect(failure?.code == .closed || failure?.code == .rejected, "\(String(describing: failure))")
                let error = await #expect(throws: ClientError.self) { try await replies.next() }
                // invalid_text_representation
                #expect(error?.code == .rejected && error?.reason?.name == "22P02")
                try await expectRows(0, by: client)
            }
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func theCallerMayGiveUpTheData() async throws {
        try await withTable { client, _ in
            let upload = client.open(Self.copy)
            var replies = upload.responses.makeAsyncIterator()
            #expect(try await replies.next() != nil)
            try await upload.send(rows(0..<10))
            try await upload.finish(PostgresCodec.Message.copyFail("no more"))
            let error = await #expect(throws: ClientError.self) { try await replies.next() }
            // query_canceled
            #expect(error?.reason?.name == "57014" && error?.reason?.text.contains("no more") == true)
            try await expectRows(0, by: client)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    enum Step: CaseIterable, Sendable { case atOnce, afterGoAhead, afterData, afterTheEnd }

    /// No query is read as data, and nothing incomplete is stored.
    @Test(arguments: Step.allCases)
    func aCancelledCopyReachesNoQuery(_ step: Step) async throws {
        try await withTable { client, _ in
            for round in 0..<10 {
                let upload = client.open(Self.copy)
                var replies = upload.responses.makeAsyncIterator()
                if step != .atOnce { #expect(try await replies.next() != nil) }
                if step == .afterData || step == .afterTheEnd { try await upload.send(rows(0..<10)) }
                if step == .afterTheEnd { try await upload.finish(PostgresCodec.Message.copyDone("")) }
                upload.cancel()
                #expect(try await client.send(PostgresCodec.query("select \(round)")).body == Bytes("\(round)"))
                let stored = try await count(by: client)
                #expect(stored == 0 || step == .afterTheEnd && stored == 10)
                _ = try await client.send(PostgresCodec.query("truncate numbers"))
            }
            // After the end, the client does not wait for the answer.
            if step != .afterTheEnd { #expect(await client.metrics.connection.links == 1) }
        }
    }

    @Test func aDeadlineEndsACopy() async throws {
        try await withTable { client, _ in
            let upload = client.open(Self.copy, timeout: .milliseconds(500))
            var replies = upload.responses.makeAsyncIterator()
            _ = try? await replies.next()
            try? await upload.send(rows(0..<10))
            let error = await #expect(throws: ClientError.self) { try await replies.next() }
            #expect(error?.code == .timedOut)
            try await expectRows(0, by: client)
            let piece = await #expect(throws: ClientError.self) { try await upload.send(rows(10..<20)) }
            #expect(piece?.fate == .notSent)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func aCancelledTaskEndsItsCopy() async throws {
        try await withTable { client, _ in
            let (goAheads, continuation) = AsyncStream.makeStream(of: Void.self)
            let task = Task {
                let upload = client.open(Self.copy)
                var replies = upload.responses.makeAsyncIterator()
                _ = try await replies.next()
                try await upload.send(rows(0..<10))
                continuation.yield()
                _ = try await replies.next()
            }
            for await _ in goAheads { break }
            task.cancel()
            let error = await #expect(throws: ClientError.self) { try await task.value }
            #expect(error?.code == .cancelled)
            try await expectRows(0, by: client)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// Tasks copy, give up and query at any time. What was stored is what was finished.
    @Test func copiesAndQueriesOfManyTasks() async throws {
        try await withTable { client, _ in
            let stored = await withTaskGroup(of: Int.self) { group in
                for task in 0..<6 {
                    group.addTask {
                        var stored = 0
                        for round in 0..<10 {
                            let upload = client.open(Self.copy)
                            let first = (task * 10 + round) * 100
                            do {
                                var replies = upload.responses.makeAsyncIterator()
                                _ = try await replies.next()
                                try await upload.send(rows(first..<first + 50))
                                if (task + round) % 3 == 0 {
                                    upload.cancel()
                                    continue
                                }
                                try await upload.send(rows(first + 50..<first + 100))
                                try await upload.finish(PostgresCodec.Message.copyDone(""))
                                while try await replies.next() != nil {}
                                stored += 100
                            } catch {
                                Issue.record(error)
                            }
                        }
                        return stored
                    }
                    group.addTask {
                        for round in 0..<30 {
                            let text = "\(task)-\(round)"
                            let answer = try? await client.send(PostgresCodec.query("select '\(text)'")).body
                            #expect(answer == Bytes(text))
                        }
                        return 0
                    }
                }
                return await group.reduce(0, +)
            }
            #expect(stored == 4000)
            try await expectRows(stored, by: client)
            #expect(await client.metrics.connection.links == 1)
        }
    }
}
