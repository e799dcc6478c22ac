import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// Requests in parts over real sockets: very many, very long ones, and some that are cancelled.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct RequestPartLoopbackTests {}

extension RequestPartLoopbackTests {
    /// Checks that the parts are numbered, sends every seventh one back as a part, and replies with their count.
    private static let handler: LoopbackServer.Handler = { request in
        .perform { exchange in
            var (count, isOver) = (1, request.kind != .part)
            while !isOver, let frame = try await exchange.next() {
                if !frame.body.starts(with: Bytes("\(count) ")) { return try await exchange.reply("out of order") }
                count += 1
                isOver = frame.kind != .part
                if count % 7 == 0 { try await exchange.part(frame.body) }
            }
            try await exchange.reply(Frame(.response, type: 0x403, body: Bytes("\(count)")))
        }
    }

    @Test(arguments: Mechanism.allCases)
    func concurrentUploadsDoNotMix(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism, handler: Self.handler) { server, client in
            await withTaskGroup(of: Bool.self) { group in
                for upload in 0..<100 {
                    group.addTask {
                        let stream = client.open(piece("0 ")).responses
                        let filling = String(repeating: "x", count: upload * 20)
                        async let reply = words(of: stream)
                        for number in 1..<50 {
                            let body = Bytes("\(number) \(filling)")
                            if await failure(posting: piece(body), isPart: true, to: stream) != nil { return false }
                        }
                        let isPosted = await failure(posting: whole("50 "), to: stream) == nil
                        let words = await reply
                        return isPosted && words.last == "51" && words.count == 8
                    }
                }
                #expect(await group.reduce(into: 0) { $0 += $1 ? 1 : 0 } == 100)
            }
            let journal = await server.journal
            #expect(journal.requestCount == 100 && journal.requestPartCount == 5000 && journal.totalConnections == 1)
            #expect(await server.exchangeCount == 0)
            #expect(await client.metrics.heldSerials == 0)
        }
    }

    @Test(arguments: Mechanism.allCases)
    func aVeryLongUploadToASlowServerTakesLittleMemory(_ mechanism: Mechanism) async throws {
        let (notes, gate) = (Notes(), Notes())
        let handler: LoopbackServer.Handler = { _ in
            .perform { exchange in
                while gate.all.isEmpty { await moment() }
                var (size, isOver) = (0, false)
                while !isOver, let frame = try await exchange.next() {
                    size += frame.body.count
                    isOver = frame.kind != .part
                }
                try await exchange.reply(Bytes("\(size)"))
            }
        }
        try await withServerAndClient(by: mechanism, handler: handler) { server, client in
            let stream = client.open(piece("")).responses
            async let posted: Void = {
                for _ in 0..<1600 {
                    try await stream.post(piece(filled(65_536)), isPart: true)
                    notes.add("")
                }
            }()
            // The server's reaction holds 1 MiB, what was read at once is a little more, and then the kernels are full.
            while await !server.hasCrowdedLinks { await moment() }
            #expect(notes.all.count < 1600)
            #expect(await server.heldCount <= 256)
            gate.add("")
            try await posted
            try await stream.post(whole(""))
            #expect(await words(of: stream) == ["\(1600 * 65_536)"])
        }
    }

    @Test(arguments: Mechanism.allCases)
    func cancellingEndsTheServersReactions(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism, handler: Self.handler) { server, client in
            await withTaskGroup(of: Void.self) { group in
                for upload in 0..<100 {
                    group.addTask {
                        let stream = client.open(piece("0 ")).responses
                        for number in 1...upload % 10 + 1 {
                            _ = await failure(posting: piece(Bytes("\(number) ")), isPart: true, to: stream)
                        }
                        stream.cancel()
                        #expect(await failure(posting: whole("!"), to: stream) == "cancelled notSent")
                    }
                }
            }
            try await server.wait(within: patience) { $0.cancelCount == 100 && $0.droppedReplyCount == 100 }
            #expect(await client.metrics.pending == 0)
        }
    }

    @Test(arguments: Mechanism.allCases)
    func aSlowReaderDelaysTheServersReaction(_ mechanism: Mechanism) async throws {
        let notes = Notes()
        let handler: LoopbackServer.Handler = { _ in
            .perform { exchange in
                for _ in 0..<1600 {
                    try await exchange.part(filled(65_536))
                    notes.add("")
                }
                try await exchange.reply("end")
            }
        }
        try await withServerAndClient(by: mechanism, handler: handler) { server, client in
            let stream = client.stream(whole(""))
            while await !client.connection.isPaused { await moment() }
            #expect(await server.unsentCount <= 65_548)
            #expect(notes.all.count < 1600)
            var size = 0
            for try await frame in stream { size += frame.body.count }
            #expect(size == 1600 * 65_536 + 3)
        }
    }
}
