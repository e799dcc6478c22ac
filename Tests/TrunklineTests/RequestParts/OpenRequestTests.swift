import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Requests in parts as callers send them.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct OpenRequestTests {}

extension OpenRequestTests {
    @Test func partsGoOutInOrderWhileTheReplyArrives() throws {
        let handler: LoopbackServer.Handler = { _ in
            .perform { exchange in
                var kinds = ["\(exchange.request.kind) \(exchange.request.body.first ?? 0)"]
                while let frame = try await exchange.next() {
                    kinds.append("\(frame.kind) \(frame.body.first ?? 0)")
                    if frame.kind != .part { break }
                    try await exchange.part(frame.body)
                }
                try await exchange.reply(Bytes(kinds.joined(separator: ", ")))
            }
        }
        try simulate(handler: handler) { _, client in
            let request = client.open(piece([1]))
            var responses = request.responses.makeAsyncIterator()
            for number in [2, 3] as [UInt8] {
                try await request.send(piece([number]))
                let part = try await responses.next()
                #expect(part?.body == [number] && part?.isPart == true)
            }
            try await request.finish(whole([4]))
            let last = try await responses.next()
            #expect(last?.isPart == false)
            #expect(last.map { String($0.body) } == "part 1, part 2, part 3, request 4")
            let end = try await responses.next()
            #expect(end == nil)
        }
    }

    /// The last part is empty.
    @Test func aRequestMayEndWithAnEmptyPart() throws {
        try simulate(handler: { _ in .perform(join) }) { _, client in
            let request = client.open(piece("a"))
            try await request.send(Request(body: "b"))
            try await request.finish(whole(""))
            #expect(await words(of: request.responses) == ["ab"])
            let late = await failure { () throws(ClientError) in try await request.send(piece("c")) }
            #expect(late?.code == .invalidRequest && late?.fate == .notSent)
        }
    }

    /// A part behind the last one would be taken for a part of another request.
    @Test func noPartFollowsTheLastOne() throws {
        let handler: LoopbackServer.Handler = { _ in .after(.seconds(1), .perform(join)) }
        try simulate(handler: handler) { _, client in
            let request = client.open(piece("a"))
            try await request.finish(whole("b"))
            let errors = [
                await failure { () throws(ClientError) in try await request.send(piece("c")) },
                await failure { () throws(ClientError) in try await request.finish(whole("d")) },
            ]
            #expect(errors.map { $0?.code } == [.invalidRequest, .invalidRequest])
            #expect(errors.map { $0?.fate } == [.notSent, .notSent])
            #expect(await words(of: request.responses) == ["ab"])
        }
    }

    /// A request lives as long as the caller holds an object to send or to read with. Without one it is cancelled.
    @Test(arguments: [true, false])
    func aReleasedOrCancelledRequestSendsACancelFrame(_ isExplicit: Bool) throws {
        try simulate(handler: { _ in .perform(join) }) { service, client in
            func begin() async throws {
                let request = client.open(piece("a"))
                _ = request.responses
                try await request.send(piece("b"))
                #expect(await service.server.journal.cancelCount == 0)
                if isExplicit { request.cancel() }
            }
            try await begin()
            try await service.server.wait { $0.cancelCount == 1 }
        }
    }

    /// Nothing could end a request that is abandoned in the middle.
    @Test func aProtocolWithSerialsButWithoutCancelFramesHasNoRequestsInParts() throws {
        let layout = FrameLayout {
            Field.kind(UInt8.self, [.request: 0, .response: 1, .part: 2])
            Field.serial(UInt32.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        try simulate(speaking: layout, handler: { _ in .echo }) { service, client in
            let request = client.open(Request(body: "a"))
            let sending = await failure { () throws(ClientError) in try await request.send(Request(body: "b")) }
            #expect(sending?.code == .invalidRequest && sending?.fate == .notSent)
            #expect(await words(of: request.responses) == ["invalidRequest notSent"])
            #expect(await service.server.received.isEmpty)
        }
    }
}
