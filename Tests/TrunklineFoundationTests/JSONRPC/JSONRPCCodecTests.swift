import Testing
import Trunkline
import TrunklineFoundation
import TrunklineTesting

/// The frames of messages (jsonrpc.org/specification).
struct JSONRPCCodecTests {
    private func decode(_ text: String, _ codec: inout JSONRPCCodec) throws(FrameError) -> [Frame] {
        var (input, frames) = (ReceiveBuffer(Bytes(text + "\n")), [Frame]())
        try codec.decodeAll(&input, into: &frames)
        return frames
    }

    private func decode(_ text: String, _ dialect: JSONRPCCodec.Dialect = .plain) throws(FrameError) -> Frame? {
        var codec = JSONRPCCodec(.lines, dialect: dialect)
        return try decode(text, &codec).first
    }

    private func encode(_ frame: Frame, _ codec: inout JSONRPCCodec) throws(FrameError) -> String {
        var output = SendBuffer()
        try codec.encode(frame, into: &output)
        return String(decoding: output.bytes, as: UTF8.self)
    }

    private func encode(
        _ frame: Frame,
        _ dialect: JSONRPCCodec.Dialect = .plain,
        ids: JSONRPCCodec.IDs = .numbers
    ) throws(FrameError) -> String {
        var codec = JSONRPCCodec(.lines, dialect: dialect, ids: ids)
        return try encode(frame, &codec)
    }

    private func call(_ kind: Frame.Kind, _ method: Bytes, _ body: Bytes = "", serial: SerialNumber = 0) -> Frame {
        var frame = Frame(kind, serial: serial, body: body)
        frame[bytes: "method"] = method
        return frame
    }

    // MARK: Received

    @Test func aResponseHasItsResult() throws {
        let frame = try decode("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\": {\"a\":[1, 2]} }")
        #expect(frame == Frame(.response, serial: 7, body: "{\"a\":[1, 2]}"))
        // Neither the order of members nor further members nor escapes in names matter.
        let other = try decode(" { \"result\":null,\"x\":{\"id\":9},\"\\u0069d\":\"7\",\"jsonrpc\" : \"2.0\"}\r")
        #expect(other == Frame(.response, serial: 7, body: "null"))
        // Null stands for no error.
        let both = try decode("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1,\"error\":null}")
        #expect(both == Frame(.response, serial: 7, body: "1"))
    }

    /// Languages without integers write 7.0, and some servers write the number as a string.
    @Test(arguments: ["7", "\"7\"", "7.0", "0.7e1", "7e0", "\"7.0\""])
    func responsesMayWriteTheIDOtherwise(_ id: String) throws {
        let frame = try decode("{\"jsonrpc\":\"2.0\",\"id\":\(id),\"result\":1}")
        #expect(frame == Frame(.response, serial: 7, body: "1"))
    }

    @Test(arguments: [
        "null", "0", "-7", "7.5", "1e99", "1e-99", "2000000000000", "99999999999999999999999999", "\"\"", "\"seven\"",
        "\"-7\"",
    ])
    func otherIDsAnswerNoRequest(_ id: String) throws {
        let frame = try decode("{\"jsonrpc\":\"2.0\",\"id\":\(id),\"result\":1}")
        #expect(frame == Frame(.response, serial: 0, body: "1"))
    }

    @Test func anErrorHasAReason() throws {
        let error = "{\"code\": -32601, \"message\": \"Method \\\"a\\\" not found\", \"data\": [1,2]}"
        let frame = try #require(try decode("{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":\(error),\"result\":null}"))
        #expect(frame.kind == .response && frame.serial == 7 && frame.isErrorResponse && frame.body == Bytes(error))
        #expect(frame.reason == ServerReason("MethodNotFound", code: -32601, text: "Method \"a\" not found"))
    }

    private static let errors: [(String, JSONRPCCodec.Dialect, ServerReason?)] = [
        ("{\"code\":-32002,\"message\":\"m\"}", JSONRPCCodec.Dialect.plain, ServerReason(code: -32002, text: "m")),
        (
            "{\"code\":-32002,\"message\":\"m\"}", .languageServer,
            ServerReason("ServerNotInitialized", code: -32002, text: "m")
        ),
        (
            "{\"code\":-32002,\"message\":\"m\"}", .modelContext,
            ServerReason("ResourceNotFound", code: -32002, text: "m")
        ),
        ("{\"code\":404,\"message\":\"m\"}", .plain, ServerReason(code: 404, text: "m")),
        ("{\"code\":-32700}", .plain, ServerReason("ParseError", code: -32700)), ("{\"message\":\"m\"}", .plain, nil),
        ("{\"code\":1.5,\"message\":\"m\"}", .plain, nil), ("\"m\"", .plain, nil),
        ("{\"code\":99999999999999999999,\"message\":\"m\"}", .plain, nil),
    ]

    @Test(arguments: errors)
    func reasonsHaveTheNamesOfTheDialect(_ error: String, _ dialect: JSONRPCCodec.Dialect, _ reason: ServerReason?)
        throws
    {
        let frame = try decode("{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":\(error)}", dialect)
        #expect(frame?.isErrorResponse == true && frame?.reason == reason && frame?.body == Bytes(error))
    }

    @Test func notificationsArePushes() throws {
        let frame = try decode("{\"jsonrpc\":\"2.0\",\"method\":\"window\\/logMessage\",\"params\":{\"a\":1}}")
        #expect(frame == call(.push, "window/logMessage", "{\"a\":1}"))
        let codec = JSONRPCCodec(.lines)
        #expect(frame.flatMap { codec.pushKey(of: $0) } == "window/logMessage")
        let none = try decode("{\"jsonrpc\":\"2.0\",\"method\":\"exit\",\"params\":null}")
        #expect(none == call(.push, "exit"))
    }

    @Test(arguments: [
        "nonsense", "{}", "[]", "1", "\"\"", "{\"jsonrpc\":\"2.0\"}", "{\"jsonrpc\":\"2.0\",\"result\":1}",
        "\u{feff}{}",
        "{\"jsonrpc\":\"2.0\",\"id\":7", "{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":7}x", "[[]]",
    ])
    func otherTextIsMalformed(_ text: String) throws {
        let frame = try decode(text)
        #expect(frame?.kind == .response && frame?.malformedReason == .malformed)
    }

    /// The request fails at once, instead of waiting for a response.
    @Test(arguments: [
        "{\"id\":7,\"result\":1}", "{\"jsonrpc\":\"1.0\",\"id\":7,\"result\":1}",
        "{\"jsonrpc\":2.0,\"id\":7,\"result\":1}",
        "{\"jsonrpc\":\"2.0\",\"id\":7}", "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1,\"error\":{\"code\":1}}",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":NaN}", "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1,\"result\":2}",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"id\":8,\"result\":1}", "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1}}",
    ])
    func aMalformedResponseFailsItsRequest(_ text: String) throws {
        let frame = try decode(text)
        #expect(frame?.kind == .response && frame?.serial == 7 && frame?.malformedReason == .malformed)
    }

    // MARK: Requests of the server

    @Test(arguments: [
        "0", "7", "9007199254740992", "9007199254740993", "18446744073709551615", "-1", "1.5", "1.0", "1e3", "70",
        "\"\"", "\"7\"", "\"a-b\"", "\"\\u0041\\\"\"", "\"é\"", "99999999999999999999999999",
    ])
    func anIDIsSentBackAsItCame(_ id: String) throws {
        for ids in [JSONRPCCodec.IDs.numbers, .strings] {
            var codec = JSONRPCCodec(.lines, ids: ids)
            let frames = try decode("{\"jsonrpc\":\"2.0\",\"id\":\(id),\"method\":\"m\",\"params\":[1]}", &codec)
            #expect(frames.map(\.kind) == [.request] && frames[0].body == "[1]" && frames[0].malformedReason == nil)
            let answer = Frame(.response, serial: frames[0].serial, body: "{\"a\":1}")
            let text = try encode(answer, &codec)
            #expect(text == "{\"jsonrpc\":\"2.0\",\"id\":\(id),\"result\":{\"a\":1}}\n")
            let failure = try #require(codec.refusal(of: frames[0], because: .notServed))
            var refusal = failure
            refusal.serial = frames[0].serial
            let error = try encode(refusal, &codec)
            #expect(
                error
                    == "{\"jsonrpc\":\"2.0\",\"id\":\(id),\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n"
            )
        }
    }

    @Test func idsThatDifferHaveTheirOwnSerials() throws {
        var codec = JSONRPCCodec(.lines)
        let ids = ["1", "\"1\"", "1.0", "\"a\"", "\"b\"", "-1"]
        let serials = try ids.map {
            try decode("{\"jsonrpc\":\"2.0\",\"id\":\($0),\"method\":\"m\"}", &codec).first?.serial
        }
        #expect(Set(serials).count == ids.count)
        // The same ID again is the same request.
        let again = try decode("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\"}", &codec).first?.serial
        #expect(again == serials[3])
    }

    /// An id is forgotten when the answer is sent.
    @Test func aRequestIsAnsweredOnce() throws {
        var codec = JSONRPCCodec(.lines)
        let frame = try #require(try decode("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\"}", &codec).first)
        let answer = Frame(.response, serial: frame.serial)
        let text = try encode(answer, &codec)
        #expect(text == "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":null}\n")
        codec.noteSent(answer)
        #expect(throws: FrameError.self) { try encode(answer, &codec) }
        let next = try decode("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\"}", &codec).first
        #expect(next.map { $0.serial > frame.serial } == true)
    }

    @Test(arguments: [
        ("\"id\":7,\"method\":1", "7"), ("\"id\":\"a\",\"method\":null", "\"a\""),
        ("\"id\":null,\"method\":\"m\"", "null"),
        ("\"id\":{},\"method\":\"m\"", "null"), ("\"id\":[1],\"method\":\"m\"", "null"),
        ("\"id\":true,\"method\":\"m\"", "null"),
        ("\"id\":7,\"method\":\"m\",\"params\":1", "7"), ("\"id\":7,\"method\":\"m\",\"method\":\"n\"", "7"),
        ("\"id\":7,\"method\":\"\\ud800\"", "7"),
        ("\"id\":\"\(String(repeating: "x", count: 511))\",\"method\":\"m\"", "null"),
    ])
    func aMalformedRequestIsRefused(_ members: String, _ id: String) throws {
        var codec = JSONRPCCodec(.lines)
        let frame = try #require(try decode("{\"jsonrpc\":\"2.0\",\(members)}", &codec).first)
        #expect(frame.kind == .request && frame.malformedReason == .malformed)
        var refusal = try #require(codec.refusal(of: frame, because: .malformed))
        refusal.serial = frame.serial
        let text = try encode(refusal, &codec)
        #expect(
            text == "{\"jsonrpc\":\"2.0\",\"id\":\(id),\"error\":{\"code\":-32600,\"message\":\"Invalid Request\"}}\n"
        )
    }

    @Test(arguments: ["\"method\":1", "\"method\":\"m\",\"params\":\"a\"", "\"method\":\"\\udc00\""])
    func aMalformedNotificationIsAGapInItsStream(_ members: String) throws {
        let frame = try decode("{\"jsonrpc\":\"2.0\",\(members)}")
        #expect(frame?.kind == .push && frame?.malformedReason == .malformed)
    }

    @Test func invalidUTF8InAMethodIsMalformed() throws {
        var (codec, frames) = (JSONRPCCodec(.lines), [Frame]())
        var input = ReceiveBuffer(
            Bytes(Array("{\"jsonrpc\":\"2.0\",\"method\":\"a".utf8) + [0xFF] + Array("\"}\n".utf8))
        )
        try codec.decodeAll(&input, into: &frames)
        #expect(frames.map(\.malformedReason) == [.malformed])
    }

    // MARK: Batches

    @Test func theMessagesOfABatchAreDecodedOneByOne() throws {
        var codec = JSONRPCCodec(.lines)
        let batch = """
             [ {"jsonrpc":"2.0","id":1,"result":[{},[]]} ,{"jsonrpc":"2.0","method":"m"}, 5,\t\
            {"jsonrpc":"2.0","id":"a","method":"n"},{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"m"}}]  \r
            """
        let frames = try decode(batch + "\n{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":1}", &codec)
        #expect(frames.map(\.kind) == [.response, .push, .response, .request, .response, .response])
        #expect(frames.map(\.malformedReason) == [nil, nil, .malformed, nil, nil, nil])
        #expect(frames[0].body == "[{},[]]" && frames[4].reason == ServerReason(code: 1, text: "m"))
        #expect(frames[0].serial == 1 && frames[4].serial == 2 && frames[5].serial == 3)
    }

    @Test func aBatchHasALimit() throws {
        var codec = JSONRPCCodec(.lines)
        let most = "[" + repeatElement("1", count: 10_000).joined(separator: ",")
        let frames = try decode(most + "]", &codec)
        #expect(frames.count == 10_000)
        let error = #expect(throws: FrameError.self) { try decode(most + ",1]", &codec) }
        #expect(error?.code == .illegalLength && error?.exceedsLimit == true)
        // Which is malformed as a whole.
        let cut = try decode(most, .plain)
        #expect(cut?.malformedReason == .malformed)
    }

    // MARK: Cancellation and heartbeats

    @Test func theDialectHasACancellation() throws {
        let lsp = try encode(Frame(.cancel, serial: 7), .languageServer)
        #expect(lsp == "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":7}}\n")
        let mcp = try encode(Frame(.cancel, serial: 7), .modelContext, ids: .strings)
        #expect(
            mcp == "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"7\"}}\n"
        )
        let error = #expect(throws: FrameError.self) { try encode(Frame(.cancel, serial: 7)) }
        #expect(error?.code == .unknownType)
        let (plain, server, context) = (
            JSONRPCCodec(.lines), JSONRPCCodec(.contentLength, dialect: .languageServer),
            JSONRPCCodec(.lines, dialect: .modelContext)
        )
        #expect(plain.cancelFrame(for: 1, type: 0) == nil && server.cancelFrame(for: 1, type: 0) != nil)
        #expect(server.cancelKind(ofType: 0) == .answered && context.cancelKind(ofType: 0) == .unanswered)
    }

    /// MCP 2025-06-18, "Cancellation": the client must not cancel `initialize`.
    @Test func theFirstRequestOfMCPIsNotCancelled() throws {
        var codec = JSONRPCCodec(.lines, dialect: .modelContext)
        codec.noteSent(call(.request, "initialize", serial: 1))
        codec.noteSent(call(.request, "tools/list", serial: 2))
        #expect(codec.cancelFrame(for: 1, type: 0) == nil && codec.cancelFrame(for: 2, type: 0) != nil)
        _ = try decode("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", &codec)
        #expect(codec.cancelFrame(for: 1, type: 0) != nil)
    }

    @Test(arguments: ["7", "\"a\"", "1.5"]) func theServerCancelsItsRequests(_ id: String) throws {
        for (dialect, cancel) in [
            (JSONRPCCodec.Dialect.languageServer, "\"$/cancelRequest\",\"params\":{\"id\":\(id)}"),
            (.modelContext, "\"notifications/cancelled\",\"params\":{\"reason\":\"r\",\"requestId\":\(id)}"),
        ] {
            var codec = JSONRPCCodec(.lines, dialect: dialect)
            let request = try decode("{\"jsonrpc\":\"2.0\",\"id\":\(id),\"method\":\"m\"}", &codec).first
            let frame = try decode("{\"jsonrpc\":\"2.0\",\"method\":\(cancel)}", &codec).first
            #expect(frame == Frame(.cancel, serial: request?.serial ?? 0))
            let refusal = request.flatMap { codec.refusal(of: $0, because: .cancelled) }
            #expect(
                refusal?.body
                    == (dialect == .modelContext ? nil : "{\"code\":-32800,\"message\":\"Request cancelled\"}")
            )
        }
    }

    @Test func otherCancellationsAreHarmless() throws {
        let crossed = try decode(
            "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":\"a\"}}",
            .languageServer
        )
        #expect(crossed == Frame(.ignored))
        for params in ["{}", "[1]", "{\"id\":"] {
            let frame = try decode(
                "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":\(params)}",
                .languageServer
            )
            #expect(frame?.kind == .push && frame?.malformedReason == .malformed)
        }
        let plain = try decode("{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":1}}")
        #expect(plain == call(.push, "$/cancelRequest", "{\"id\":1}"))
    }

    /// Names and methods are compared byte by byte, not as strings: the KELVIN SIGN equals K there.
    ///
    /// Regression: they were made strings, so that a name that is no text made the whole message malformed, and each
    /// character of a long one was looked up in the tables of Unicode.
    @Test func namesThatAreNoTextMakeNoDifference() throws {
        for name in ["\\ud83d", "\\ude00\\u0069d", "\\u0000", "id\\u0000", "\u{212a}", "\\u212a", "e\\u0301"] {
            let frame = try decode("{\"\(name)\":{},\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1}")
            #expect(frame == Frame(.response, serial: 7, body: "1"), "\(name)")
        }
        var dialect = JSONRPCCodec.Dialect.plain
        dialect.cancellation = .init(method: "K", parameter: "K", isAnswered: true)
        dialect.ping = "Kp"
        for kelvin in ["\u{212a}", "\\u212a"] {
            #expect(
                try decode("{\"jsonrpc\":\"2.0\",\"method\":\"\(kelvin)\",\"params\":{\"K\":1}}", dialect)?.kind
                    == .push
            )
            #expect(try decode("{\"jsonrpc\":\"2.0\",\"method\":\"\(kelvin)p\",\"id\":1}", dialect)?.kind == .request)
            let other = try decode("{\"jsonrpc\":\"2.0\",\"method\":\"K\",\"params\":{\"\(kelvin)\":1}}", dialect)
            #expect(other?.malformedReason == .malformed)
        }
        let cancel = try decode("{\"jsonrpc\":\"2.0\",\"method\":\"\\u004b\",\"params\":{\"\\u004B\":1}}", dialect)
        #expect(cancel == Frame(.cancel, serial: 1))
        let ping = try decode("{\"jsonrpc\":\"2.0\",\"method\":\"\\u004bp\",\"id\":1}", dialect)
        #expect(ping == Frame(.ping, serial: 1))
    }

    /// Only the beginning of a message is shown, so only that is decoded: what follows may be no text, and megabytes.
    @Test func onlyTheBeginningOfAnErrorTextIsDecoded() throws {
        for unit in ["\\n", "\\u00e9", "\\ud83d\\ude00", "a"] {
            let text = String(repeating: unit, count: 4096)
            let error = "{\"code\":-1,\"message\":\"\(text)\\ud83d\"}"
            let frame = try #require(try decode("{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":\(error)}"))
            #expect(frame.reason?.code == -1 && frame.reason?.text.isEmpty == false)
            // The caller, who reads all of it, learns that it is no text.
            #expect(JSONRPCError(parsing: frame.body) == nil)
        }
    }

    @Test func methodsMayHaveEscapes() throws {
        for (text, method) in [
            ("a\\/b", "a/b"), ("\\u0061\\ud83d\\ude00", "a😀"), ("é", "é"), ("", ""), ("\\u0000", "\0"),
        ] {
            let frame = try decode("{\"jsonrpc\":\"2.0\",\"method\":\"\(text)\"}")
            #expect(frame?[bytes: "method"] == Bytes(method) && frame?.malformedReason == nil)
        }
        // The same bytes as the message: a long method is not copied.
        let long = String(repeating: "a", count: 100_000)
        #expect(try decode("{\"jsonrpc\":\"2.0\",\"method\":\"\(long)\"}")?[bytes: "method"] == Bytes(long))
    }

    @Test func theDialectHasAPing() throws {
        var codec = JSONRPCCodec(.lines, dialect: .modelContext)
        let ping = try #require(codec.ping(number: 5))
        let text = try encode(ping, &codec)
        #expect(text == "{\"jsonrpc\":\"2.0\",\"id\":2000000005,\"method\":\"ping\"}\n")
        for answer in ["\"result\":{}", "\"error\":{\"code\":-32601,\"message\":\"m\"}"] {
            let pong = try decode("{\"jsonrpc\":\"2.0\",\"id\":2000000005,\(answer)}", &codec)
            #expect(pong == [Frame(.pong, serial: ping.serial)])
        }
        #expect(codec.ping(number: .max).map { (2_000_000_000...2_099_999_999).contains($0.serial) } == true)
        // Pings of the server.
        let asked = try #require(try decode("{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}", &codec).first)
        #expect(asked.kind == .ping)
        let answer = try encode(try #require(codec.pong(answering: asked)), &codec)
        #expect(answer == "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{}}\n")
        let plain = JSONRPCCodec(.lines)
        #expect(plain.ping(number: 0) == nil)
        let request = try decode("{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}")
        #expect(request?.kind == .request)
    }

    @Test func theDialectHasAFarewell() throws {
        var codec = JSONRPCCodec(.lines, dialect: .languageServer)
        let exit = try encode(try #require(codec.closingFrame()), &codec)
        #expect(exit == "{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}\n")
        #expect(JSONRPCCodec(.lines).closingFrame() == nil)
    }

    // MARK: Sent

    @Test func messagesAreWritten() throws {
        let request = try encode(call(.request, "a\"b\u{1}é", "[1]", serial: 7))
        #expect(request == "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"a\\\"b\\u0001é\",\"params\":[1]}\n")
        let string = try encode(call(.request, "m", serial: 7), ids: .strings)
        #expect(string == "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"method\":\"m\"}\n")
        let notification = try encode(call(.request, "m", "{}"))
        #expect(notification == "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{}}\n")
    }

    @Test func otherFramesAreNotSent() {
        var badMethod = Frame(.request, serial: 1)
        badMethod[bytes: "method"] = [0xFF]
        for frame in [
            Frame(.request, serial: 1), badMethod, Frame(.part, serial: 1), Frame(.goAway), Frame(.ping),
            Frame(.response, serial: 1, isErrorResponse: true), Frame(.response, serial: 1 << 60),
            Frame(.response, serial: .max), Frame(.pong, serial: .max),
            Frame(.response, serial: 1, isErrorResponse: true, body: "{\"message\":\"m\"}"),
        ] {
            #expect(throws: FrameError.self) { try encode(frame) }
        }
    }

    // MARK: The kit

    /// Without a batch: the kit expects a frame when its own bytes have arrived, and a batch is decoded when all of it
    /// has.
    @Test(arguments: [(JSONRPCCodec.Framing.lines, JSONRPCCodec.IDs.numbers), (.contentLength, .strings)])
    func theCodecConforms(_ framing: JSONRPCCodec.Framing, _ ids: JSONRPCCodec.IDs) throws {
        func wire(_ text: String) -> [UInt8] {
            Array((framing == .lines ? "\(text)\n" : "Content-Length: \(text.utf8.count)\r\n\r\n\(text)").utf8)
        }
        var error = Frame(.response, serial: 3, isErrorResponse: true, body: "{\"code\":1,\"message\":\"m\"}")
        error.reason = ServerReason(code: 1, text: "m")
        let own = ids == .numbers ? "3" : "\"3\""
        let samples: [CodecConformance.Sample] = [
            .init(
                call(.request, "m", "{\"a\":[1]}", serial: 3),
                bytes: wire("{\"jsonrpc\":\"2.0\",\"id\":\(own),\"method\":\"m\",\"params\":{\"a\":[1]}}")
            ),
            .init(call(.request, "m", serial: 3)), .init(call(.request, "note", "[1]")),
            .init(
                Frame(.response, serial: 3, body: "[null]"),
                bytes: wire("{\"jsonrpc\":\"2.0\",\"id\":\(own),\"result\":[null]}")
            ),
            .init(call(.push, "note", "[1]")), .init(Frame(.cancel, serial: 3)),
            .init(Frame(.ping, serial: 2_000_000_003)), .init(Frame(.pong, serial: 2_000_000_003)),
            .bytes(
                wire("{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":1,\"message\":\"m\"}}"),
                are: [error]
            ),
            framing == .lines
                ? .refused([UInt8](repeating: 0x20, count: 513), with: .illegalLength)
                : .refused(Array("Content-Length: 513\r\n".utf8), with: .illegalLength),
        ]
        var dialect = JSONRPCCodec.Dialect.modelContext
        dialect.uncancellable = []
        let codec = JSONRPCCodec(framing, dialect: dialect, ids: ids, maximumMessageSize: 512)
        let overhead = framing == .lines ? 1 : 4096
        var kit = CodecConformance(of: codec, samples: samples, maximumFrameSize: 512 + overhead)
        kit.bodiesAreOpaque = false
        kit.ignoredFrames = { $0.kind == .ignored }
        let report = kit.check()
        #expect(report.violations.isEmpty, "\(report)")
    }

    // MARK: Ids of the peer

    /// Beyond 16,384 requests with strings as their ids, the oldest id was forgotten, so that its request was never
    /// answered.
    @Test func everyUnansweredRequestIsAnsweredWithItsIDOrRefused() throws {
        var codec = JSONRPCCodec(.lines)
        let count = 70_000
        var requests: [Frame] = []
        for number in 0..<count {
            requests += try decode("{\"jsonrpc\":\"2.0\",\"id\":\"r\(number)\",\"method\":\"m\"}", &codec)
        }
        let refused = requests.filter { $0.malformedReason == .illegalLength }
        #expect(refused.count == count - 65_536 && requests.allSatisfy { $0.kind == .request })
        for (number, request) in requests.enumerated() {
            var answer = Frame(.response, body: "1")
            if request.malformedReason != nil {
                answer = try #require(codec.refusal(of: request, because: .overloaded))
            }
            answer.serial = request.serial
            let text = try encode(answer, &codec)
            #expect(text.hasPrefix("{\"jsonrpc\":\"2.0\",\"id\":\"r\(number)\","))
            #expect(text.contains("\"code\":-32000") == (request.malformedReason != nil))
        }
        // An answer, and the news that there is none, make room.
        codec.noteSent(Frame(.response, serial: requests[0].serial))
        codec.noteUnanswered(requests[1])
        let reasons = try ["a", "b", "c"].map { id in
            try decode("{\"jsonrpc\":\"2.0\",\"id\":\"\(id)\",\"method\":\"m\"}", &codec).map(\.malformedReason)
        }
        #expect(reasons == [[nil], [nil], [.illegalLength]])
    }

    @Test func longIDsAreRefusedBeforeTheyFillTheMemory() throws {
        var (codec, accepted) = (JSONRPCCodec(.lines), 0)
        let tail = String(repeating: "x", count: 500)
        for number in 0..<20_000 {
            let frames = try decode("{\"jsonrpc\":\"2.0\",\"id\":\"\(number)\(tail)\",\"method\":\"m\"}", &codec)
            if frames.first?.malformedReason == nil { accepted += 1 }
        }
        #expect((16_000..<17_000).contains(accepted))
    }

    /// Their ids were in the same table as those of requests, and pings that the link did not answer stayed there.
    @Test func pingsTakeNoRoomOfRequests() throws {
        var codec = JSONRPCCodec.modelContext
        var ids: [Frame] = []
        for number in 0..<70_000 {
            ids += try decode("{\"jsonrpc\":\"2.0\",\"id\":\"p\(number)\",\"method\":\"ping\"}", &codec)
        }
        let request = try decode("{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"method\":\"m\"}", &codec).first
        #expect(request?.malformedReason == nil && ids.allSatisfy { $0.kind == .ping })
        let pong = try #require(codec.pong(answering: ids[7]))
        let text = try encode(pong, &codec)
        #expect(text == "{\"jsonrpc\":\"2.0\",\"id\":\"p7\",\"result\":{}}\n")
    }
}
