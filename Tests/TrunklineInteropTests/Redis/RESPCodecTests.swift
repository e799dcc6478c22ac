import Testing
import Trunkline
import TrunklineTesting

@Suite
struct RESPCodecTests {}

extension RESPCodecTests {
    /// The frames that a client decodes from `bytes`.
    private static func frames(_ bytes: Bytes, codec: RESPCodec = RESPCodec()) throws -> [Frame] {
        var (codec, input, frames) = (codec, ReceiveBuffer(bytes), [Frame]())
        try codec.decodeAll(&input, into: &frames)
        return frames
    }

    private static let replies: [(wire: Bytes, value: RESPValue)] = [
        ("+OK\r\n", .string("OK")),
        ("-ERR unknown command\r\n", .error("ERR unknown command")),
        (":1000\r\n", .integer(1000)),
        (":-1\r\n", .integer(-1)),
        ("$5\r\nhello\r\n", .string("hello")),
        ("$0\r\n\r\n", .string("")),
        ("$4\r\n\r\n\r\n\r\n", .string("\r\n\r\n")),
        ("$-1\r\n", .null),
        ("*-1\r\n", .null),
        ("*0\r\n", .array([])),
        ("*3\r\n:1\r\n$3\r\nfoo\r\n$-1\r\n", .array([.integer(1), .string("foo"), .null])),
        ("*2\r\n*1\r\n:1\r\n-ERR inner\r\n", .array([.array([.integer(1)]), .error("ERR inner")])),
        ("_\r\n", .null),
        (",3.25\r\n", .double(3.25)),
        (",10\r\n", .double(10)),
        (",-inf\r\n", .double(-.infinity)),
        ("#t\r\n", .boolean(true)),
        ("#f\r\n", .boolean(false)),
        ("(3492890328409238509324850943850943825024385\r\n", .bigNumber("3492890328409238509324850943850943825024385")),
        ("!21\r\nSYNTAX invalid syntax\r\n", .error("SYNTAX invalid syntax")),
        ("=15\r\ntxt:Some string\r\n", .string("Some string")),
        ("%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n", .map([.string("a"), .integer(1), .string("b"), .integer(2)])),
        ("~2\r\n+x\r\n#t\r\n", .set([.string("x"), .boolean(true)])),
        ("*1\r\n|1\r\n+ttl\r\n:9\r\n+v\r\n", .array([.string("v")])),
        (">2\r\n+invalidate\r\n*1\r\n+k\r\n", .push([.string("invalidate"), .array([.string("k")])])),
    ]

    @Test
    func everyTypeIsDecodedAndItsBodyIsUnchanged() throws {
        for (wire, value) in Self.replies {
            let frames = try Self.frames(wire)
            #expect(frames.map(\.body) == [wire])
            #expect(try frames.map { try RESPValue($0.body) } == [value])
            #expect(frames.map(\.isErrorResponse) == [wire[0] == UInt8(ascii: "-") || wire[0] == UInt8(ascii: "!")])
        }
        #expect(try Self.frames(Bytes(Self.replies.flatMap(\.wire))).map(\.body) == Self.replies.map(\.wire))
    }

    @Test
    func aReplyMayArriveInAnyTwoPieces() throws {
        for (wire, _) in Self.replies {
            for cut in 0..<wire.count {
                var codec = RESPCodec()
                var piece = ReceiveBuffer(wire.prefix(cut))
                #expect(try codec.decode(&piece) == nil)
                var whole = ReceiveBuffer(wire + Array("+next\r\n".utf8))
                #expect(try codec.decode(&whole)?.body == wire)
                #expect(try codec.decode(&whole)?.body == "+next\r\n")
            }
        }
    }

    @Test
    func attributesBeforeAReplyAreSkippedAtEverySplit() throws {
        let attributes = Array("|1\r\n+keys\r\n%1\r\n|1\r\n+in\r\n+it\r\n+a\r\n,0.5\r\n|0\r\n".utf8)
        let wire = Bytes(attributes + Array("*1\r\n:7\r\n".utf8))
        for cut in 0..<wire.count {
            var codec = RESPCodec()
            var piece = ReceiveBuffer(wire.prefix(cut))
            #expect(try codec.decode(&piece) == nil)
            var whole = ReceiveBuffer(wire)
            #expect(try codec.decode(&whole)?.body == "*1\r\n:7\r\n")
            #expect(whole.isEmpty)
        }
    }

    @Test
    func confirmationsAreRepliesAndMessagesArePushes() throws {
        for name in ["subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe"] {
            let frame = try Self.frames(">3\r\n$\(name.count)\r\n\(name)\r\n$1\r\na\r\n:1\r\n").first
            #expect(frame?.kind == .response)
        }
        for name in ["message", "pmessage", "smessage", "invalidate", "resubscribe"] {
            #expect(try Self.frames(">2\r\n$\(name.count)\r\n\(name)\r\n$1\r\na\r\n").first?.kind == .push)
        }
        #expect(try Self.frames(">0\r\n").first?.kind == .push)
        #expect(try Self.frames("*2\r\n$9\r\nsubscribe\r\n:1\r\n").first?.kind == .response)
    }

    @Test(arguments: [
        "x\r\n", "\r\n", "+a\n", "+a\nb\r\n", "$x\r\n", "$-2\r\n", "~-1\r\n", "!-1\r\n", "$\r\n", "$5\r\nhelloxx",
        "*-2\r\n", "*x\r\n",
        "*99999999999999999999\r\n", "$99999999999999999999\r\n", "$9223372036854775807\r\n", "%1048577\r\n",
        // RESP3's streamed strings and aggregates, which Redis does not send.
        "$?\r\n", "*?\r\n", "%?\r\n", "~?\r\n", ";4\r\nWord\r\n", ".\r\n",
    ])
    func invalidValuesAreRefused(wire: String) {
        #expect(throws: FrameError.self) { try Self.frames(Bytes(wire)) }
    }

    @Test(arguments: [":x\r\n", ":\r\n", ",y\r\n", "#maybe\r\n", "*1\r\n:1.5\r\n"])
    func aValueThatDoesNotMatchItsTypeFailsOnlyItsCaller(wire: String) throws {
        let frame = try #require(try Self.frames(Bytes(wire)).first)
        #expect(throws: FrameError.self) { try RESPValue(frame.body) }
    }

    @Test(arguments: [
        "", "+OK", "$5\r\nhe", "*2\r\n:1\r\n", "%1\r\n:1\r\n", "|1\r\n:1\r\n:1\r\n", "*9\r\n", "$3\r\nabc\r",
    ])
    func aTruncatedValueIsAnError(wire: String) {
        #expect(throws: FrameError.self) { try RESPValue(Bytes(wire)) }
    }

    @Test
    func limitsAreCheckedBeforeTheBytesArrive() throws {
        let small = RESPCodec(maximumSize: 100)
        #expect(throws: FrameError.self) { try Self.frames("$95\r\n", codec: small) }
        #expect(throws: FrameError.self) {
            try Self.frames("*2\r\n$40\r\n\(String(repeating: "a", count: 40))\r\n$50\r\n", codec: small)
        }
        #expect(try Self.frames("$92\r\n", codec: small).isEmpty)
        // Attributes without end, and without a value behind them.
        #expect(throws: FrameError.self) {
            try Self.frames(Bytes(String(repeating: "|0\r\n", count: 30)), codec: small)
        }
        #expect(throws: FrameError.self) { try Self.frames("*1048576\r\n*1\r\n") }
        #expect(throws: FrameError.self) { try Self.frames(Bytes(String(repeating: "+", count: 65_537))) }
        #expect(throws: FrameError.self) { try Self.frames("~1048577\r\n") }
    }

    /// Values are read by recursion, whose depth a peer must not control. Finding the end of a value needs no
    /// recursion.
    @Test
    func deeplyNestedArraysAreAnErrorForOneCaller() throws {
        let wire = Bytes(String(repeating: "*1\r\n", count: 100_000) + ":1\r\n+OK\r\n")
        let frames = try Self.frames(wire)
        #expect(frames.count == 2)
        #expect(throws: FrameError.self) { try RESPValue(frames[0].body) }
        let deepest = String(repeating: "*1\r\n", count: 63)
        #expect(throws: Never.self) { try RESPValue(Bytes(deepest + ":1\r\n")) }
        #expect(throws: FrameError.self) { try RESPValue(Bytes(deepest + "*1\r\n:1\r\n")) }
    }

    /// Decoding an array that arrives in pieces takes time in proportion to its bytes, whatever the number of pieces.
    /// If the search started again with each piece, a large array would block the event loop for minutes. The test
    /// overwrites the bytes that were searched before the rest arrives.
    @Test
    func searchedBytesAreNotSearchedAgain() throws {
        let parts: [[UInt8]] = ["*4\r\n", ":1\r\n", "$3\r\nabc\r\n", "*1\r\n", ":2\r\n", "+OK\r\n"].map {
            Array($0.utf8)
        }
        var codec = RESPCodec()
        for count in 0..<parts.count {
            let seen = parts.prefix(max(0, count - 1)).joined().map { _ in UInt8(ascii: "x") }
            var input = ReceiveBuffer(seen + parts[max(0, count - 1)..<count].joined())
            #expect(try codec.decode(&input) == nil)
        }
        let whole = parts.joined()
        var input = ReceiveBuffer(whole.dropLast(5).map { _ in UInt8(ascii: "x") } + whole.suffix(5))
        #expect(try codec.decode(&input)?.body.count == whole.count)
    }

    @Test
    func commandsAreArraysOfStrings() throws {
        var output = SendBuffer()
        let command = Command("SET", "key", "a\r\nb")
        try RESPCodec().encode(Frame(.request, body: command.encode()), into: &output)
        #expect(output.bytes == Array("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$4\r\na\r\nb\r\n".utf8))
        // The server's side reads what the client's side wrote.
        var (server, input, frames) = (RESPCodec().serverSide(), ReceiveBuffer(output.bytes), [Frame]())
        try server.decodeAll(&input, into: &frames)
        #expect(frames.map(\.kind) == [.request])
        #expect(try RESPValue(frames[0].body).elements == [.string("SET"), .string("key"), .string("a\r\nb")])
    }

    /// Replies match in order. A command without a reply, or with several, would shift all later replies.
    @Test(arguments: [
        "", "PING\r\n", "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", "*1\r\n$4\r\nPI", "*0\r\n", "+PING\r\n",
        "*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n", "*1\r\n$12\r\npunsubscribe\r\n",
    ])
    func onlyOneCommandWithOneReplyIsAccepted(body: String) {
        var output = SendBuffer()
        #expect(throws: FrameError.self) {
            try RESPCodec().encode(Frame(.request, body: Bytes(body)), into: &output)
        }
    }

    @Test
    func commandsThatAreTooLargeOrNeedRESP3AreRefused() throws {
        var output = SendBuffer()
        let (set, subscribe) = (Command("SET", "k", "0123456789"), Command("SUBSCRIBE", "news"))
        #expect(throws: FrameError.self) {
            try RESPCodec(maximumSize: 30).encode(Frame(.request, body: set.encode()), into: &output)
        }
        #expect(throws: FrameError.self) {
            try RESPCodec(version: 2).encode(Frame(.request, body: subscribe.encode()), into: &output)
        }
        #expect(throws: Never.self) {
            try RESPCodec().encode(Frame(.request, body: subscribe.encode()), into: &output)
        }
    }

    @Test
    func theCodecConforms() {
        var samples = Self.replies.map { wire, _ in
            let type = UnicodeScalar(wire[0])
            let frame = Frame(type == ">" ? .push : .response, isErrorResponse: type == "-" || type == "!", body: wire)
            return CodecConformance.Sample(frame, bytes: Array(wire))
        }
        samples += [
            .init(Frame(.request, body: Command("SET", "key", "value").encode())),
            .init(Frame(.request, body: Command("SUBSCRIBE", "news").encode())),
            .init(Frame(.response, body: ">3\r\n+subscribe\r\n+news\r\n:1\r\n")),
            .bytes(Array("|1\r\n+ttl\r\n:9\r\n+OK\r\n".utf8), are: [Frame(.response, body: "+OK\r\n")]),
            .refused(Array("$4090\r\n".utf8), with: .illegalLength),
            .refused(Array("$+2\r\nok\r\n".utf8), with: .illegalLength),
            .refused(Array("?\r\n".utf8), with: .unexpectedBytes),
        ]
        var kit = CodecConformance(of: RESPCodec(maximumSize: 4096), samples: samples, maximumFrameSize: 4096)
        kit.bodiesAreOpaque = false
        let report = kit.check()
        #expect(report.violations.isEmpty, "\(report)")
    }
}
