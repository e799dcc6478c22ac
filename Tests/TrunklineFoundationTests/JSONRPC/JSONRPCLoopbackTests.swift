import Testing
import Trunkline
import TrunklineFoundation
import TrunklineTesting

/// Requests in both directions over real sockets.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct JSONRPCLoopbackTests {}

extension JSONRPCLoopbackTests {
    /// JSON-RPC 2.0, section 4: the ids belong to the side that sends the request.
    @Test(arguments: [JSONRPCCodec.Framing.lines, .contentLength], [JSONRPCCodec.IDs.numbers, .strings])
    func bothSidesCallEachOtherWithTheSameNumbers(
        _ framing: JSONRPCCodec.Framing,
        _ ids: JSONRPCCodec.IDs
    ) async throws {
        let codec = JSONRPCCodec(framing, dialect: .languageServer, ids: ids)
        try await withLoopbackServer(speaking: codec) { server in
            try await withClient(to: server.endpoint, speaking: codec, options: patientOptions) { client in
                try await whileServing(client, maximumConcurrent: 1000, pause: { await Task.yield() }) { call in
                    call.method == "sum" ? try call.params(as: [Int].self).reduce(0, +) : nil
                } _: {
                    try await server.wait(within: patience) { $0.connectionCount > 0 }
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        for number in 1...300 {
                            group.addTask {
                                let serial = SerialNumber(number)
                                let sum = try await server.request(.call("sum", "[\(number),1]", serial: serial))
                                #expect(sum.serial == serial && sum.body == Bytes("\(number + 1)"))
                            }
                            group.addTask {
                                let echo = try await client.send(
                                    JSONRPCRequest("echo", [number], replyingWith: [Int].self)
                                )
                                #expect(echo == [number])
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
        }
    }

    /// The answer to a request of the server whose id is a string: byte by byte as it came.
    @Test(arguments: ["\"a-\\u0062\"", "1.50", "\"7\"", "7"])
    func anyIDOfTheServerIsSentBack(_ id: String) async throws {
        let call = Bytes("{\"jsonrpc\":\"2.0\",\"id\":\(id),\"method\":\"none\"}\n")
        // Lines, so that the test sees the bytes.
        let answer = Bytes(
            "{\"jsonrpc\":\"2.0\",\"id\":\(id),\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}"
        )
        let lines = DelimitedCodec(delimiter: "\n").reading { $0.kind = .request }
        let options = LoopbackServer.Options { $0.onConnect = .garbage(call) }
        try await withLoopbackServer(speaking: lines, options: options, handler: { _ in .noReply }) { server in
            try await withClient(to: server.endpoint, speaking: JSONRPCCodec(.lines), options: patientOptions) {
                client in
                try await client.connect()
                let received = try await server.waitForRequest(within: patience) { _ in true }
                #expect(received.body == answer, "\(String(received.body))")
            }
        }
    }
}
