import Testing
import Trunkline
import TrunklineDiagnostics

/// The text of recordings, which may come from anywhere.
@Suite struct RecordingTextTests {
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
