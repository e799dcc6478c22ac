import Foundation
import Synchronization
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineTesting

@testable import TrunklineLoopback

/// A client and a server that speak JSON-RPC, in virtual time.
@Suite(.tags(.simulated), .serialized, .timeLimit(.minutes(5)))
struct JSONRPCSimulationTests {}

extension JSONRPCSimulationTests {
    struct Pair: Codable, Sendable, Equatable { var a: Int, b: String }

    private static let codecs: [JSONRPCCodec] = [
        JSONRPCCodec(.lines), JSONRPCCodec(.contentLength, ids: .strings), .languageServer, .modelContext,
    ]

    // MARK: Requests

    @Test(arguments: codecs.indices) func requestsHaveTypedParametersAndResults(_ index: Int) throws {
        try simulateJSONRPC(speaking: Self.codecs[index]) { call, _ in
            switch call.method {
            case "pair": .inPieces(of: 7, .echo)
            case "nothing": call.params.isEmpty ? .reply("null") : .close
            default: .failure(JSONRPCError(.methodNotFound, "no method", data: "{\"a\":1,\"b\":\"x\"}"))
            }
        } _: { _, server, client in
            let pairs = (0..<50).map { JSONRPCRequest("pair", Pair(a: $0, b: "é\n\"\($0)"), replyingWith: Pair.self) }
            let results = await client.send(all: pairs)
            for (pair, result) in zip(pairs, results) {
                let value = try result.get()
                #expect(value == pair.params)
            }
            let none = try await client.send(JSONRPCRequest("nothing", replyingWith: Pair?.self))
            #expect(none == nil)
            _ = try await client.send(JSONRPCRequest("nothing", replyingWith: JSONRPCVoid.self))
            let error = await rejection { () throws(ClientError) in
                try await client.send(JSONRPCRequest("other", [1, 2], replyingWith: Int.self))
            }
            #expect(error?.code == .rejected && error?.fate == .answered)
            #expect(error?.reason == ServerReason("MethodNotFound", code: -32601, text: "no method"))
            let failure = error.flatMap { JSONRPCError($0) }
            #expect(failure?.code == .methodNotFound && failure?.message == "no method")
            let data = try failure?.data(as: Pair.self)
            #expect(data == Pair(a: 1, b: "x"))
            let metrics = await client.metrics
            #expect(metrics.rejections == ["MethodNotFound": 1] && metrics.unknownResponses == 0)
            #expect(await server.totalConnections == 1)
        }
    }

    /// Errors and the log said "type 0x0" of every request.
    @Test func errorsAndTheLogNameTheMethod() throws {
        let lines = LogLines()
        let options = ClientOptions { options in
            options.requests.timeout = .seconds(1)
            options.logging = ClientLogging { record in lines.append("\(record.event): \(record.message)") }
        }
        try simulateJSONRPC(speaking: .modelContext, options: options) { call, _ in
            call.method == "tools/call" ? .noReply : .failure(JSONRPCError(.methodNotFound, "no"))
        } _: { network, _, client in
            let error = await rejection { () throws(ClientError) in
                try await client.send(JSONRPCRequest("tools/call", ["secret"], replyingWith: Int.self))
            }
            #expect(error?.requestName == "tools/call")
            let handle = try client.start(JSONRPCRequest("tools/list", replyingWith: Int.self))
            let other = await rejection { () throws(ClientError) in try await handle.value }
            #expect(other?.code == .rejected && other?.requestName == "tools/list")
            try await network.clock.sleep(for: .seconds(60))
        }
        let text = lines.text
        #expect(text.contains("request 1 (tools/call) failed"))
        #expect(text.contains("of tools/list with MethodNotFound"), "\(text)")
        #expect(!text.contains("type 0x0") && !text.contains("secret"))
    }

    @Test func whatCannotBeSentOrReadHasATypedError() throws {
        try simulateJSONRPC(speaking: JSONRPCCodec(.lines)) { _, server, client in
            let scalar = await rejection { () throws(ClientError) in
                try await client.send(JSONRPCRequest("m", 1, replyingWith: Int.self))
            }
            #expect(scalar?.code == .invalidRequest && scalar?.fate == .notSent && scalar?.cause is FrameError)
            let number = await rejection { () throws(ClientError) in
                try await client.send(JSONRPCRequest("m", [Double.nan], replyingWith: Int.self))
            }
            #expect(number?.code == .invalidRequest && number?.cause is EncodingError)
            let reply = await rejection { () throws(ClientError) in
                try await client.send(JSONRPCRequest("m", [1], replyingWith: Pair.self))
            }
            #expect(reply?.code == .invalidResponse && reply?.cause is JSONDecodingError)
            #expect(throws: ClientError.self) { try Request(JSONRPCNotification("m", Double.infinity)) }
            #expect(reply.flatMap { JSONRPCError($0) } == nil)
            #expect(await server.totalConnections == 1)
        }
    }

    /// A malformed response costs one request, at once. Text that is no message costs none.
    @Test func malformedMessagesDoNotEndTheLink() throws {
        try simulateJSONRPC(speaking: JSONRPCCodec(.lines)) { call, frame in
            let id = frame.serial
            return switch call.method {
            case "nan": .garbage("{\"jsonrpc\":\"2.0\",\"id\":\(id),\"result\":NaN}\n")
            case "banner": .garbage("listening on stdio\n\n{\"jsonrpc\":\"2.0\",\"id\":\"\(id)\",\"result\":[1]}\r\n")
            default:
                .garbage("[{\"jsonrpc\":\"2.0\",\"method\":\"n\"},{\"jsonrpc\":\"2.0\",\"id\":\(id),\"result\":[2]}]\n")
            }
        } _: { _, server, client in
            let notes = client.pushes(forKey: "n").messages
            let nan = await rejection { () throws(ClientError) in
                try await client.send(JSONRPCRequest("nan", replyingWith: Double.self))
            }
            #expect(nan?.code == .protocolViolation && nan?.fate == .answered)
            let banner = try await client.send(JSONRPCRequest("banner", replyingWith: [Int].self))
            let batch = try await client.send(JSONRPCRequest("batch", replyingWith: [Int].self))
            #expect(banner == [1] && batch == [2])
            let note = await notes.first { _ in true }
            #expect(note.flatMap { JSONRPCCall($0) }?.method == "n")
            #expect(await client.metrics.unknownResponses == 1)
            #expect(await server.totalConnections == 1)
        }
    }

    @Test func notificationsGoBothWays() throws {
        try simulateJSONRPC(speaking: .modelContext) { call, frame in
            frame.serial == 0 ? .push(.notification("seen", "[\"\(call.method)\"]")) : .echo
        } _: { _, server, client in
            let seen = client.pushes(forKey: "seen").messages
            let other = client.pushes(forKey: "unseen")
            try await client.post(Request(JSONRPCNotification("note", Pair(a: 1, b: "x"))))
            try await client.post(Request(JSONRPCNotification("bare")))
            var methods: [[String]] = []
            for await message in seen.prefix(2) {
                methods.append(try #require(JSONRPCCall(message)).params(as: [String].self))
            }
            #expect(methods == [["note"], ["bare"]])
            #expect(await server.journal.requests.map(\.body) == ["{\"a\":1,\"b\":\"x\"}", ""])
            #expect(await client.metrics.unknownResponses == 0)
            _ = other
        }
    }

    // MARK: Cancellation and heartbeats

    /// LSP 3.17, "Cancellation Support": a request that was cancelled is still answered, with -32800.
    @Test func aCancelledRequestOfLSPIsAnsweredLate() throws {
        try simulateJSONRPC(speaking: .languageServer) { call, _ in
            call.method == "slow" ? .noReply : .echo
        } _: {
            network,
            server,
            client in
            let slow = try client.start(JSONRPCRequest("slow", [1], replyingWith: Int.self))
            let request = try await server.waitForRequest { $0[bytes: "method"] == "slow" }
            slow.cancel()
            let error = await rejection { () throws(ClientError) in try await slow.value }
            #expect(error?.code == .cancelled)
            _ = try await server.waitForCancel(of: request.serial)
            var late = JSONRPCError(.requestCancelled, "cancelled").response
            late.serial = request.serial
            try await server.broadcast(late)
            let next = try await client.send(JSONRPCRequest("next", [2], replyingWith: [Int].self))
            #expect(next == [2])
            let metrics = await client.metrics
            #expect(metrics.lateResponses == 1 && metrics.unknownResponses == 0 && metrics.unexpectedFrames == 0)
        }
    }

    /// MCP 2025-06-18, "Cancellation": no response follows, but one may have been on its way.
    @Test func aCancelledRequestOfMCPIsNotAnswered() throws {
        let options = ClientOptions { $0.requests.maximumInFlight = 1 }
        try simulateJSONRPC(speaking: .modelContext, options: options) { call, _ in
            call.method == "slow" ? .noReply : .echo
        } _: { network, server, client in
            let error = await rejection { () throws(ClientError) in
                try await client.send(JSONRPCRequest("slow", [1], replyingWith: Int.self), timeout: .milliseconds(500))
            }
            #expect(error?.code == .timedOut && error?.fate == .unknown)
            // The place of the request is free.
            let next = try await client.send(JSONRPCRequest("next", [2], replyingWith: [Int].self))
            #expect(next == [2])
            #expect(await server.journal.cancels.count == 1)
        }
    }

    @Test func aLinkOfMCPHasAHeartbeat() throws {
        try simulateJSONRPC(speaking: .modelContext) { network, server, client in
            try await client.connect()
            try await network.clock.sleep(for: .seconds(600))
            let metrics = await client.metrics
            #expect(metrics.unknownResponses == 0)
            #expect(await server.journal.pingCount > 5)
            #expect(await server.totalConnections == 1)
            // The client answers pings of the server, whose ids may be strings.
            let ping = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n"
            await server.script(.sequence([.garbage(Bytes(ping)), .echo]))
            let pongs = await server.journal.pongCount
            _ = try await client.send(JSONRPCRequest("next", [2], replyingWith: [Int].self))
            try await server.ping()
            try await server.wait { $0.pongCount > pongs }
            #expect(await client.metrics.serving.received == 0)
            // A server that is silent is left.
            await server.fallSilent()
            try await network.clock.sleep(for: .seconds(600))
            #expect(await server.totalConnections > 1)
        }
    }

    @Test func aLinkOfLSPEndsWithItsFarewell() throws {
        try simulateJSONRPC(speaking: .languageServer) { _, server, client in
            _ = try await client.send(JSONRPCRequest("shutdown", replyingWith: JSONRPCVoid.self))
            await client.close()
            let exit = try await server.waitForRequest { $0[bytes: "method"] == "exit" }
            #expect(exit.serial == 0 && exit.body.isEmpty)
        }
    }

    // MARK: Requests of the server

    private static let handler: @Sendable (JSONRPCCall) async throws -> (any Encodable & Sendable)? = { call in
        switch call.method {
        case "sum": return try call.params(as: [Int].self).reduce(0, +)
        case "nothing": return JSONRPCVoid()
        case "pair": return Pair(a: 1, b: "x")
        case "fail": throw CancellationError()
        case "refuse": throw JSONRPCError(7, "no", data: "[1]")
        case "hang":
            try await Task.sleep(for: .seconds(100_000))
            return nil
        case "nan": return Double.nan
        default: return nil
        }
    }

    @Test(arguments: codecs.indices) func requestsOfTheServerAreAnswered(_ index: Int) throws {
        try simulateJSONRPC(speaking: Self.codecs[index]) { network, server, client in
            try await whileServing(
                client,
                pause: { try await network.clock.sleep(for: .milliseconds(1)) },
                Self.handler
            ) {
                try await server.wait { $0.connectionCount > 0 }
                let answers: [(Frame, Bytes)] = [
                    (.call("sum", "[1,2,3]"), "6"), (.call("nothing"), "null"),
                    (.call("pair"), "{\"a\":1,\"b\":\"x\"}"),
                    (.call("unknown"), "{\"code\":-32601,\"message\":\"Method not found\"}"),
                    (.call("fail"), "{\"code\":-32603,\"message\":\"Internal error\"}"),
                    (.call("nan"), "{\"code\":-32603,\"message\":\"Internal error\"}"),
                    (.call("sum", "{}"), "{\"code\":-32602,\"message\":\"Invalid params\"}"),
                    (.call("sum"), "{\"code\":-32602,\"message\":\"Invalid params\"}"),
                    (.call("refuse"), "{\"code\":7,\"message\":\"no\",\"data\":[1]}"),
                ]
                for (request, body) in answers {
                    let answer = try await server.request(request)
                    #expect(answer.isErrorResponse == (JSONRPCError(parsing: answer.body) != nil), "\(request)")
                    #expect(try Self.isSameJSON(answer.body, body), "\(String(answer.body))")
                }
            }
        }
    }

    private static func isSameJSON(_ a: Bytes, _ b: Bytes) throws -> Bool {
        func value(_ bytes: Bytes) throws -> NSObject? {
            try JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed) as? NSObject
        }
        return try value(a) == value(b)
    }

    private static func isBusy(_ client: Client) async throws -> Bool {
        let serving = await client.metrics.serving
        return serving.running + serving.waiting > 0
            || serving.answered + serving.dropped + serving.refused.values.reduce(0, +) < serving.received
    }

    /// With 20,000 requests at a time, 3,600 were never answered.
    @Test(arguments: [20_000, 64]) func everyRequestOfAFloodIsAnsweredOrRefused(_ maximumConcurrent: Int) throws {
        let count = 20_000
        try simulateJSONRPC(speaking: .modelContext) { _, _ in
            let calls = (0..<count).map {
                "{\"jsonrpc\":\"2.0\",\"id\":\"r\($0)\",\"method\":\"sum\",\"params\":[1]}\n"
            }
            return .sequence([.garbage(Bytes(calls.joined())), .echo])
        } _: { network, server, client in
            let pause: @Sendable () async throws -> Void = { try await network.clock.sleep(for: .milliseconds(1)) }
            let handler: @Sendable (JSONRPCCall) async throws -> (any Encodable & Sendable)? = { call in
                try await network.clock.sleep(for: .seconds(5))
                return try await Self.handler(call)
            }
            try await whileServing(client, maximumConcurrent: maximumConcurrent, pause: pause, handler) {
                _ = try await client.send(JSONRPCRequest("go", [1], replyingWith: [Int].self))
                while try await Self.isBusy(client) { try await network.clock.sleep(for: .seconds(1)) }
                let serving = await client.metrics.serving
                #expect(serving.received == count && serving.dropped == 0)
                #expect(serving.answered + serving.refused.values.reduce(0, +) == count)
                if maximumConcurrent == count { #expect(serving.answered == count) }
            }
        }
    }

    /// JSON-RPC without refusals, which notes the requests that get no answer.
    private struct WatchedCodec: FrameCodec, ServingCodec {
        final class Forgotten: Sendable {
            let ids = Mutex<[SerialNumber]>([])
        }

        var base = JSONRPCCodec(.lines)
        let forgotten = Forgotten()

        var matching: ResponseMatching { base.matching }
        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try base.encode(frame, into: &output)
        }
        func refusal(of request: Frame, because reason: ServingRefusal) -> Frame? { nil }
        mutating func noteUnanswered(_ request: Frame) { forgotten.ids.withLock { $0.append(request.serial) } }
    }

    /// A handler that returns no answer left the id of its request in the codec of the link, and so did a request that was
    /// dropped.
    @Test func aCodecLearnsThatARequestGetsNoAnswer() throws {
        let (network, codec) = (SimulatedNetwork(seed: 1), WatchedCodec())
        try network.runBlocking {
            let server = try await network.startServer(at: "a:80", speaking: JSONRPCCodec(.lines)) { frame in
                guard JSONRPCCall(frame)?.method == "go" else { return .noReply }
                let calls = [3, 4, 5].map { "{\"jsonrpc\":\"2.0\",\"id\":\($0),\"method\":\"m\(String($0))\"}\n" }
                return .sequence([.garbage(Bytes(calls.joined())), .echo])
            }
            let client = Client(to: "a:80", speaking: codec, on: network.loops)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await client.serve(maximumConcurrent: 1, maximumWaiting: 1) { request in
                        try await network.clock.sleep(for: .seconds(1))
                        return request.serial == 3 ? nil : Frame(.response, body: "1")
                    }
                }
                while await client.metrics.serving.maximumConcurrent == 0 {
                    try await network.clock.sleep(for: .milliseconds(1))
                }
                _ = try await client.send(JSONRPCRequest("go", [1], replyingWith: [Int].self))
                try await network.clock.sleep(for: .seconds(5))
                group.cancelAll()
                try await group.waitForAll()
            }
            // Too many wait for the third one, and the codec has no refusal.
            let serving = await client.metrics.serving
            #expect(serving.answered == 2 && serving.dropped == 1)
            await client.close()
            await server.stop()
        }
        #expect(codec.forgotten.ids.withLock { $0 } == [5, 3])
    }

    private final class Strays: ClientObserver {
        let reasons = Mutex<[ServerReason?]>([])
        var delivery: EventDelivery { .onEventLoop }

        func observe(_ events: [ClientEvent]) {
            for event in events {
                if case .unknownResponse(0, _, _, let reason, true) = event.content {
                    reasons.withLock { $0.append(reason) }
                }
            }
        }
    }

    /// JSON-RPC 2.0, section 5.1: the server could not read the id. The error was never shown.
    @Test func anErrorWithoutAnIDEndsNoRequestAndIsShown() throws {
        let strays = Strays()
        let options = ClientOptions { $0.observers = [strays] }
        try simulateJSONRPC(speaking: .languageServer, options: options) { _, _ in
            let error = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"bad \\u0007byte\"}}"
            return .garbage(Bytes("Content-Length: \(error.utf8.count)\r\n\r\n\(error)"))
        } _: { _, _, client in
            let error = await rejection { () throws(ClientError) in
                try await client.send(JSONRPCRequest("m", [1], replyingWith: Int.self), timeout: .seconds(1))
            }
            #expect(error?.code == .timedOut && error?.fate == .unknown)
            #expect(await client.metrics.unknownResponses == 1)
        }
        #expect(strays.reasons.withLock { $0 } == [ServerReason("ParseError", code: -32700, text: "bad \u{7}byte")])
    }

    @Test func aClientThatDoesNotServeSaysSo() throws {
        try simulateJSONRPC(speaking: .languageServer) { _, server, client in
            try await client.connect()
            let answer = try await server.request(.call("sum"))
            #expect(answer.isErrorResponse && answer.reason?.name == "MethodNotFound")
            #expect(await client.metrics.serving.refused == [.notServed: 1])
        }
    }

    @Test func tooManyRequestsAreRefused() throws {
        try simulateJSONRPC(speaking: .languageServer) { network, server, client in
            let pause: @Sendable () async throws -> Void = { try await network.clock.sleep(for: .milliseconds(1)) }
            try await whileServing(client, maximumConcurrent: 1, maximumWaiting: 4, pause: pause, Self.handler) {
                try await server.wait { $0.connectionCount > 0 }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for serial in 1...5 as ClosedRange<UInt64> {
                        group.addTask { _ = try await server.request(.call("hang", serial: serial)) }
                    }
                    while await client.metrics.serving.waiting < 4 { try await pause() }
                    let answer = try await server.request(.call("sum", "[1]", serial: 9))
                    #expect(JSONRPCError(parsing: answer.body)?.code == .overloaded)
                    // Cancelling them, the server sends $/cancelRequest, which cancels the handlers.
                    group.cancelAll()
                    while let result = await group.nextResult() {
                        #expect(throws: CancellationError.self) { try result.get() }
                    }
                    while await client.metrics.serving.cancelled < 5 { try await pause() }
                    #expect(await client.metrics.serving.running == 0)
                }
            }
        }
    }

    /// The ids of both sides have nothing to do with each other, and those of the server may be anything.
    @Test(arguments: ["0", "1", "\"1\"", "1.5", "\"a\\u0000b\"", "-9"]) func anyIDIsSentBack(_ id: String) throws {
        try simulateJSONRPC(speaking: JSONRPCCodec(.lines)) { _, _ in
            .sequence([.garbage("{\"jsonrpc\":\"2.0\",\"id\":\(id),\"method\":\"sum\",\"params\":[1,2]}\n"), .echo])
        } _: { network, server, client in
            let pause: @Sendable () async throws -> Void = { try await network.clock.sleep(for: .milliseconds(1)) }
            try await whileServing(client, pause: pause, Self.handler) {
                let own = try await client.send(JSONRPCRequest("m", [1], replyingWith: [Int].self))
                #expect(own == [1])
                while await client.metrics.serving.answered < 1 { try await pause() }
                #expect(await client.metrics.unexpectedFrames == 0)
            }
        }
    }
}
