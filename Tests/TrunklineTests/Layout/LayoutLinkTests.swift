import SampleLayouts
import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// How a layout affects the links of a client: frames of an unknown type, and fields that every frame of a link has.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct LayoutLinkTests {
    private let layout = FrameLayout {
        Field.type(UInt8.self)
        Field.serial(UInt8.self)
        Field.integer("session", UInt16.self)
        Field.length(UInt8.self, counting: .body)
        Field.body
    }
    .roles {
        $0.ping = 1
        $0.push = 2
        $0.cancel = 3
        $0.requests = 0x10...
        $0.serials = 50...
    }

    /// Regression: the frame ended the link and every request in flight on it.
    @Test func aFrameOfAnUnknownTypeDoesNotEndTheLink() throws {
        // Such a frame with the serial 0, and one with the serial of the request.
        let handler: LoopbackServer.Handler = { request in
            let serial = UInt8(request.serial)
            return switch request.body {
            case "a": .sequence([.garbage([9, 0, 0, 0, 1, 0x78]), .echo])
            case "b": .sequence([.garbage([9, serial, 0, 0, 1, 0x78]), .after(.seconds(1), .echo)])
            default: .echo
            }
        }
        let patient = LoopbackServer.Options { $0.answersCancelled = true }
        try simulate(speaking: layout, server: patient, handler: handler) { service, client in
            let reply = try await client.send(Request(type: 0x10, body: "a"))
            #expect(reply.body == "a")
            #expect(await client.metrics.unknownResponses == 1)
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 0x10, body: "b"))
            }
            #expect(error?.code == .protocolViolation && error?.fate == .unknown)
            let cause = error?.cause as? FrameError
            #expect(cause?.code == .unknownType)
            #expect(
                cause?.message.hasPrefix("the response has type 0x9, which is unknown; its body has 1 byte")
                    == true
            )
            // The frame may not have been the response. The request is cancelled, and its serial is held until the
            // right one comes.
            #expect(await client.metrics.heldSerials == 1)
            try await service.pass(.seconds(2))
            #expect(await client.metrics.heldSerials == 0)
            _ = try await client.send(Request(type: 0x10, body: "c"))
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// Regression: the code was in the body, and the error said "body of 1 bytes". The test server copies the fields
    /// that a response repeats.
    @Test func aModbusErrorHasTheExceptionCodeAsStatus() throws {
        let handler: LoopbackServer.Handler = { $0.type == 3 ? .reply([2, 0, 1]) : .status(2) }
        try simulate(speaking: Protocols.modbus, handler: handler) { _, client in
            var read = Request(type: 3)
            read["unit"] = 9
            let reply = try await client.send(read)
            #expect(reply["unit"] == 9 && reply.body == [2, 0, 1])
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 4)) }
            #expect(error?.code == .rejected && error?.response?.status == 2)
            #expect(error.map { "\($0)".contains("answered with status 2, body of 1 byte") } == true)
        }
    }

    /// Regression: a link of a protocol without a type for pings was not monitored. A server that hung kept it.
    @Test func aProtocolWithoutTypesHasAHeartbeat() throws {
        try simulate(speaking: Protocols.dns) { service, client in
            _ = try await client.send(Request(body: Protocols.rootQuestion))
            try await service.pass(.seconds(40))
            #expect(await service.server.journal.pingCount == 1)
            #expect(await client.diagnostics.roundTripTime != nil)
            #expect(await client.metrics.unknownResponses == 0)
            await service.server.answerPings(false)
            try await service.pass(.seconds(60))
            #expect(await client.metrics.connection.links > 1)
        }
    }

    /// A layout that tells cancellations by its kind field only.
    @Test func aKindFieldThatListsCancellationsSendsThem() throws {
        let layout = FrameLayout {
            Field.kind(UInt8.self, [.request: 0, .response: 1, .cancel: 3])
            Field.serial(UInt32.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        try simulate(speaking: layout, handler: { $0.body == "wait" ? .noReply : .echo }) { service, client in
            let handle = client.start(Request(body: "wait"))
            let request = try await service.server.waitForRequest()
            handle.cancel()
            let cancel = try await service.server.waitForCancel(of: request.serial)
            #expect(cancel.kind == .cancel && cancel.serial == request.serial)
            let reply = try await client.send(Request(body: "echo"))
            #expect(reply.body == "echo")
        }
    }

    /// The words of an error, an acknowledgement of several requests, a part for several, and a farewell, which no role
    /// declares.
    @Test func aRuleCompletesReceivedFrames() throws {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.serial(UInt8.self)
            Field.status(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .reading { frame in
            if frame.isErrorResponse {
                frame.reason = ServerReason(code: Int(frame.status), text: String(frame.body))
            }
            if frame.type == 2 { frame.answers = .through }
            if frame.type == 4 { (frame.kind, frame.answers) = (.part, .through) }
            if frame.type == 3 {
                frame.kind = .goAway
                frame.markLinkEnding(.now)
                frame.reason = ServerReason("GOODBYE")
            }
        }
        .roles { $0.serials = 1... }
        let handler: LoopbackServer.Handler = { request in
            switch request.body {
            case "fail": .reply(Frame(.response, type: 1, status: 7, body: "no room"))
            case "ack": .reply(Frame(.response, type: 2))
            case "progress": .sequence([4, 2].map { .reply(Frame(.response, type: $0, body: "half")) })
            case "bye": .reply(Frame(.response, type: 3))
            default: .noReply
            }
        }
        try simulate(speaking: layout, handler: handler) { _, client in
            func error(_ body: Bytes) async -> ClientError? {
                await failure { () throws(ClientError) in try await client.send(Request(type: 1, body: body)) }
            }
            #expect(await error("fail")?.reason == ServerReason(code: 7, text: "no room"))
            let results = await client.send(all: ["a", "b", "ack"].map { Request(type: 1, body: $0) })
            #expect(results.allSatisfy { (try? $0.get().type) == 2 })
            let stream = client.stream(Request(type: 1, body: "c"))
            _ = try await client.send(Request(type: 1, body: "progress"))
            #expect(await words(of: stream) == ["+half", "half"])
            #expect(await error("bye")?.reason == ServerReason("GOODBYE"))
        }
    }

    @Test func aFrameThatTheClosureRejectsIsNeitherGoAwayNorPing() throws {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.serial(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .roles {
            $0.ping = 1
            $0.goAway = 3
            $0.serials = 50...
            $0.kind = { $0.type != 0x10 && $0.body.isEmpty ? nil : $0.kind }
        }
        let handler: LoopbackServer.Handler = { _ in .sequence([.garbage([3, 0, 0, 1, 0, 0]), .echo]) }
        try simulate(speaking: layout, handler: handler) { service, client in
            let reply = try await client.send(Request(type: 0x10, body: "a"))
            #expect(reply.body == "a")
            try await service.pass(.seconds(1))
            let metrics = await client.metrics
            #expect(metrics.unknownResponses == 2)
            #expect(metrics.connection.links == 1)
            #expect(await service.server.journal.pongCount == 0)
        }
    }

    /// Regression: a heartbeat or a cancel frame could not carry the number of the session.
    @Test func everyFrameAfterTheHandshakeHasTheFieldsThatItSet() throws {
        let options = ClientOptions { options in
            options.handshake.perform = { handshaker in
                let answer = try await handshaker.send(Request(type: 0x11))
                try await handshaker.setDefault("session", to: answer["session"] ?? 0)
            }
        }
        let handler: LoopbackServer.Handler = { request in
            var answer = Frame(.response)
            answer["session"] = 7
            return request.type == 0x11 ? .reply(answer) : request.body == "silence" ? .noReply : .echo
        }
        try simulate(speaking: layout, options: options, handler: handler) { service, client in
            _ = try await client.send(Request(type: 0x10))
            var own = Request(type: 0x10)
            own["session"] = 8
            _ = try await client.send(own)
            _ = await failure { () throws(ClientError) in
                try await client.send(Request(type: 0x10, body: "silence"), timeout: .seconds(3))
            }
            try await service.network.clock.sleep(for: .seconds(1))
            let seen = await service.server.received
            #expect(seen.filter { $0.kind == .request }.map { $0["session"] } == [0, 7, 8, 7])
            #expect(seen.allSatisfy { $0.kind == .request || $0["session"] == 7 })
            // The next link has its own session number.
            service.network.reset("db")
            _ = try await client.send(Request(type: 0x10))
            #expect(await service.server.received.filter { $0.type == 0x11 }.map { $0["session"] } == [0, 0])
        }
    }

    /// Regression: the attempt was repeated until the caller's deadline, although the failure is permanent.
    @Test func anUnknownFieldFailsTheHandshakePermanently() throws {
        let options = ClientOptions { options in
            options.requests.timeout = nil
            options.handshake.perform = { try await $0.setDefault("nothing", to: [1, 2]) }
        }
        try simulate(speaking: layout, options: options) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 0x10)) }
            #expect(error?.code == .unavailable)
            let cause = error?.cause as? ClientError
            #expect(cause?.code == .invalidArgument && cause?.fate == .notSent)
            #expect((cause?.cause as? FrameError)?.message == "the layout has no field \"nothing\"")
        }
    }
}
