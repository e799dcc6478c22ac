import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO

/// Data after the server's go-ahead, in a protocol that matches responses in order, as `DATA` of SMTP (RFC 5321, section
/// 4.1.1.4): `354` is a part of the reply, lines follow, and a line with a dot ends them.
///
/// `open` required serials, so such a command was several requests, between which others could go out.
@Suite(.simulated, .timeLimit(.seeded))
struct OrderedUploadTests {}

extension OrderedUploadTests {
    private static func react(to frame: Frame) -> Reaction {
        let text = String(frame.body)
        if text.hasPrefix("DATA refused") { return .reply("554 no") }
        if text.hasPrefix("DATA") { return .after(.milliseconds(100), .reply("354 go ahead")) }
        if text.hasPrefix("CONTENT") {
            return .after(.milliseconds(50), .reply(Bytes("250 stored \(text.dropFirst(8))")))
        }
        return .reply(Bytes("250 \(text)"))
    }

    private func run(
        seed: UInt64 = 1,
        aborts: Bool = false,
        _ change: (inout ClientOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws {
        let options = ClientOptions {
            $0.failover.errorRate = nil
            change(&$0)
        }
        let handler: LoopbackServer.Handler = { Self.react(to: $0) }
        func run(_ codec: some FrameCodec) throws {
            try simulate(seed: seed, speaking: codec, options: options, handler: handler) { service, client in
                try await client.connect()
                try await body(service, client)
            }
        }
        if aborts { try run(AbortingMail()) } else { try run(MailCodec()) }
    }

    /// The content that the server has stored, and the other commands that it has received.
    private static func received(by server: LoopbackServer) async -> (contents: [String], commands: [String]) {
        let lines = await server.journal.requests.map { String($0.body) }
        return (lines.filter { $0.hasPrefix("CONTENT") }, lines.filter { !$0.hasPrefix("CONTENT") })
    }

    private static func expectAnswer(_ text: String, by client: Client) async throws {
        let reply = try await client.send(Request(body: Bytes(text)), timeout: .seconds(30))
        #expect(reply.body == Bytes("250 \(text)"))
    }

    @Test func nothingComesBetweenThePieces() throws {
        try run { service, client in
            let before = client.start(Request(body: "NOOP before"))
            let upload = client.open(Request(body: "DATA"))
            let behind = (0..<3).map { client.start(Request(body: Bytes("NOOP \($0)"))) }
            var replies = upload.responses.makeAsyncIterator()
            #expect(try await replies.next()?.body == "354 go ahead")
            for line in ["a", "b", "c"] {
                try await upload.send(Request(body: Bytes(line)))
                try await service.pass(.milliseconds(300))
            }
            #expect(behind.allSatisfy { $0.state == .queued })
            try await upload.finish(Request(body: "."))
            #expect(try await replies.next()?.body == "250 stored a|b|c")
            #expect(try await replies.next() == nil)
            #expect(try await before.value.body == "250 NOOP before")
            for (number, handle) in behind.enumerated() {
                #expect(try await handle.value.body == Bytes("250 NOOP \(number)"))
            }
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// The server expects no data then, so the link is as good as before.
    @Test func aRefusalBeforeTheDataKeepsTheLink() throws {
        try run { _, client in
            for _ in 0..<3 {
                let upload = client.open(Request(body: "DATA refused"))
                let error = await failure { () throws(ClientError) in for try await _ in upload.responses {} }
                #expect(error?.code == .rejected && error?.fate == .answered)
                let piece = await failure { () throws(ClientError) in try await upload.send(Request(body: "a")) }
                #expect(piece?.fate == .notSent)
                try await Self.expectAnswer("NOOP", by: client)
            }
            #expect(await client.metrics.connection.links == 1)
        }
    }

    enum Step: CaseIterable, Sendable { case unsent, beforeGoAhead, afterGoAhead, afterOnePiece, afterTheLast }

    /// Wherever an upload is abandoned, no later request is read as its data, and nothing incomplete is stored.
    @Test(arguments: Step.allCases, [false, true])
    func anAbandonedUploadReachesNoOtherRequest(_ step: Step, aborts: Bool) throws {
        try run(aborts: aborts) { service, client in
            let first = step == .unsent ? client.open(Request(body: "DATA")) : nil
            let upload = client.open(Request(body: "DATA"))
            if step != .unsent { try await service.server.waitForRequest { $0.body == "DATA" } }
            var replies = upload.responses.makeAsyncIterator()
            if step == .afterGoAhead || step == .afterOnePiece || step == .afterTheLast {
                #expect(try await replies.next()?.body == "354 go ahead")
            }
            if step == .afterOnePiece || step == .afterTheLast { try await upload.send(Request(body: "a")) }
            if step == .afterTheLast { try await upload.finish(Request(body: ".")) }
            upload.cancel()
            if let first {
                try await first.finish(Request(body: "."))
                for try await _ in first.responses {}
            }
            for number in 0..<3 { try await Self.expectAnswer("NOOP \(number)", by: client) }
            let (contents, commands) = await Self.received(by: service.server)
            #expect(contents.allSatisfy { !$0.contains("NOOP") })
            #expect(contents == (step == .afterTheLast ? ["CONTENT a"] : step == .unsent ? ["CONTENT "] : []))
            #expect(commands.filter { $0.hasPrefix("NOOP") }.count == 3)
            let links = await client.metrics.connection.links
            let mayStay = step == .unsent || aborts && step != .afterTheLast
            #expect(links == (mayStay ? 1 : 2), "\(commands)")
        }
    }

    /// Pieces and requests of many tasks, with cancellations and deadlines at any time.
    @Test func seeds() throws {
        for seed in 0..<UInt64(60) {
            try run(seed: seed, aborts: seed % 2 == 0) { service, client in
                var random = SeededGenerator(seed: seed)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for task in 0..<4 {
                        let lines = random.next() % 5
                        let pause = Duration.milliseconds(Int64(random.next() % 60))
                        let cut = random.next() % 3 == 0 ? Duration.milliseconds(Int64(random.next() % 400)) : nil
                        group.addTask {
                            let upload = client.open(
                                Request(body: "DATA"),
                                timeout: cut.map { Timeout.after($0 + .milliseconds(1)) } ?? .seconds(60),
                                partTimeout: .seconds(60)
                            )
                            var replies = upload.responses.makeAsyncIterator()
                            do {
                                _ = try await replies.next()
                                for line in 0..<lines {
                                    try await upload.send(Request(body: Bytes("\(task).\(line)")))
                                    try await service.network.clock.sleep(for: pause)
                                }
                                try await upload.finish(Request(body: "."))
                                let stored = try await replies.next()
                                let content = (0..<lines).map { "\(task).\($0)" }.joined(separator: "|")
                                #expect(stored?.body == Bytes("250 stored \(content)"), "seed \(seed)")
                            } catch let error as ClientError {
                                #expect(
                                    cut != nil || error.code == .connectionLost || error.code == .closed,
                                    "seed \(seed): \(error)"
                                )
                            }
                        }
                        group.addTask {
                            for number in 0..<10 {
                                let text = "NOOP \(task).\(number)"
                                do throws(ClientError) {
                                    let reply = try await client.send(Request(body: Bytes(text)), timeout: .seconds(60))
                                    #expect(reply.body == Bytes("250 \(text)"), "seed \(seed)")
                                } catch {
                                    #expect(error.code == .connectionLost, "seed \(seed): \(error)")
                                }
                                try await service.network.clock.sleep(for: pause)
                            }
                        }
                    }
                    try await group.waitForAll()
                }
                let (contents, _) = await Self.received(by: service.server)
                #expect(contents.allSatisfy { !$0.contains("NOOP") && !$0.contains("DATA") }, "seed \(seed)")
            }
        }
    }
}

/// Lines of a mail protocol. The server's side joins the lines of the data to one request.
private struct MailCodec: FrameCodec, ServerSideCodec {
    var isServer = false
    /// The lines of the data that the server has received; `nil` if it expects a command.
    var content: [String]?

    var matching: ResponseMatching { .inOrder }

    func serverSide() -> any FrameCodec {
        var server = self
        server.isServer = true
        return server
    }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let end = input.firstOffset(of: 0x0A), let bytes = input.readBytes(end), input.skip(1) else { return nil }
        let line = String(bytes)
        guard isServer else {
            let kind: Frame.Kind = line.hasPrefix("354") ? .part : .response
            return Frame(kind, isErrorResponse: line.hasPrefix("5"), body: bytes)
        }
        guard let lines = content else {
            if line.hasPrefix("DATA"), line != "DATA refused" { content = [] }
            return Frame(.request, body: bytes)
        }
        if line == "ABORT" {
            content = nil
            return Frame(.request, body: "ABORTED")
        }
        if line == "." {
            content = nil
            return Frame(.request, body: Bytes("CONTENT \(lines.joined(separator: "|"))"))
        }
        content = lines + [line]
        return Frame(.ignored, body: bytes)
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        output.append("\(String(frame.body))\n".utf8)
    }
}

/// The same with a closing piece, after which the server answers and goes on.
private struct AbortingMail: FrameCodec, ServerSideCodec, UploadCodec, CancellingCodec, SentFrameCodec {
    var lines = MailCodec()
    var isUploading = false

    var matching: ResponseMatching { lines.matching }
    var abandoningEndsLink: Bool { false }
    func serverSide() -> any FrameCodec { lines.serverSide() }

    mutating func noteSent(_ frame: Frame) { isUploading = frame.kind == .part }

    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        isUploading ? Frame(.cancel, body: "ABORT") : nil
    }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try lines.decode(&input) }
    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try lines.encode(frame, into: &output)
    }
}
