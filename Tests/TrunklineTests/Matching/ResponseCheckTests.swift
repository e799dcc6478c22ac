import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Protocols whose responses repeat something of their requests. Regression: a response that did not was
/// returned as a success.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ResponseCheckTests {
    private let layout = FrameLayout {
        Field.type(UInt8.self)
        Field.serial(UInt8.self)
        Field.integer("unit", UInt8.self, default: 1)
        Field.length(UInt8.self, counting: .body)
        Field.body
    }
    .roles {
        $0.ping = 1
        $0.push = 2
        $0.cancel = 3
        $0.part = 4
        $0.goAway = 5
        $0.serials = 50...
        $0.responsesRepeat = [.type, .field("unit")]
    }

    private func request(_ body: Bytes, unit: UInt64? = nil) -> Request {
        var request = Request(type: 0x10, body: body)
        request["unit"] = unit
        return request
    }

    /// For some bodies, sends a response with another type or another unit first, and the right one a second later.
    private let handler: LoopbackServer.Handler = { request in
        let serial = UInt8(request.serial)
        return switch request.body {
        case "type": .sequence([.garbage([0x11, serial, 1, 1, 0x78]), .after(.seconds(1), .echo)])
        case "unit": .sequence([.garbage([0x10, serial, 2, 1, 0x78]), .after(.seconds(1), .echo)])
        case "part": .sequence([.garbage([4, serial, 2, 1, 0x78]), .after(.seconds(1), .echo)])
        case "leave": .sequence([.garbage([5, 0, 1, 0]), .after(.milliseconds(500), .echo)])
        case "leave, wrong":
            .sequence([.garbage([5, 0, 1, 0]), .after(.milliseconds(500), .garbage([0x10, serial, 1, 1, 0x78]))])
        case "slow": .after(.milliseconds(500), .echo)
        default: .echo
        }
    }

    @Test(arguments: ["type", "unit", "part"] as [Bytes])
    func aMismatchFailsItsRequestAlone(_ body: Bytes) throws {
        let patient = LoopbackServer.Options { $0.answersCancelled = true }
        try simulate(speaking: layout, server: patient, handler: handler) { service, client in
            let other = client.start(request("slow"))
            let error = await failure { () throws(ClientError) in try await client.send(request(body)) }
            #expect(error?.code == .protocolViolation && error?.fate == .unknown)
            #expect((error?.cause as? FrameError)?.code == .responseMismatch)
            #expect(try await other.value.body == "slow")
            // The right response may still come, and must not be matched with another request.
            #expect(await client.metrics.heldSerials == 1)
            try await service.server.wait { $0.cancelCount == 1 }
            try await service.pass(.seconds(2))
            #expect(await client.metrics.heldSerials == 0)
            #expect(await client.metrics.lateResponses == 1)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func everyFormOfCallIsChecked() throws {
        try simulate(speaking: layout, handler: handler) { _, client in
            let results = await client.send(all: [request("a"), request("type"), request("b")])
            #expect(results.map { try? $0.get().body } == ["a", nil, "b"])
            let started = client.start(request("unit"))
            let error = await failure { () throws(ClientError) in try await started.value }
            #expect(error?.code == .protocolViolation)
            var streamed: ClientError?
            do throws(ClientError) {
                for try await _ in client.stream(request("type")) {}
            } catch {
                streamed = error
            }
            #expect(streamed?.code == .protocolViolation)
            let retried = await failure { () throws(ClientError) in
                try await client.send(
                    request("type"),
                    options: CallOptions(retry: .idempotent(tries: 2), waitsForReady: false)
                )
            }
            #expect(retried?.code == .protocolViolation)
            let cached = await failure { () throws(ClientError) in
                try await CachingSender(client).send(request("type"), cache: .for(.seconds(5)))
            }
            #expect(cached?.code == .protocolViolation)
        }
    }

    /// A field that the request does not set is compared with the value that the link gives it.
    @Test func aFieldThatTheHandshakeSetIsCompared() throws {
        let options = ClientOptions { options in
            options.handshake.perform = { handshaker in
                _ = try await handshaker.send(Request(type: 0x10))
                try await handshaker.setDefault("unit", to: 7)
            }
        }
        try simulate(speaking: layout, options: options, handler: handler) { service, client in
            let usual = try await client.send(request("a"))
            #expect(usual["unit"] == 7)
            let own = try await client.send(request("b", unit: 9))
            #expect(own["unit"] == 9)
            // The same on a draining link.
            let left = try await client.send(request("leave"))
            #expect(left["unit"] == 7)
            #expect(await client.metrics.connection.links == 2)
            let error = await failure { () throws(ClientError) in try await client.send(request("leave, wrong")) }
            #expect(error?.code == .protocolViolation && error?.fate == .unknown)
            #expect(await client.metrics.connection.links == 3)
        }
    }

    @Test func aMismatchInAHandshakeEndsTheAttempt() throws {
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 1
            options.handshake.perform = { handshaker in _ = try await handshaker.send(Request(type: 0x10, body: "type"))
            }
        }
        try simulate(speaking: layout, options: options, handler: handler) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(request("a")) }
            #expect(error?.code == .unavailable && error?.fate == .notSent)
            #expect((error?.cause as? FrameError)?.code == .responseMismatch)
        }
    }

    /// All responses that follow would go to the wrong requests.
    @Test func matchedInOrderAMismatchEndsTheLink() throws {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .roles { $0.responsesRepeat = [.type] }
        let handler: LoopbackServer.Handler = { $0.type == 0x11 ? .noReply : .echo }
        try simulate(speaking: layout, handler: handler) { _, client in
            let results = await client.send(all: [0x10, 0x11, 0x12, 0x13].map { Request(type: $0) })
            #expect((try? results[0].get().type) == 0x10)
            for result in results.dropFirst() {
                guard case .failure(let error) = result else {
                    Issue.record("a response of another request")
                    continue
                }
                #expect(error.code == .protocolViolation && error.fate == .unknown)
                #expect((error.cause as? FrameError)?.code == .responseMismatch)
            }
            _ = try await client.send(Request(type: 0x14))
            let metrics = await client.metrics
            #expect(metrics.connection.links == 2 && metrics.unknownResponses == 0)
        }
    }

    // MARK: Responses decoded with their request

    /// A request for a number of letters. The response must have as many.
    private struct Letters: TypedRequest {
        static let type: UInt32 = 0x410
        let count: Int
        let text: Bytes

        func encode() -> Bytes { text }

        static func decode(_ response: Response, for request: Letters) throws -> String {
            guard response.body.count == request.count else {
                throw FrameError(.responseMismatch, "\(response.body.count) letters for \(request.count)")
            }
            return String(response.body)
        }
    }

    private struct Unreadable: TypedRequest {
        static let type: UInt32 = 0x410
        typealias Reply = Int
        func encode() -> Bytes { "1" }
    }

    @Test func everyFormOfCallDecodesTheResponseWithItsRequest() throws {
        let good = Letters(count: 2, text: "ab")
        let bad = Letters(count: 3, text: "ab")
        let options = ClientOptions { options in
            options.handshake.perform = { handshaker in _ = try await handshaker.send(Letters(count: 1, text: "g")) }
        }
        try simulate(options: options) { _, client in
            #expect(try await client.send(good) == "ab")
            #expect(try await client.start(good).value == "ab")
            #expect(try await CachingSender(client).send(good, cache: .for(.seconds(5))) == "ab")
            for try await text in try client.stream(good) { #expect(text == "ab") }
            let (subscription, text) = try await client.subscribe(good)
            #expect(text == "ab")
            await subscription.end()
            let results = await client.send(all: [good, bad, Letters(count: 1, text: "c")])
            #expect(results.map { try? $0.get() } == ["ab", nil, "c"])
            // The server's mistake, which fails this request only.
            let error = await failure { () throws(ClientError) in try await client.send(bad) }
            #expect(error?.code == .protocolViolation && error?.fate == .answered)
            #expect(error?.response?.body == "ab")
            #expect((error?.cause as? FrameError)?.message == "2 letters for 3")
            let unread = await failure { () throws(ClientError) in try await client.send(Unreadable()) }
            #expect(unread?.code == .invalidResponse && unread?.fate == .answered)
            #expect(unread.map { "\($0)" }?.contains("Unreadable does not implement decode(_:)") == true)
            #expect(await client.metrics.connection.links == 1)
        }
    }
}
