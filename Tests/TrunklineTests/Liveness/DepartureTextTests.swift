import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging

/// What the log says about a link that the client replaces because of abandoned requests: each rule names what happened.
///
/// A link that was replaced because one request that no other may follow was cancelled had the text "the latest request on
/// the link timed out several times in a row", and a request with a serial that held others was "the response that is due".
@Suite(.simulated, .timeLimit(.seeded))
struct DepartureTextTests {}

extension DepartureTextTests {
    enum Rule: CaseIterable, Sendable {
        case cancelledHolder, timedOutHolder, stalls, stallsOfAChannel, silence
        case holderWithSerial, oldestInOrder, alone, channel, serials, places
    }

    private static let four = standardLayout(serials: 50...53)

    private static func codec(_ rule: Rule) -> any FrameCodec {
        var inOrder = WordsCodec()
        inOrder.isInOrder = true
        return switch rule {
        case .cancelledHolder, .timedOutHolder, .stalls, .oldestInOrder, .alone: inOrder
        case .holderWithSerial: WordsCodec()
        case .stallsOfAChannel: LaneCodec()
        case .channel: LaneCodec(limit: 1)
        case .silence, .places: FrameLayout.standard
        case .serials: four
        }
    }

    private static func options(_ rule: Rule, _ collector: EventCollector) -> ClientOptions {
        ClientOptions { options in
            options.observers = [collector]
            options.requests.timeout = .seconds(1)
            options.failover.errorRate = nil
            options.liveness.heartbeat = .none
            options.liveness.probeAfter = .seconds(1)
            // Only the rule that is tested applies.
            if rule != .silence, rule != .stalls, rule != .stallsOfAChannel { options.liveness.maximumStalls = nil }
            if rule == .oldestInOrder { options.requests.maximumInFlight = 1 }
            if rule == .places { options.requests.maximumInFlight = 1024 }
        }
    }

    /// Does what leads to the end of the link.
    private static func perform(_ rule: Rule, _ service: SimulatedService, _ client: Client) async throws {
        func give(up body: Bytes, on channel: UInt64? = nil, times: Bool = false) async throws {
            let request = channel.map { LaneCodec.ask(String(body), on: $0) } ?? ask(body)
            let handle = client.start(request)
            try await service.pass(.milliseconds(100))
            if !times { handle.cancel() }
            _ = await failure(of: handle)
        }
        try await client.connect()
        switch rule {
        case .cancelledHolder: try await give(up: "hold none")
        case .timedOutHolder: try await give(up: "hold none", times: true)
        case .stalls: for _ in 0..<3 { try await give(up: "late", times: true) }
        case .stallsOfAChannel: for _ in 0..<3 { try await give(up: "late", on: 7, times: true) }
        case .silence: for _ in 0..<3 { try await give(up: "none", times: true) }
        case .holderWithSerial: try await give(up: "hold none")
        case .oldestInOrder, .alone: try await give(up: "none")
        case .channel: try await give(up: "none", on: 7)
        case .serials: for _ in 0..<4 { try await give(up: "none") }
        case .places:
            let handles = (0..<1024).map { _ in client.start(ask("none"), timeout: .never) }
            try await service.pass(.milliseconds(100))
            for handle in handles.prefix(600) { handle.cancel() }
        }
        // The client needs the link.
        let request = rule == .channel ? LaneCodec.ask("next", on: 7) : ask("next")
        _ = client.start(request, timeout: .seconds(90), options: CallOptions(isExclusive: rule == .alone))
        try await service.pass(.seconds(80))
    }

    private static func text(_ rule: Rule) -> String {
        switch rule {
        case .cancelledHolder, .timedOutHolder:
            "a request that no other may follow timed out or was cancelled before it was answered, and the next one would"
                + " have to wait for its response"
        case .stalls:
            "3 times in a row, a request timed out while no other response was awaited on the link: the server answers too"
                + " late, or has left out a response (liveness.maximumStalls is 3)"
        case .stallsOfAChannel:
            "3 times in a row, a request timed out while no other response was awaited on its channel: the server answers"
                + " too late, or has left out a response (liveness.maximumStalls is 3)"
        case .silence:
            "3 requests in a row timed out within 2 s, and no frame came from the server (liveness.maximumStalls is 3)"
        case .holderWithSerial:
            "a request that no other may follow timed out or was cancelled, and its response has not come in time"
        case .oldestInOrder:
            "the response that is due is that of an abandoned request, and has not come in time; 1 abandoned request holds"
                + " places of requests.maximumInFlight (1)"
        case .alone: "a request that must go out alone waits for 1 abandoned request, which was not answered in time"
        case .channel: "requests wait for an abandoned one on their channel, whose response has not come in time"
        case .serials: "4 of 4 serial numbers are held by abandoned requests"
        case .places: "600 abandoned requests hold places of requests.maximumInFlight (1024)"
        }
    }

    @Test(arguments: Rule.allCases)
    func theReasonOfADepartureIsTheOneThatApplied(_ rule: Rule) throws {
        let collector = EventCollector(.links)
        func run(_ codec: some FrameCodec) throws {
            let handler: LoopbackServer.Handler = { request in
                let text = String(request.body)
                if text.contains("late") { return .after(.milliseconds(1500), .echo) }
                return text.contains("none") ? .noReply : .echo
            }
            let options = Self.options(rule, collector)
            try simulate(speaking: codec, options: options, overTLS: false, handler: handler) { service, client in
                try await Self.perform(rule, service, client)
            }
        }
        try run(Self.codec(rule))
        let reasons = collector.events.compactMap { event -> String? in
            if case .linkDraining(_, session: _, let cause, reason: let reason) = event.content {
                "\(cause.rawValue): \(reason ?? "")"
            } else {
                nil
            }
        }
        let cause = rule == .serials || rule == .places ? "exhausted" : "unanswered"
        #expect(reasons.first == "\(cause): \(Self.text(rule))")
    }

    /// One request timed out, and others were cancelled: that is one stall, not three.
    @Test func cancellationsAreNotCountedAsTimeouts() throws {
        var codec = WordsCodec()
        codec.isInOrder = true
        let options = Self.options(.stalls, EventCollector(.links))
        try simulate(speaking: codec, options: options, handler: { _ in .noReply }) { service, client in
            let first = client.start(ask("none"))
            _ = await failure(of: first)
            for _ in 0..<5 {
                let handle = client.start(ask("none"))
                try await service.pass(.milliseconds(100))
                handle.cancel()
                _ = await failure(of: handle)
            }
            try await service.pass(.seconds(5))
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// The log does not say that the server answers nothing when the client has cancelled a request.
    @Test func theLogDoesNotBlameTheServerForACancellation() throws {
        let log = LogCollector()
        var options = Self.options(.cancelledHolder, EventCollector(.links))
        options.logging = log.logging(.debug)
        var codec = WordsCodec()
        codec.isInOrder = true
        try simulate(speaking: codec, options: options, handler: { _ in .noReply }) { service, client in
            let handle = client.start(ask("hold none"))
            try await service.pass(.milliseconds(100))
            handle.cancel()
            _ = await failure(of: handle)
            try await service.pass(.seconds(20))
        }
        #expect(log.text.contains("no other may follow timed out or was cancelled"))
        #expect(!log.text.contains("does not answer"))
    }
}
