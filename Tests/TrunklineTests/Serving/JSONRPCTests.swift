import SampleLayouts
import Testing
import Trunkline
import TrunklineTesting

/// Requests in both directions over real sockets, as JSON-RPC 2.0 and the Language Server Protocol 3.17 describe them.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct JSONRPCTests {
    /// Sums the numbers in `[1,2]`, or does not end (`hang`), or throws.
    @Sendable private static func answer(_ request: Frame) async throws -> Frame? {
        switch request[bytes: "method"] {
        case "sum":
            let numbers = String(request.body).split { !$0.isNumber }.compactMap { Int($0) }
            return Frame(.response, body: Bytes("\(numbers.reduce(0, +))"))
        case "hang":
            try await Task.sleep(for: .seconds(1000))
            return nil
        case "fail": throw CancellationError()
        default: return JSONRPCCodec.error(-32601, "Method not found")
        }
    }

    private static func call(_ method: Bytes, _ parameters: Bytes = "", serial: SerialNumber = 0) -> Frame {
        var frame = Frame(.request, serial: serial, body: parameters)
        frame[bytes: "method"] = method
        return frame
    }

    private func withPeers(
        maximumConcurrent: Int = 64,
        _ framing: JSONRPCCodec.Framing = .lines,
        _ body: nonisolated(nonsending) (LoopbackServer, Client) async throws -> Void
    ) async throws {
        // The server answers requests of the client with their parameters.
        try await withServerAndClient(speaking: JSONRPCCodec(framing)) { server, client in
            try await whileServing(
                client,
                server,
                maximumConcurrent: maximumConcurrent,
                maximumWaiting: 4,
                pause: { await moment() },
                Self.answer
            ) {
                try await body(server, client)
            }
        }
    }

    /// JSON-RPC 2.0, section 4: the IDs belong to the side that sends the request.
    @Test(arguments: [JSONRPCCodec.Framing.lines, .contentLength])
    func bothSidesCallEachOtherWithTheSameNumbers(_ framing: JSONRPCCodec.Framing) async throws {
        try await withPeers(maximumConcurrent: 1000, framing) { server, client in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...300 {
                    group.addTask {
                        let sum = try await server.request(
                            Self.call("sum", "[\(number),1]", serial: SerialNumber(number))
                        )
                        #expect(sum.serial == SerialNumber(number) && sum.body == Bytes("\(number + 1)"))
                    }
                    group.addTask {
                        var request = Request(body: "[\(number)]")
                        request[bytes: "method"] = "echo"
                        let echo = try await client.send(request)
                        #expect(echo.body == Bytes("[\(number)]"))
                    }
                }
                try await group.waitForAll()
            }
            let metrics = await client.metrics
            #expect(metrics.serving.answered == 300 && metrics.responses == 300)
            #expect(metrics.unknownResponses == 0 && metrics.unexpectedFrames == 0)
            #expect(await server.journal.requestCount == 300)
        }
    }

    /// JSON-RPC 2.0, section 5.1: the codes of errors.
    @Test func refusalsHaveTheCodesOfTheSpecification() async throws {
        try await withPeers(maximumConcurrent: 1) { server, client in
            func code(_ method: Bytes) async throws -> Int32 {
                let answer = try await server.request(Self.call(method))
                #expect(answer.isErrorResponse)
                return Int32(bitPattern: answer.status)
            }
            let (unknown, failed) = (try await code("unknown"), try await code("fail"))
            #expect(unknown == -32601 && failed == -32603)
            let hanging = (0..<5).map { _ in Task { try await server.request(Self.call("hang")) } }
            // One runs, and four wait.
            while await client.metrics.serving.waiting < 4 { await moment() }
            let overloaded = try await code("sum")
            #expect(overloaded == -32000)
            for task in hanging { task.cancel() }
            for task in hanging { await #expect(throws: CancellationError.self) { try await task.value } }
        }
        try await withServerAndClient(speaking: JSONRPCCodec()) { server, client in
            try await client.connect()
            let answer = try await server.request(Self.call("sum"))
            #expect(answer.isErrorResponse && Int32(bitPattern: answer.status) == -32601)
        }
    }

    /// LSP 3.17, "Cancellation Support": a request that was cancelled still needs to be answered.
    @Test func aCancelledRequestIsAnsweredWithItsCode() async throws {
        try await withPeers { server, client in
            let line = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"hang\"}"
            let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":7}}"
            await server.script(.sequence([.garbage(Bytes(line + "\n")), .garbage(Bytes(cancel + "\n")), .echo]))
            var request = Request(body: "[]")
            request[bytes: "method"] = "echo"
            _ = try await client.send(request)
            // The answer of the client: the test server did not send the request by `request`, and takes it for one.
            let journal = try await server.wait { $0.requestCount == 2 }
            let answer = try #require(journal.requests.last)
            #expect(answer.serial == 7 && Int32(bitPattern: answer.status) == -32800)
            #expect(await client.metrics.serving.cancelled == 1)
        }
    }

    /// JSON-RPC 2.0, section 4: the method must be a string.
    @Test func aMalformedRequestIsRefused() async throws {
        try await withPeers { server, client in
            await server.script(.sequence([.garbage("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":1}\n"), .echo]))
            var request = Request(body: "[]")
            request[bytes: "method"] = "echo"
            _ = try await client.send(request)
            let journal = try await server.wait { $0.requestCount == 2 }
            #expect(journal.requests.last.map { Int32(bitPattern: $0.status) } == -32600)
            #expect(await client.metrics.serving.refused == [.malformed: 1])
        }
    }

    /// With real threads, each of 5,000 is answered or refused.
    @Test func aBurstIsAnsweredOrRefused() async throws {
        try await withServerAndClient(speaking: refusingLayout) { server, client in
            try await whileServing(client, server, pause: { await moment() }) {
                $0.echoed
            } _: {
                let outcomes = await server.burst(of: 5000)
                let serving = await client.metrics.serving
                #expect(outcomes.total == 5000 && outcomes.failed == 0)
                #expect(outcomes.answered >= 64 && outcomes.answered == serving.answered)
                #expect(outcomes.refused == serving.refused && serving.dropped == 0)
                #expect(await server.journal.requestCount == 0)
            }
        }
    }

    @Test func aLinkThatEndsCancelsHandlers() async throws {
        try await withPeers { server, client in
            let hanging = (0..<3).map { _ in Task { try await server.request(Self.call("hang")) } }
            while await client.metrics.serving.running < 3 { await moment() }
            await server.disconnectAll(reset: true)
            for task in hanging { await #expect(throws: TransportError.self) { try await task.value } }
            while await client.metrics.serving.running > 0 { await moment() }
            #expect(await client.metrics.serving.dropped == 3)
        }
    }
}
