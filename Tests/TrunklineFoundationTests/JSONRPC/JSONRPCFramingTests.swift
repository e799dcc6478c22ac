import Testing
import Trunkline
import TrunklineFoundation

/// How messages follow each other.
struct JSONRPCFramingTests {
    private static let message = "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":[1]}"
    private static let frame = Frame(.response, serial: 7, body: "[1]")

    private func decode(
        _ text: String,
        _ framing: JSONRPCCodec.Framing,
        maximum: Int = 1 << 20
    ) throws(FrameError) -> [Frame] {
        var (codec, input, frames) = (
            JSONRPCCodec(framing, maximumMessageSize: maximum), ReceiveBuffer(Bytes(text)), [Frame]()
        )
        try codec.decodeAll(&input, into: &frames)
        return frames
    }

    @Test(arguments: [
        "Content-Length: 37\r\n\r\n", "content-length:37\r\n\r\n", "CONTENT-LENGTH: \t37 \r\n\r\n",
        "Content-Length: 0037\n\n",
        "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 37\r\n\r\n",
        "Content-Length: 37\r\nContent-Type: application/vscode-jsonrpc; charset=\"UTF8\"\r\n\r\n",
        "X-Trace: a: b\r\nContent-Length: 37\r\nContent-Length: 37\r\nContent-Type: x/y\r\n\r\n",
    ])
    func headersHaveALength(_ header: String) throws {
        let frames = try decode(header + Self.message + header + Self.message, .contentLength)
        #expect(frames == [Self.frame, Self.frame])
    }

    @Test(arguments: [
        ("Content-Type: x\r\n\r\n", FrameError.Code.malformed), ("\r\n", .malformed), ("{\"jsonrpc\"", .malformed),
        ("Content-Length\r\n", .malformed), ("Content-Length: \r\n", .illegalLength),
        ("Content-Length: -1\r\n", .illegalLength), ("Content-Length: +1\r\n", .illegalLength),
        ("Content-Length: 1 2\r\n", .illegalLength), ("Content-Length: 0x10\r\n", .illegalLength),
        ("Content-Length: 9223372036854775807\r\n", .illegalLength),
        ("Content-Length: 9223372036854775808\r\n", .illegalLength),
        ("Content-Length: 99999999999999999999999999\r\n", .illegalLength),
        ("Content-Length: 1048577\r\n", .illegalLength), ("Content-Length: 3\r\nContent-Length: 4\r\n", .malformed),
        ("Content-Type: x; charset=utf-16\r\n", .malformed), (" Content-Length: 3\r\n", .malformed),
        ("X: " + String(repeating: "x", count: 4093), .illegalLength),
    ])
    func invalidHeadersAreRejected(_ text: String, _ code: FrameError.Code) {
        let error = #expect(throws: FrameError.self) { try decode(text, .contentLength) }
        #expect(error?.code == code)
        // A limit of this side is no violation of the protocol.
        #expect(error?.exceedsLimit == (text.contains("1048577") || text.contains("9223372036854775807")))
    }

    /// Even a length whose sum with the header overflows.
    @Test func theLargestLengthIsNoTrap() throws {
        let error = #expect(throws: FrameError.self) {
            try decode("Content-Length: 9223372036854775807\r\n\r\n", .contentLength, maximum: .max)
        }
        #expect(error?.code == .illegalLength)
        let frames = try decode("Content-Length: 9223372036854770000\r\n\r\n{}", .contentLength, maximum: .max)
        #expect(frames == [])
    }

    @Test(arguments: ["\n", "\r\n", " \n", "\r\n\r\n\n"]) func linesMayEndInAnyWay(_ end: String) throws {
        let frames = try decode(Self.message + end + Self.message + end, .lines)
        #expect(frames.filter { $0.kind != .ignored } == [Self.frame, Self.frame])
    }

    @Test func linesHaveALimit() throws {
        let long = "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\(String(repeating: "x", count: 200))\"}"
        for text in [long, long + "\n"] {
            let error = #expect(throws: FrameError.self) { try decode(text, .lines, maximum: 200) }
            #expect(error?.code == .illegalLength && error?.exceedsLimit == true)
        }
        let frames = try decode(long + "\n", .lines, maximum: long.utf8.count)
        #expect(frames.map(\.serial) == [7])
    }

    /// Text that is no message, such as what a program prints by mistake, does not end the link.
    @Test func otherTextCostsNoRequest() throws {
        let frames = try decode("Server started on stdio\n\(Self.message)\n", .lines)
        #expect(frames.map(\.malformedReason) == [.malformed, nil])
        #expect(frames[0].kind == .response && frames[0].serial == 0 && frames[1] == Self.frame)
    }

    // MARK: Sending

    private func encode(_ body: Bytes, _ framing: JSONRPCCodec.Framing) throws(FrameError) -> String {
        var request = Frame(.request, serial: 1, body: body)
        request[bytes: "method"] = "m"
        var (codec, output) = (JSONRPCCodec(framing), SendBuffer())
        try codec.encode(request, into: &output)
        return String(decoding: output.bytes, as: UTF8.self)
    }

    /// A line break is valid only between values: within a string it is escaped.
    @Test func lineBreaksBetweenValuesAreSentAsSpaces() throws {
        let body: Bytes = "{\r\n  \"a\": \"b\\nc\"\n}"
        let line = try encode(body, .lines)
        #expect(line == "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{    \"a\": \"b\\nc\" }}\n")
        let text = try encode(body, .contentLength)
        #expect(text.hasPrefix("Content-Length: \(text.utf8.count - 22)\r\n\r\n{") && text.contains("{\r\n  \"a\""))
    }

    /// Otherwise text from elsewhere could become a message of its own, or another member.
    @Test(arguments: [
        "{\"a\":\"b\nc\"}", "{}\n{}", "{},\"id\":2", "{", "1", "\"a\"", "null", "{}}", "\n", "{\"a\":NaN}",
    ])
    func invalidBodiesAreNotSent(_ body: String) {
        for framing in [JSONRPCCodec.Framing.lines, .contentLength] {
            let error = #expect(throws: FrameError.self) { try encode(Bytes(body), framing) }
            #expect(error?.code == .malformed)
        }
    }

    @Test func largeBodiesAreNotCopied() throws {
        let body = Bytes("[\"\(String(repeating: "x", count: 100_000))\"]")
        let text = try encode(body, .contentLength)
        #expect(text.hasSuffix("\(String(body))}") && text.hasPrefix("Content-Length: 100051\r\n"))
        var codec = JSONRPCCodec(.lines, maximumMessageSize: 1000)
        var (request, output) = (Frame(.request, serial: 1, body: body), SendBuffer())
        request[bytes: "method"] = "m"
        let error = #expect(throws: FrameError.self) { try codec.encode(request, into: &output) }
        #expect(error?.code == .illegalLength && error?.exceedsLimit == true)
    }
}
