import Testing
import Trunkline
import TrunklineDiagnostics
import TrunklineTesting

/// The flight recorder, and its text.
@Suite(.simulated) struct RecorderTests {}

extension RecorderTests {
    private func options(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
        ClientOptions {
            $0.recorder = .ring()
            change(&$0)
        }
    }

    @Test func callsFramesAndEventsAreRecordedInOrder() throws {
        try simulate(options: options(), overTLS: false) { service, client in
            _ = try await client.send(ask("hello"), timeout: .seconds(3))
            try await client.post(ask("one-way"))
            try await service.network.clock.sleep(for: .seconds(1))
            let recording = try #require(await client.diagnostics.recording)
            #expect(recording.isComplete)
            #expect(recording.start == nil)
            let calls = recording.calls
            #expect(calls.map(\.id) == [1, 2])
            #expect(calls.map(\.bodyCount) == [5, 7])
            #expect(calls.map(\.timeout) == [.seconds(3), .seconds(8)])
            #expect(calls.map(\.isOneWay) == [false, true])
            let sent = recording.sent.filter { $0.kind == .request }
            #expect(sent.map(\.id) == [1, 2])
            #expect(sent.map(\.serial) == [50, 0])
            #expect(sent.allSatisfy { $0.type == 0x410 && $0.session > 0 && $0.body == nil })
            let received = try #require(recording.received.first { $0.kind == .response })
            #expect(received.serial == 50)
            #expect(received.bodyCount == 5)
            #expect(received.session == sent[0].session)
            #expect(recording.events.map(\.name).contains("connection.ready"))
            #expect(recording.entries.map(\.time) == recording.entries.map(\.time).sorted())
            #expect(recording.outcomes == [1: .answered(status: 0, isError: false), 2: .written])
        }
    }

    @Test func batchesAreRecorded() throws {
        try simulate(options: options(), overTLS: false) { _, client in
            try await client.connect()
            _ = await client.send(all: (0..<10).map { ask($0) }, timeout: .seconds(5))
            let recording = try #require(await client.diagnostics.recording)
            // `connect()` has the first number.
            #expect(recording.calls.map(\.id) == Array(2...11))
            #expect(recording.calls.allSatisfy { $0.timeout == .seconds(5) })
            #expect(recording.sent.filter { $0.kind == .request }.map(\.id) == Array(2...11))
            #expect(recording.outcomes.count == 10)
        }
    }

    /// Frames with serials, whose first word is their name.
    private struct VerbCodec: FrameCodec, NamingCodec, ServerSideCodec {
        var base: any FrameCodec = FrameLayout.standard

        var matching: ResponseMatching { base.matching }
        func serverSide() -> any FrameCodec { VerbCodec(base: FrameLayout.standard.serverSide()) }
        func name(of request: Frame) -> String? { String(request.body).split(separator: " ").first.map(String.init) }
        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try base.encode(frame, into: &output)
        }
    }

    private static let lines = DelimitedCodec(delimiter: "\n", maximumFrameSize: 1000).namingRequests { request in
        String(request.body).split(separator: " ").first.map(String.init)
    }

    /// Calls and requests had the type 0 only.
    @Test func callsAndRequestsHaveTheirNames() throws {
        let options = options {
            $0.handshake.perform = { _ = try await $0.send(Request(body: "LOGIN secret")) }
        }
        let handler: LoopbackServer.Handler = { $0.body.starts(with: Array("SLOW".utf8)) ? .noReply : .echo }
        try simulate(speaking: Self.lines, options: options, overTLS: false, handler: handler) { _, client in
            _ = try await client.send(Request(body: "GET secret"))
            _ = await client.send(all: [Request(body: "PUT secret"), Request(body: "\u{7}\" x")])
            let error = await failure { () throws(ClientError) in
                try await client.send(Request(body: "SLOW secret"), timeout: .milliseconds(100))
            }
            #expect(error?.requestName == "SLOW")
            let recording = try #require(await client.diagnostics.recording)
            #expect(recording.calls.map(\.name) == ["GET", "PUT", "\\u{7}\"", "SLOW"])
            let requests = recording.sent.filter { $0.kind == .request }
            #expect(requests.map(\.name) == ["LOGIN", "GET", "PUT", "\\u{7}\"", "SLOW"])
            #expect(recording.received.allSatisfy { $0.name == nil })
            #expect(recording.events.first { $0.name == "request.failed" }?["name"] == .text("SLOW"))
            let text = recording.jsonLines
            #expect(text.contains("\"call\":1,\"type\":0,\"name\":\"GET\",\"bytes\":10") && !text.contains("secret"))
            #expect(try Recording(jsonLines: text) == recording)
            let capture = String(decoding: recording.pcapng(speaking: Self.lines), as: UTF8.self)
            #expect(capture.contains("the request was sent in packet") && capture.contains(": SLOW serial 0"))
        }
    }

    @Test func theTypeOfARequestTellsItsName() throws {
        let layout = FrameLayout.standard.namingRequests([0x410: "GetUser"])
        try simulate(speaking: layout, options: options(), overTLS: false) { _, client in
            _ = try await client.send(Request(type: 0x410))
            _ = try await client.send(Request(type: 0x411))
            let recording = try #require(await client.diagnostics.recording)
            #expect(recording.calls.map(\.name) == ["GetUser", nil])
            #expect(recording.sent.filter { $0.kind == .request }.map(\.name) == ["GetUser", nil])
            #expect(recording.received.allSatisfy { $0.name == nil })
        }
    }

    /// What had not ended when its call was overwritten has its name in the first line.
    @Test func theFirstLineNamesRequests() throws {
        let options = options {
            $0.recorder = .ring(bytes: 65_536)
            $0.requests.maximumInFlight = 2
        }
        let handler: LoopbackServer.Handler = { $0.body.starts(with: Array("SLOW".utf8)) ? .noReply : .echo }
        try simulate(speaking: VerbCodec(), options: options, overTLS: false, handler: handler) { _, client in
            let slow = client.start(Request(body: "SLOW secret"), timeout: .never)
            for _ in 0..<2000 { _ = try await client.send(Request(body: "GET secret")) }
            let recording = try #require(await client.diagnostics.recording)
            #expect(!recording.isComplete)
            let head = recording.jsonLines.prefix { $0 != "\n" }
            #expect(head.contains("\"name\":\"SLOW\""), "\(head)")
            #expect(try Recording(jsonLines: recording.jsonLines) == recording)
            slow.cancel()
        }
    }

    @Test func failuresAndLossesAreRecorded() throws {
        try simulate(options: options(), overTLS: false, handler: { _ in .noReply }) { service, client in
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("x"), timeout: .milliseconds(100))
            }
            #expect(error?.code == .timedOut)
            service.network.reset()
            for await state in client.states { if case .waiting = state { break } }
            let recording = try #require(await client.diagnostics.recording)
            #expect(recording.outcomes == [1: .failed(code: "timedOut", fate: "unknown")])
            #expect(recording.sent.map(\.kind).contains(.cancel))
            let end = try #require(recording.events.first { $0.name == "link.ended" })
            #expect(end["cause"] == .text("reset"))
        }
    }

    /// Secrets are in bodies and byte fields.
    @Test func bodiesAndByteFieldsAreKeptOnlyIfAllowed() throws {
        let layout = FrameLayout {
            Field.type(UInt32.self)
            Field.serial(UInt32.self)
            Field.bytes("token", 4)
            Field.bytes("trace", 2)
            Field.integer("version", UInt8.self, default: 3)
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        .roles {
            $0.ping = 0x1
            $0.push = 2
            $0.serials = 1...
        }
        @Sendable func request(_ type: UInt32) -> Request {
            var request = Request(type: type, body: Bytes([UInt8](repeating: 0x41, count: 300)))
            request[bytes: "token"] = "ABCD"
            request[bytes: "trace"] = [1, 2]
            return request
        }
        let options = options {
            $0.recorder?.bodies = .types([0x20])
            $0.recorder?.fields = ["trace"]
        }
        try simulate(speaking: layout, options: options, overTLS: false) { _, client in
            _ = try await client.send(request(0x10))
            _ = try await client.send(request(0x20))
            let recording = try #require(await client.diagnostics.recording)
            for frames in [recording.sent, recording.received].map({ $0.filter { $0.bodyCount > 0 } }) {
                #expect(frames.map(\.body) == [nil, Bytes([UInt8](repeating: 0x41, count: 256))])
                #expect(frames.map(\.bodyCount) == [300, 300])
                for frame in frames {
                    #expect(frame.fields.first { $0.name == "token" }?.value == .size(4))
                    #expect(frame.fields.first { $0.name == "trace" }?.value == .bytes([1, 2]))
                }
            }
            // Only what was allowed is in the text, which is all that leaves the process.
            let text = recording.jsonLines
            #expect(!text.contains("41424344"))
            #expect(text.components(of: "414141") == 2)
        }
    }

    @Test func theOldestEntriesAreOverwritten() throws {
        let options = options { $0.recorder = .ring(bytes: 65_536) }
        try simulate(options: options, overTLS: false) { _, client in
            for _ in 0..<40 { _ = await client.send(all: (0..<100).map { ask($0) }) }
            let recording = try #require(await client.diagnostics.recording)
            #expect(!recording.isComplete)
            let calls = recording.calls
            #expect(calls.last?.id == 4000)
            #expect(calls.map(\.id) == calls.map(\.id).sorted())
            // 120 bytes for each request: at least 15/16 of the memory are in use.
            #expect(recording.entries.count * 40 >= 65_536 * 14 / 16)
            #expect(recording.entries.count * 40 <= 65_536)
        }
    }

    @Test func textOfARecordingCanBeReadAgain() throws {
        let options = options {
            $0.recorder?.bodies = .all
            $0.liveness.interval = .milliseconds(50)
        }
        try simulate(options: options, overTLS: false) { service, client in
            _ = try await client.send(ask("hello"))
            try await client.post(ask("one-way"))
            _ = try await service.server.push(Frame(.push, type: 2, body: "news"))
            try await service.network.clock.sleep(for: .seconds(1))
            service.network.reset()
            for await state in client.states { if case .waiting = state { break } }
            _ = try? await client.send(ask("late"), timeout: .seconds(1))
            let recording = try #require(await client.diagnostics.recording)
            let again = try Recording(jsonLines: recording.jsonLines)
            #expect(again == recording)
            #expect(recording.entries.count > 20)
        }
    }

    @Test(arguments: [
        ("", 1), ("{}", 1), ("{\"recording\":2}", 1), ("{\"recording\":1}\n[1]", 2), ("{\"recording\":1}\n\n{", 3),
        ("{\"recording\":1}\n{\"t\":1}", 2), ("{\"recording\":1}\n{\"t\":1,\"sent\":\"letter\"}", 2),
        ("{\"recording\":1}\n{\"call\":1}", 2), ("{\"recording\":1}\n{\"t\":99999999999999999999,\"call\":1}", 2),
    ])
    func textThatIsNoRecordingIsRejected(_ text: String, line: Int) {
        #expect { try Recording(jsonLines: text) } throws: { ($0 as? RecordingError)?.line == line }
    }

    @Test func aLossDumpsTheRecordingIfItsCauseWasChosen() throws {
        let dumps = Dumps()
        let options = options {
            $0.recorder?.dumpsAutomatically(on: [.reset], atMostEvery: .seconds(60)) { recording, report in
                dumps.add(recording, report)
            }
        }
        try simulate(options: options, overTLS: false) { service, client in
            for pause in [1, 1, 60] {
                _ = try await client.send(ask("x"))
                service.network.reset()
                for await state in client.states { if case .waiting = state { break } }
                try await service.network.clock.sleep(for: .seconds(pause))
            }
            // The second loss came too soon after the first.
            _ = try await client.send(ask("x"))
            service.network.reset()
            for await state in client.states { if case .waiting = state { break } }
            _ = try await client.send(ask("x"))
            #expect(dumps.all.map(\.report.cause) == [.reset, .reset])
            #expect(dumps.all.allSatisfy { $0.recording.events.contains { $0.name == "link.ended" } })
            #expect(dumps.all.map(\.recording.calls.count) == [1, 4])
        }
    }

    /// A dump was made before the requests on the link had failed, so a replay of it had more failures.
    @Test func aDumpHasTheOutcomesThatTheLossCauses() throws {
        let dumps = Dumps()
        let options = options {
            $0.recorder?.dumpsAutomatically(on: [.reset]) { recording, report in dumps.add(recording, report) }
        }
        try simulate(options: options, overTLS: false, handler: { _ in .noReply }) { service, client in
            let handles = (0..<3).map { client.start(ask($0)) }
            try await service.network.clock.sleep(for: .seconds(1))
            service.network.reset()
            for handle in handles { #expect(await failure(of: handle)?.code == .connectionLost) }
            try await service.network.clock.sleep(for: .seconds(1))
            let lost = Recording.Outcome.failed(code: "connectionLost", fate: "unknown")
            #expect(dumps.all.map(\.recording.outcomes) == [[1: lost, 2: lost, 3: lost]])
        }
    }

    /// The end of the client's link and its closing happen in one turn.
    @Test func aDumpIsReceivedBeforeTheClientIsClosed() throws {
        let dumps = Dumps()
        let options = options {
            $0.recorder?.dumpsAutomatically(on: [.closedLocally]) { recording, report in dumps.add(recording, report) }
        }
        try simulate(options: options, overTLS: false) { _, client in
            _ = try await client.send(ask("x"))
            await client.closeNow()
            #expect(dumps.all.map(\.report.cause) == [.closedLocally])
        }
    }

    @Test func aRecordingHasTheStateAtItsOldestEntry() throws {
        let options = options { $0.recorder = .ring(bytes: 65_536) }
        let handler: LoopbackServer.Handler = { $0.body == "never" ? .noReply : .echo }
        try simulate(options: options, overTLS: false, handler: handler) { _, client in
            let never = (0..<3).map { _ in client.start(ask("never"), timeout: .never) }
            for _ in 0..<40 { _ = await client.send(all: (0..<100).map { ask($0) }) }
            let recording = try #require(await client.diagnostics.recording)
            let again = try Recording(jsonLines: recording.jsonLines)
            #expect(again == recording)
            let first = try #require(recording.jsonLines.split(separator: "\n").first)
            #expect(first.contains(#""endpoints":["db:7000"],"links":[{"session":1,"endpoint":"db:7000","age":"#))
            #expect(first.contains(#"{"id":1,"session":1,"type":1040,"serial":50}"#))
            #expect(first.contains(#"{"id":3,"session":1,"type":1040,"serial":52}"#))
            for handle in never { handle.cancel() }
        }
    }

    @Test func withoutARecorderThereIsNoRecording() throws {
        try simulate { _, client in
            _ = try await client.send(ask("x"))
            #expect(await client.diagnostics.recording == nil)
        }
    }
}

/// The recordings that were dumped.
private final class Dumps: Sendable {
    private let dumps = Lock<[(recording: Recording, report: DisconnectReport)]>([])

    func add(_ recording: Recording, _ report: DisconnectReport) { dumps.withLock { $0.append((recording, report)) } }

    var all: [(recording: Recording, report: DisconnectReport)] { dumps.withLock { $0 } }
}

extension Recording {
    var calls: [Call] { entries.compactMap { if case .call(let call) = $0.content { call } else { nil } } }
    var sent: [Header] { entries.compactMap { if case .sent(let header) = $0.content { header } else { nil } } }
    var received: [Header] { entries.compactMap { if case .received(let header) = $0.content { header } else { nil } } }
    var events: [Event] { entries.compactMap { if case .event(let event) = $0.content { event } else { nil } } }
}

extension String {
    /// The number of parts with `text` in it, counted by line.
    fileprivate func components(of text: String) -> Int { split(separator: "\n").count { $0.contains(text) } }
}
