import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Lines of text, as in RESP or SMTP: a response belongs to the oldest request. A line that begins with "-" is an
/// error, one that begins with ">" is a push. Written as a user would write it.
private struct LineCodec: FrameCodec, ServerSideCodec {
    var isServer = false
    var matching: ResponseMatching { .inOrder }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let end = input.firstOffset(of: UInt8(ascii: "\n")) else {
            if input.count > 1024 { throw FrameError(.illegalLength, "a line longer than 1024 bytes") }
            return nil
        }
        guard let line = input.readBytes(end), input.skip(1) else { return nil }
        if isServer { return Frame(.request, body: line) }
        if line.first == UInt8(ascii: ">") { return Frame(.push, body: Bytes(line.dropFirst())) }
        return Frame(.response, isErrorResponse: line.first == UInt8(ascii: "-"), body: line)
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        guard !frame.body.contains(UInt8(ascii: "\n")) else { throw FrameError(.malformed, "a line within a line") }
        if frame.kind == .push { output.append(UInt8(ascii: ">")) }
        output.append(frame.body)
        output.append(UInt8(ascii: "\n"))
    }

    func serverSide() -> any FrameCodec { LineCodec(isServer: true) }
}

/// Serials of eight bits: 16 to 255.
private let narrowLayout = FrameLayout {
    Field.type(UInt8.self)
    Field.serial(UInt8.self)
    Field.length(UInt16.self, counting: .body)
    Field.body
}
.roles {
    $0.ping = 1
    $0.push = 3
    $0.cancel = 2
    $0.serials = 16...255
}

/// How responses are matched with requests: in order, and by few serials.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct MatchingLoopbackTests {}

extension MatchingLoopbackTests {
    private func withLines(
        options: ClientOptions = quickOptions(),
        handler: @escaping LoopbackServer.Handler = { _ in .echo },
        _ body: nonisolated(nonsending) (LoopbackServer, Client) async throws -> Void
    ) async throws {
        try await withServer(speaking: LineCodec(), handler: handler) { server in
            try await withClient(to: server.endpoint, speaking: LineCodec(), options: options) { client in
                try await body(server, client)
            }
        }
    }

    // MARK: In order

    @Test func linesArePipelined() async throws {
        let handler: LoopbackServer.Handler = {
            $0.body == "100" ? .sequence([.push(Frame(.push, body: "news")), .echo]) : .echo
        }
        try await withLines(handler: handler) { server, client in
            let pushes = client.pushes()
            let results = await client.send(all: (0..<1000).map { Request(body: Bytes("\($0)")) })
            #expect(results.compactMap { try? Int(String($0.get().body)) } == Array(0..<1000))
            for await frame in pushes.messages.prefix(1) { #expect(frame.body == "news") }
            #expect(await server.totalConnections == 1)
        }
    }

    @Test func anErrorLineIsAnErrorResponse() async throws {
        try await withLines(handler: { _ in .reply("-ERR no") }) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(Request(body: "x")) }
            #expect(error?.code == .rejected)
            #expect(error?.response?.body == "-ERR no")
            let unsent = await failure { () throws(ClientError) in try await client.send(Request(body: "x\ny")) }
            #expect(unsent?.code == .invalidRequest)
            #expect(unsent?.fate == .notSent)
        }
    }

    @Test func lateResponsesAreDiscardedInTheirPlace() async throws {
        try await withLines(handler: { _ in .outOfOrder(window: 1000) }) { server, client in
            await server.pauseReading()
            let handles = (0..<20).map { client.start(Request(body: Bytes("\($0)"))) }
            while !handles.allSatisfy({ $0.state == .written }) { await moment() }
            for index in stride(from: 0, to: 20, by: 3) { handles[index].cancel() }
            for index in stride(from: 0, to: 20, by: 3) {
                let error = await failure(of: handles[index])
                #expect(error?.code == .cancelled)
                #expect(error?.fate == .unknown)
            }
            await server.resumeReading()
            try await server.waitForRequests(20, within: patience)
            await server.releaseHeld()
            for index in 0..<20 where index % 3 != 0 {
                try await expectBody(Bytes("\(index)"), of: handles[index])
            }
            #expect(await client.metrics.pending == 0)
            // "18" and the other cancelled requests. The last response, "19", came behind all of theirs.
            #expect(await client.metrics.lateResponses == 7)
            #expect(await server.journal.cancelCount == 0)
        }
    }

    @Test func anUnwrittenRequestHasNoPlaceInTheOrder() async throws {
        try await withLines { server, client in
            await server.stopAccepting()
            let handles = (0..<6).map { client.start(Request(body: Bytes("\($0)"))) }
            while await client.metrics.pending < 6 { await moment() }
            for index in [0, 2, 5] { handles[index].cancel() }
            for index in [0, 2, 5] { #expect(await failure(of: handles[index])?.fate == .notSent) }
            try await server.resumeAccepting()
            for index in [1, 3, 4] { try await expectBody(Bytes("\(index)"), of: handles[index]) }
            #expect(await server.received.map { String($0.body) } == ["1", "3", "4"])
        }
    }

    @Test func aNewLinkStartsANewOrder() async throws {
        let handler: LoopbackServer.Handler = { $0.body == "silence" || $0.body == "lost" ? .noReply : .echo }
        try await withLines(handler: handler) { server, client in
            for reset in [true, false] {
                let lost = [client.start(Request(body: "silence")), client.start(Request(body: "lost"))]
                try await server.waitForRequests(reset ? 2 : 6, within: patience)
                lost[1].cancel()
                #expect(await failure(of: lost[1])?.code == .cancelled)
                await server.disconnectAll(reset: reset)
                _ = await lost[0].outcome
                for number in 0..<2 {
                    let reply = try await client.send(Request(body: Bytes("\(number)")))
                    #expect(reply.body == Bytes("\(number)"))
                }
            }
        }
    }

    @Test func anUnsolicitedResponseIsCounted() async throws {
        try await withLines(handler: { _ in .twice }) { _, client in
            for number in 0..<3 {
                // The second response to one request might be taken for that to the next, because only the order tells
                // them apart. The test waits until it has arrived.
                _ = try await client.send(Request(body: Bytes("\(number)")))
                while await client.metrics.unknownResponses <= number { await moment() }
            }
            #expect(await client.metrics.unknownResponses == 3)
        }
    }

    @Test func aLineThatNeverEndsIsAProtocolViolation() async throws {
        let handler: LoopbackServer.Handler = { request in
            request.body == "endless" ? .garbage(filled(2000)) : .echo
        }
        try await withLines(handler: handler) { server, client in
            let error = await failure { () throws(ClientError) in try await client.send(Request(body: "endless")) }
            #expect(error?.code == .protocolViolation)
            _ = try await client.send(Request(body: "again"))
            #expect(await server.totalConnections == 2)
        }
    }

    // MARK: Few serials

    @Test(arguments: Mechanism.allCases)
    func thousandsOfRequestsShareAFewSerials(_ mechanism: Mechanism) async throws {
        // Some responses come after their requests were cancelled. This frees the serials.
        let handler: LoopbackServer.Handler = { request in
            let number = Int(String(request.body)) ?? 0
            return number % 10 == 0 ? .after(.milliseconds(2), .echo) : .echo
        }
        try await withServerAndClient(
            by: mechanism,
            speaking: narrowLayout,
            options: LoopbackServer.Options { $0.answersCancelled = true },
            clientOptions: quickOptions { $0.requests.maximumInFlight = 240 },  // the number of serials: keeps the link
            handler: handler
        ) { server, client in
            let tally = await withTaskGroup(of: [String].self) { group in
                for worker in 0..<400 {  // more than there are serials
                    group.addTask {
                        var outcomes: [String] = []
                        for round in 0..<10 {
                            let number = worker * 10 + round
                            let handle = client.start(Request(type: 16, body: Bytes("\(number)")))
                            if number % 20 == 0 {
                                while handle.state == .queued { await moment() }
                                handle.cancel()
                            }
                            do throws(ClientError) {
                                let isMine = try await handle.value.body == Bytes("\(number)")
                                outcomes.append(isMine ? "success" : "crossed")
                            } catch { outcomes.append("\(error.code)") }
                        }
                        return outcomes
                    }
                }
                return await group.reduce(into: [:] as [String: Int]) { tally, outcomes in
                    for outcome in outcomes { tally[outcome, default: 0] += 1 }
                }
            }
            #expect(tally["crossed"] == nil)
            #expect(tally.values.reduce(0, +) == 4000)
            #expect(tally["success", default: 0] >= 3800)
            while await client.metrics.heldSerials > 0 { await moment() }
            #expect(await client.metrics.pending == 0)
            #expect(await server.totalConnections == 1)
        }
    }

    @Test func requestsWaitWhileEverySerialIsHeld() async throws {
        let handler: LoopbackServer.Handler = { $0.body == "held" ? .outOfOrder(window: 240) : .echo }
        let options = LoopbackServer.Options { $0.answersCancelled = true }
        try await withServerAndClient(speaking: narrowLayout, options: options, handler: handler) { server, client in
            let held = (0..<239).map { _ in client.start(Request(type: 16, body: "held")) }
            try await server.waitForRequests(239, within: patience)
            for handle in held.prefix(100) { handle.cancel() }
            for handle in held.prefix(100) { #expect(await failure(of: handle)?.fate == .unknown) }
            let last = client.start(Request(type: 16, body: "held"))  // takes the last serial, and fills the window
            let waiting = (0..<50).map { client.start(Request(type: 16, body: Bytes("\($0)"))) }
            for (index, handle) in waiting.enumerated() {
                let reply = try await handle.value
                #expect(reply.body == Bytes("\(index)"))
            }
            for handle in held.dropFirst(100) + [last] {
                let reply = try await handle.value
                #expect(reply.body == "held")
            }
            let metrics = await client.metrics
            #expect(metrics.lateResponses == 100)
            #expect(metrics.heldSerials == 0)
        }
    }
}

extension PendingRequest<Response> {
    fileprivate var outcome: Result<Response, ClientError> {
        get async {
            do throws(ClientError) { return .success(try await value) } catch { return .failure(error) }
        }
    }
}
