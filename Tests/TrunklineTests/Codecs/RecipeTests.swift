import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// Recipes of the articles about codecs, with the code of the snippet `Fragments`.
@Suite(.simulated) struct RecipeTests {}

extension RecipeTests {
    // MARK: A byte for the kind, and a number for the method

    private static let rpc = FrameLayout {
        Field.type(UInt8.self)
        Field.serial(UInt32.self)
        Field.integer("method", UInt16.self)
        Field.length(UInt32.self, counting: .body)
        Field.body
    }
    .roles {
        $0.response = .types(2...3)
        $0.failure = 3
        $0.push = 4
        $0.ping = 5
        $0.pong = 6
    }

    private struct Lookup: TypedRequest {
        static let type: UInt32 = 1
        let name: String
        func encode() -> Bytes { Bytes(name) }
        func prepare(_ request: inout Request) { request["method"] = 7 }
        static func decode(_ response: Response) -> String { String(response.body) }
    }

    @Test func theKindMayBeTheTypeAndTheMethodAField() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.startServer(at: "db:7000", speaking: Self.rpc) { request in
                guard request["method"] == 7 else {
                    return .reply(Frame(.response, type: 3, isErrorResponse: true, body: "no such method"))
                }
                let event = Frame(.push, type: 4, body: "seen")
                return .sequence([.push(event), .reply(Frame(.response, type: 2, body: request.body))])
            }
            let options = ClientOptions { $0.liveness.interval = .seconds(5) }
            let client = Client(to: "db:7000", speaking: Self.rpc, options: options, on: network.loops)
            let pushes = client.pushes(ofType: 4)
            #expect(try await client.send(Lookup(name: "ada")) == "ada")
            for await push in pushes.messages.prefix(1) { #expect(push.body == "seen") }
            let error = await failure { () async throws(ClientError) in _ = try await client.send(Request(type: 1)) }
            #expect(error?.code == .rejected && error?.response?.body == "no such method")
            try await network.clock.sleep(for: .seconds(60))
            #expect(await server.journal.pingCount > 0)
            #expect(await client.metrics.connection.links == 1)
            await client.close()
            await server.stop()
        }
    }

    // MARK: Heartbeats in order

    private struct OrderedLines: FrameCodec, HeartbeatCodec, SentFrameCodec, ServerSideCodec {
        private var lines = DelimitedCodec(delimiter: "\n", maximumFrameSize: 512)
        private var unanswered: [Bool] = []
        var matching: ResponseMatching { .inOrder }

        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            var frame = frame
            if frame.kind == .ping { frame.kind = .request }  // it looks like one
            try lines.encode(frame, into: &output)
        }

        mutating func noteSent(_ frame: Frame) { unanswered.append(frame.kind == .ping) }

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            guard var frame = try lines.decode(&input) else { return nil }
            if !unanswered.isEmpty, unanswered.removeFirst() { frame.kind = .pong }
            return frame
        }

        func ping(number: UInt64) -> Frame? { Frame(.ping, body: "PING") }
        func pong(answering ping: Frame) -> Frame? { nil }
        func serverSide() -> any FrameCodec { lines.serverSide() }
    }

    /// The article said that such a protocol cannot have a heartbeat.
    @Test func aPingInOrderIsAnsweredInItsPlace() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let pings = Lock(0)
            let server = try await network.startServer(at: "db:7000", speaking: OrderedLines()) { request in
                if request.body == "PING" {
                    pings.withLock { $0 += 1 }
                    return .reply("PONG")
                }
                return request.body == "slow" ? .after(.seconds(7), .echo) : .echo
            }
            let options = ClientOptions {
                $0.liveness.interval = .seconds(2)
                $0.liveness.deadline = .seconds(10)
            }
            let client = Client(to: "db:7000", speaking: OrderedLines(), options: options, on: network.loops)
            for round in 0..<20 {
                let slow = client.start(Request(body: "slow"))
                let fast = (0..<3).map { client.start(Request(body: Bytes("\(round) \($0)"))) }
                #expect(try await slow.value.body == "slow")
                for (number, handle) in fast.enumerated() {
                    #expect(try await String(handle.value.body) == "\(round) \(number)")
                }
                try await network.clock.sleep(for: .seconds(6))
            }
            #expect(pings.withLock { $0 } >= 20)
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.responses == 80 && metrics.failed == 0)
            #expect(metrics.connection.pingDurations.count > 0)
            // A server that does not answer any more is noticed.
            network.halfOpen("db")
            try await network.clock.sleep(for: .seconds(13))
            #expect(await client.metrics.connection.losses == [.halfOpen: 1])
            await client.closeNow()
            await server.stop()
        }
    }
}
