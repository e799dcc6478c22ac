import Testing
import Trunkline

@testable import TrunklineDiagnostics

/// The text of recordings, which may come from anywhere.
@Suite struct RecordingTextTests {}

extension RecordingTextTests {
    private static let text = """
        {"recording":1,"start":"1795560000.123456789","complete":true}
        {"t":0.5,"call":1,"type":1026,"bytes":5,"timeout":8.0}
        {"t":0.75,"event":"connection.ready","endpoint":"a:1","session":1}
        {"t":1.5,"sent":"request","session":1,"id":1,"type":1026,"serial":50,"bytes":5,"fields":{"version":3}}
        {"t":1.75,"received":"response","session":1,"type":1026,"serial":50,"status":7,"bytes":2}

        """

    private static func mistake(in text: String) -> RecordingError? {
        do {
            _ = try Recording(jsonLines: text)
            return nil
        } catch {
            return error
        }
    }

    private static func mistake(inLine line: String) -> RecordingError? {
        mistake(in: "{\"recording\":1,\"complete\":true}\n\(line)")
    }

    /// JSON Lines allows CR and LF at the end of a line. Swift takes both for one character.
    @Test func linesMayEndWithCarriageReturns() throws {
        let recording = try Recording(jsonLines: Self.text)
        #expect(recording.entries.count == 4)
        let other = Self.text.replacing("\n", with: "\r\n")
        #expect(try Recording(jsonLines: other) == recording)
        #expect(Self.mistake(in: "\r\n{\"recording\":1}\r\n\r\n{\"t\":1}\r\n")?.line == 4)
    }

    @Test func aByteOrderMarkIsSkipped() throws {
        #expect(try Recording(jsonLines: "\u{FEFF}" + Self.text) == Recording(jsonLines: Self.text))
    }

    /// The same numbers, as other programs write them.
    @Test func numbersMayHaveDecimalsAndExponents() throws {
        let other = """
            {"recording":1.0,"start":"1795560000.123456789","complete":true}
            {"t":5e-1,"call":1.0,"type":1.026e3,"bytes":50e-1,"timeout":0.8e1}
            {"t":7.5E-1,"event":"connection.ready","endpoint":"a:1","session":1}
            {"t":15e-1,"sent":"request","session":1e0,"id":1.0,"type":10260e-1,"serial":5e1,"bytes":5.000,\
            "fields":{"version":3.0}}
            {"t":175.0e-2,"received":"response","session":1.0,"type":1026,"serial":5E+1,"status":7e0,"bytes":2.0}
            """
        #expect(try Recording(jsonLines: other) == Recording(jsonLines: Self.text))
    }

    /// Sub-nanosecond decimals are cut off, and the range is that of 64 bits.
    @Test(
        arguments: [
            ("0.0000000019", Duration.nanoseconds(1)), ("-1.5", .milliseconds(-1500)), ("1e9", .seconds(1_000_000_000)),
            ("9223372036.854775807", .nanoseconds(Int64.max)), ("-9223372036.854775808", .nanoseconds(Int64.min)),
            ("1e-400", .zero),
        ] as [(String, Duration)]
    )
    func timesAreReadExactly(_ text: String, time: Duration) throws {
        let lines = "{\"recording\":1}\n{\"t\":\(text),\"call\":1,\"timeout\":\(text)}"
        let recording = try Recording(jsonLines: lines)
        #expect(recording.entries.map(\.time) == [time])
        guard case .call(let call)? = recording.entries.first?.content else { return #expect(recording.entries == []) }
        #expect(call.timeout == time)
        #expect(try Recording(jsonLines: recording.jsonLines) == recording)
    }

    /// No value becomes 0, `false` or nothing without a word.
    @Test(arguments: [
        (#"{"t":1e400,"call":1}"#, "t"), (#"{"t":"1","call":1}"#, "t"), (#"{"t":9223372036.854775808,"call":1}"#, "t"),
        (#"{"t":1,"call":-1}"#, "call"), (#"{"t":1,"call":1.5}"#, "call"), (#"{"t":1,"call":"1"}"#, "call"),
        (#"{"t":1,"call":1,"timeout":1e300}"#, "timeout"), (#"{"t":1,"call":1,"timeout":"8"}"#, "timeout"),
        (#"{"t":1,"call":1,"type":4294967296}"#, "type"), (#"{"t":1,"call":1,"type":-1}"#, "type"),
        (#"{"t":1,"call":1,"bytes":-5}"#, "bytes"), (#"{"t":1,"call":1,"bytes":1e99}"#, "bytes"),
        (#"{"t":1,"call":1,"one_way":1}"#, "one_way"), (#"{"t":1,"call":1,"open":"yes"}"#, "open"),
        (#"{"t":1,"sent":"request","bytes":99999999999999999999}"#, "bytes"),
        (#"{"t":1,"sent":"request","serial":18446744073709551616}"#, "serial"),
        (#"{"t":1,"sent":"request","session":0.5}"#, "session"), (#"{"t":1,"sent":"request","id":[1]}"#, "id"),
        (#"{"t":1,"received":"response","status":1e10}"#, "status"),
        (#"{"t":1,"received":"response","error":0}"#, "error"),
        (#"{"t":1,"received":"response","malformed":"no"}"#, "malformed"),
        (#"{"t":1,"received":"response","ends_link":1}"#, "ends_link"),
        (#"{"t":1,"received":"response","cut":1}"#, "cut"),
        (#"{"t":1,"received":"response","body":"abc"}"#, "body"), (#"{"t":1,"received":"response","body":7}"#, "body"),
        (#"{"t":1,"received":"response","fields":[1]}"#, "fields"),
        (#"{"t":1,"received":"response","fields":{"a":{"bytes":-1}}}"#, "a"),
        (#"{"t":1,"received":"response","fields":{"b":"zz"}}"#, "b"),
        (#"{"t":1,"received":"response","fields":{"c":-1}}"#, "c"),
        (#"{"t":1,"received":"letter"}"#, "received"), (#"{"t":1,"sent":1}"#, "sent"),
        (#"{"t":1,"event":"connection.waiting","delay":1e400}"#, "delay"),
        (#"{"t":1,"event":"connection.ready","session":18446744073709551615}"#, "session"),
    ])
    func aValueThatIsNotWhatItsNameSaysIsRejected(_ line: String, name: String) {
        let mistake = Self.mistake(inLine: line)
        #expect(mistake?.line == 2, "\(line)")
        #expect(mistake?.message.hasPrefix("\"\(name)\" is not ") == true, "\(mistake?.message ?? "no error") \(line)")
    }

    @Test(arguments: [
        (#"{"recording":1,"start":5}"#, "start"), (#"{"recording":1,"start":"yesterday"}"#, "start"),
        (#"{"recording":1,"complete":1}"#, "complete"),
    ])
    func theFirstLineIsCheckedToo(_ line: String, name: String) {
        #expect(Self.mistake(in: line)?.line == 1, "\(line)")
        #expect(Self.mistake(in: line)?.message.hasPrefix("\"\(name)\" is not ") == true, "\(line)")
    }

    // MARK: Wall-clock time

    @Test(
        arguments: [
            ("1970-01-01T00:00:00.000000000Z", 0), ("2026-11-24T20:00:00.123456789Z", 1_795_550_400_123_456_789),
            ("2000-02-29T23:59:59.999999999Z", 951_868_799_999_999_999),
            ("1969-12-31T23:59:59.500000000Z", -500_000_000),
            ("1900-03-01T00:00:00.000000000Z", -2_203_891_200_000_000_000),
            ("2262-04-11T23:47:16.854775807Z", .max), ("1677-09-21T00:12:43.145224192Z", .min),
        ] as [(String, Int64)]
    )
    func startIsWrittenAsPeopleWriteTimes(_ text: String, nanoseconds: Int64) throws {
        let recording = try Recording(jsonLines: "{\"recording\":1,\"start\":\"\(text)\",\"complete\":true}")
        #expect(recording.start == .nanoseconds(nanoseconds))
        #expect(recording.jsonLines.contains("\"start\":\"\(text)\""))
    }

    @Test(arguments: [
        "2026-11-24T20:00:00Z", "2026-11-24T21:30:00+01:30", "2026-11-24t15:00:00.0-05:00", "2026-11-24 20:00:00.000z",
        "1795550400", "1795550400.000",
    ])
    func startMayBeWrittenInOtherWays(_ text: String) throws {
        let recording = try Recording(jsonLines: "{\"recording\":1,\"start\":\"\(text)\"}")
        #expect(recording.start == .seconds(1_795_550_400))
    }

    @Test(arguments: [
        "2026-13-24T20:00:00Z", "2026-11-24T24:00:00Z", "2026-11-24T20:00:00", "2026-11-24T20:00:00.Z", "2026-11-24",
        "2026-11-24T20:00:00Z ", "2026-11-24T20:00:00+01", "9999-11-24T20:00:00Z", "2300-01-01T00:00:00Z", "",
        "2026-11-2\u{e9}T20:00:00Z",
    ])
    func aStartThatIsNoTimeIsRejected(_ text: String) {
        #expect(Self.mistake(in: "{\"recording\":1,\"start\":\"\(text)\"}")?.line == 1)
    }

    @Test func everyLineHasItsTime() throws {
        let lines = try Recording(jsonLines: Self.text).jsonLines.split(separator: "\n")
        #expect(lines[0].hasPrefix(#"{"recording":1,"start":"2026-11-24T22:40:00.123456789Z","complete":true"#))
        #expect(lines[1].hasPrefix(#"{"t":0.500000000,"at":"2026-11-24T22:40:00.623456Z","call":1"#))
        #expect(lines[4].hasPrefix(#"{"t":1.750000000,"at":"2026-11-24T22:40:01.873456Z","received""#))
        let unknown = try Recording(jsonLines: "{\"recording\":1}\n{\"t\":1,\"at\":\"noon\",\"event\":\"made.up\"}")
        #expect(unknown.jsonLines.hasSuffix("\n{\"t\":1.000000000,\"event\":\"made.up\"}\n"))
    }

    // MARK: The state at the oldest entry

    private static let wrapped = """
        {"recording":1,"complete":false,"endpoints":["a:1","b:2"],"links":[{"session":3,"endpoint":"b:2","age":12.5}],\
        "requests":[{"id":7,"session":3,"type":1026,"serial":50},{"session":3,"type":1026,"serial":51},\
        {"id":8,"session":3,"type":5,"abandoned":2.5},{"id":9,"type":5}]}
        {"t":100.000000000,"received":"response","session":3,"type":1026,"serial":51}

        """

    @Test func theStateAtTheOldestEntryIsWrittenAndRead() throws {
        let recording = try Recording(jsonLines: Self.wrapped)
        #expect(recording.beginning.endpoints == ["a:1", "b:2"])
        #expect(recording.beginning.links.map(\.session) == [3])
        #expect(recording.beginning.links.map(\.age) == [.milliseconds(12_500)])
        #expect(recording.beginning.requests.map(\.serial) == [50, 51, 0, 0])
        #expect(recording.beginning.requests.map(\.id) == [7, nil, 8, 9])
        #expect(recording.beginning.requests.map(\.abandonedFor) == [nil, nil, .milliseconds(2500), nil])
        #expect(try Recording(jsonLines: recording.jsonLines) == recording)
        // The response belongs to a request before the oldest entry.
        #expect(recording.exchanges.unasked.isEmpty)
        #expect(recording.exchanges.matched.map(\.replies.count) == [0, 1])
    }

    /// As earlier versions wrote it.
    @Test func theStateAtTheOldestEntryIsDerivedIfItIsNotWritten() throws {
        let recording = try Recording(
            jsonLines: """
                {"recording":1,"start":"1795560000.123456789","complete":false}
                {"t":100.0,"received":"response","session":3,"type":1026,"serial":51,"bytes":2}
                {"t":101.0,"sent":"request","session":3,"id":8,"type":1026,"serial":52,"bytes":5}
                {"t":102.0,"event":"link.ended","endpoint":"b:2","phase":"ready","cause":"reset","session":3,"lifetime":10.0}
                {"t":102.0,"event":"request.failed","id":7,"code":"connectionLost","fate":"unknown"}
                {"t":102.0,"event":"request.failed","id":8,"code":"connectionLost","fate":"unknown"}
                """
        )
        let beginning = recording.beginning
        #expect(beginning.links.map(\.endpoint) == ["b:2"])
        #expect(beginning.links.map(\.age) == [.seconds(8)])
        #expect(beginning.requests.map(\.id) == [nil, 7, 8])
        #expect(beginning.requests.map(\.session) == [3, 3, nil])
        #expect(beginning.requests.map(\.serial) == [51, 0, 0])
        #expect(try Recording(jsonLines: recording.jsonLines) == recording)
    }

    /// Regression: each part, and each response for other types, passed all requests that were not answered.
    @Test(
        .timeLimit(.minutes(1)),
        arguments: [
            ("part", "\"all\""), ("part", "\"through\""), ("part", "3"), ("part", "[[1,19999]]"),
            ("part", "[[1,20000],[2,20000]]"), ("part", "\"all\",\"answered_types\":[1,9]"),
            ("response", "\"through\",\"answered_types\":[1]"), ("response", "[[1,20000]],\"answered_types\":[0]"),
        ]
    )
    func framesForManyRequestsTakeLinearTime(_ kind: String, _ answers: String) throws {
        let count = 20_000
        let isInOrder = answers == "3"
        let requests = (1...count).map {
            "{\"t\":1,\"sent\":\"request\",\"session\":1,\"id\":\($0),\"type\":2,\"serial\":\(isInOrder ? 0 : $0),\"bytes\":1}\n"
        }
        let frame =
            "{\"t\":2,\"received\":\"\(kind)\",\"session\":1,\"type\":2,\"serial\":\(isInOrder ? 0 : count),"
            + "\"bytes\":1,\"answers\":\(answers)}\n"
        let text =
            "{\"recording\":1,\"complete\":true}\n" + requests.joined() + String(repeating: frame, count: count)
        let exchanges = try Recording(jsonLines: text).exchanges
        let replies = exchanges.matched.reduce(0) { $0 + $1.replies.count }
        #expect(replies == (answers.contains("types") ? 0 : count) && replies + exchanges.unasked.count == count)
    }

    /// Which request a part for several ones is added to: the latest, or the oldest of those in order.
    @Test func partsForSeveralRequestsAreAddedToOne() throws {
        func replies(_ lines: [String]) throws -> [[Int]] {
            let text = "{\"recording\":1,\"complete\":true}\n" + lines.joined(separator: "\n")
            return try Recording(jsonLines: text).exchanges.matched.map { $0.replies.map(\.header.bodyCount) }
        }
        func sent(_ serial: Int, _ type: Int = 1) -> String {
            "{\"t\":1,\"sent\":\"request\",\"session\":1,\"id\":\(serial),\"type\":\(type),\"serial\":\(serial),\"bytes\":1}"
        }
        func received(_ bytes: Int, kind: String = "part", serial: Int = 0, _ answers: String) -> String {
            "{\"t\":2,\"received\":\"\(kind)\",\"session\":1,\"serial\":\(serial),\"bytes\":\(bytes)\(answers)}"
        }
        let requests = [sent(1), sent(2, 2), sent(3), sent(4, 2)]
        let found = try replies(
            requests + [
                received(10, ",\"answers\":\"all\""), received(11, ",\"answers\":\"all\",\"answered_types\":[1]"),
                received(12, serial: 2, ",\"answers\":\"through\""),
                received(13, serial: 2, ",\"answers\":\"through\",\"answered_types\":[1]"),
                received(14, ",\"answers\":[[3,3],[1,2]]"),
                received(15, ",\"answers\":[[0,99]],\"answered_types\":[2]"),
                received(16, kind: "response", serial: 4, ""), received(17, ",\"answers\":\"all\""),
                received(18, kind: "response", serial: 2, ",\"answers\":\"through\",\"answered_types\":[2]"),
                received(19, serial: 2, ",\"answers\":\"through\""), received(20, ",\"answers\":[[2,9]]"),
                received(21, kind: "response", ",\"answers\":[[0,999]]"), received(22, ",\"answers\":\"all\""),
            ]
        )
        #expect(found == [[13, 19], [12, 18], [11, 14, 17, 20, 21], [10, 15, 16]])
    }

    /// Matched in order, the first responses belong to requests that were overwritten.
    @Test func responsesWithoutSerialsAreMatchedAfterTheOldestEntry() throws {
        let recording = try Recording(
            jsonLines: """
                {"recording":1,"complete":false}
                {"t":100.0,"call":5,"bytes":1}
                {"t":100.0,"sent":"request","session":1,"id":5,"bytes":1}
                {"t":101.0,"received":"response","session":1,"bytes":3}
                {"t":102.0,"received":"response","session":1,"bytes":4}
                {"t":103.0,"call":6,"bytes":2}
                {"t":103.0,"sent":"request","session":1,"id":6,"bytes":2}
                {"t":104.0,"event":"link.ended","endpoint":"b:2","phase":"ready","session":1,"requests_lost":1}
                """
        )
        #expect(recording.beginning.requests.count == 1)
        let matched = recording.exchanges.matched
        #expect(matched.map(\.request.id) == [nil, 5, 6])
        #expect(matched.map { $0.replies.map(\.header.bodyCount) } == [[3], [4], []])
    }

    @Test(arguments: [
        (#"{"recording":1,"endpoints":"a"}"#, "endpoints"), (#"{"recording":1,"endpoints":[1]}"#, "endpoints"),
        (#"{"recording":1,"links":{}}"#, "links"), (#"{"recording":1,"links":[{"session":-1}]}"#, "session"),
        (#"{"recording":1,"links":[{"session":1,"endpoint":1}]}"#, "endpoint"),
        (#"{"recording":1,"links":[{"session":1,"endpoint":"a","age":"1"}]}"#, "age"),
        (#"{"recording":1,"requests":[{"serial":-1}]}"#, "serial"), (#"{"recording":1,"requests":1}"#, "requests"),
    ])
    func theStateIsChecked(_ line: String, name: String) {
        #expect(Self.mistake(in: line)?.line == 1, "\(line)")
        #expect(Self.mistake(in: line)?.message.hasPrefix("\"\(name)\" is not ") == true, "\(line)")
    }

    /// A number of an event that JSON can hold, but `Double` cannot, was written back as 0.
    @Test func eventsKeepTheirNumbers() throws {
        let line = #"{"t":1.000000000,"event":"made.up","a":1e+300,"b":-5e-324,"c":-9223372036854775808,"d":1.5}"#
        let recording = try Recording(jsonLines: "{\"recording\":1,\"complete\":true}\n" + line)
        #expect(recording.jsonLines.split(separator: "\n").last.map(String.init) == line)
    }

    /// A quadratic reader takes minutes for each of these.
    @Test(.timeLimit(.minutes(1))) func readingAndMatchingTakeLinearTime() throws {
        let fields = (0..<200_000).map { "\"f\($0)\":\($0)" }.joined(separator: ",")
        let wide = try Recording(
            jsonLines: "{\"recording\":1}\n{\"t\":1,\"sent\":\"request\",\"fields\":{\(fields)}}"
        )
        #expect(!wide.pcapng(speaking: .standard).isEmpty)

        // Requests that are never answered, so all stay open.
        let requests = (1...60_000).map {
            "{\"t\":1,\"call\":\($0)}\n{\"t\":1,\"sent\":\"request\",\"session\":1,\"id\":\($0),\"serial\":\($0)}\n"
        }
        let last = #"{"t":2,"received":"response","session":1,"serial":60000}"#
        let busy = try Recording(jsonLines: "{\"recording\":1}\n" + requests.joined() + last)
        #expect(busy.outcomes.values.count { $0 == .pending } == 59_999)
    }
}
