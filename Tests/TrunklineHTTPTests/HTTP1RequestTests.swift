import Testing
import Trunkline

@testable import TrunklineHTTP

/// How a client writes requests, and how a server reads them.
@Suite struct HTTP1RequestTests: HTTP1Testing {}

extension HTTP1RequestTests {
    private func written(_ request: HTTP1Request, by codec: HTTP1Codec = HTTP1Codec(host: "h")) throws(FrameError)
        -> String
    {
        try encoded(request.frame(), by: codec)
    }

    @Test func missingHostAndLengthAreAdded() throws {
        #expect(try written(HTTP1Request(.get, "/")) == "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(
            try written(HTTP1Request(.post, "/a?b", headers: ["X": "y"], body: "hello"))
                == "POST /a?b HTTP/1.1\r\nHost: h\r\nX: y\r\nContent-Length: 5\r\n\r\nhello"
        )
        #expect(
            try written(HTTP1Request(.put, "/")) == "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
        )
        let full = HTTP1Request(.get, "/", headers: ["host": "other:81", "content-LENGTH": "1"], body: "x")
        #expect(try written(full) == "GET / HTTP/1.1\r\nhost: other:81\r\ncontent-LENGTH: 1\r\n\r\nx")
    }

    /// RFC 9112 §9.3.2 and §9.6, with the methods of RFC 9110 §9.2.2.
    @Test func methodAndConnectionDetermineWhatMayBePipelined() throws {
        let codec = HTTP1Codec()
        for method in [.get, .head, .put, .delete, .options, .trace] as [HTTP1Request.Method] {
            #expect(codec.mayPipeline(behind: try HTTP1Request(method, "/").frame()))
            for value in ["close", "CLOSE", "keep-alive , close"] {
                let request = HTTP1Request(method, "/", headers: ["connection": value])
                #expect(!codec.mayPipeline(behind: try request.frame()), "\(value)")
            }
            for headers in [["Connection": "closed"], ["X-Connection": "close"]] as [HTTP1Headers] {
                #expect(codec.mayPipeline(behind: try HTTP1Request(method, "/", headers: headers).frame()))
            }
        }
        for method in [.post, .patch, .connect, "LINK", "get"] as [HTTP1Request.Method] {
            #expect(!codec.mayPipeline(behind: try HTTP1Request(method, "/").frame()))
        }
        // No head, no end of the head, and an empty body: they are refused when they are encoded.
        for body in ["", "GET", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n\r\n", "\r\n\r\n"] as [Bytes] {
            #expect(codec.mayPipeline(behind: Frame(.request, type: 1, body: body)))
        }
        #expect(!codec.mayPost(try HTTP1Request(.get, "/").frame()))
    }

    /// For errors, the log and metrics, which said "type 0x1".
    @Test func theMethodIsTheNameOfARequest() throws {
        let codec = HTTP1Codec()
        for method in [.get, .head, .post, .put, .delete, .connect, .options, .trace, .patch] as [HTTP1Request.Method] {
            #expect(codec.name(of: try HTTP1Request(method, "/").frame()) == method.name)
        }
        #expect(codec.name(of: try HTTP1Request("LINK", "/").frame()) == nil)
        #expect(codec.name(of: Frame(.request, type: .max)) == nil && codec.name(of: Frame(.request, type: 10)) == nil)
    }

    @Test func chunksAreSentUnchanged() throws {
        let headers: HTTP1Headers = ["Transfer-Encoding": "chunked"]
        let text = try written(HTTP1Request(.post, "/", headers: headers, body: "5;x\r\nhello\r\n0\r\n\r\n"))
        #expect(text.hasSuffix("chunked\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n") && !text.contains("Content-Length"))
        for body in ["", "hello", "5\r\nhello\r\n", "0\r\n\r\nGET / HTTP/1.1\r\n\r\n", "5\r\nhello\r\n0\r\n"] as [Bytes]
        {
            #expect(throws: FrameError.self, "\(body)") {
                try written(HTTP1Request(.post, "/", headers: headers, body: body))
            }
        }
    }

    /// With a line break, a name, a value, a target or a method could inject other fields or requests.
    @Test func requestsThatWouldBeReadDifferentlyAreRefused() {
        let requests: [(HTTP1Request, String)] = [
            (HTTP1Request(.get, "/", headers: ["X": "a\r\nEvil: b"]), "a carriage return"),
            (HTTP1Request(.get, "/", headers: ["X": "a\nEvil: b"]), "a line feed"),
            (HTTP1Request(.get, "/", headers: ["X": "a\0"]), "a zero byte"),
            (
                HTTP1Request(.get, "/", headers: ["X: a\r\nEvil": "b"]),
                "the byte 0x3a in the name of a field, after “X”"
            ),
            (HTTP1Request(.get, "/", headers: ["": "b"]), "the name of a field is empty"),
            (HTTP1Request(.get, "/", headers: ["X ": "b"]), "the byte 0x20 in the name of a field"),
            (HTTP1Request(.get, "/ HTTP/1.1\r\nEvil: b"), "the byte 0x20 in a target of 19 bytes, at offset 1"),
            (HTTP1Request(.get, "/a\0b"), "a zero byte in a target of 4 bytes, at offset 2"),
            (HTTP1Request(.get, "/a\nb"), "a line feed without a carriage return in a target"),
            (HTTP1Request(.get, ""), "the target is empty"),
            (HTTP1Request(.get, "/ä"), "the byte 0xc3 in a target"),
            (HTTP1Request("GET /\r\n", "/"), "the byte 0x20 in the method, after “GET”"),
            (HTTP1Request("", "/"), "the method is empty"),
            (
                HTTP1Request(.get, "/", headers: ["Content-Length": "2"], body: "x"),
                "Content-Length is 2, but the size of the content is 1"
            ),
            (
                HTTP1Request(.get, "/", headers: ["Content-Length": "1", "Transfer-Encoding": "chunked"], body: "x"),
                "both"
            ),
            (HTTP1Request(.get, "/", headers: ["Host": "a", "host": "b"]), "more than one Host"),
            (HTTP1Request(.trace, "/", body: "x"), "must not have content"),
            (HTTP1Request(.connect, "h:1", body: "x"), "must not have content"),
        ]
        for (request, words) in requests {
            let error = #expect(throws: FrameError.self) { try written(request) }
            #expect(error?.message.contains(words) == true, "\(error as Any)")
        }
        let noHost = #expect(throws: FrameError.self) { try written(HTTP1Request(.get, "/"), by: HTTP1Codec()) }
        #expect(noHost?.message == "a request without Host (RFC 9112 §3.2); set the codec's host or the field")
        #expect(throws: FrameError.self) {
            try written(HTTP1Request(.get, "/"), by: HTTP1Codec { $0.host = "a\r\nX: y" })
        }
        let small = HTTP1Codec(host: "h") { ($0.maximumBodySize, $0.maximumHeadSize) = (3, 40) }
        #expect(throws: FrameError.self) { try written(HTTP1Request(.post, "/", body: "1234"), by: small) }
        #expect(throws: FrameError.self) {
            try written(HTTP1Request(.get, "/" + String(repeating: "a", count: 40)), by: small)
        }
        #expect(throws: FrameError.self) { try encoded(Frame(.ping)) }
        // Otherwise the codec would wait for content that never arrives.
        #expect(throws: FrameError.self) { try encoded(Frame(.request, type: 1, body: "HEAD / HTTP/1.1\r\n\r\n")) }
        #expect(throws: FrameError.self) { try encoded(Frame(.request, type: 2, body: "GET / HTTP/1.1\r\n\r\n")) }
    }

    @Test func noByteInATargetOrAValueCanInjectAnything() throws {
        for byte in 0...127 as ClosedRange<UInt8> {
            let text = "a" + String(UnicodeScalar(byte)) + "b"
            for request in [HTTP1Request(.get, "/" + text), HTTP1Request(.get, "/", headers: ["X": text])] {
                guard let written = try? written(request) else { continue }
                var (server, input) = (HTTP1Codec().serverSide(), ReceiveBuffer(Array(written.utf8)))
                let frame = try #require(try server.decode(&input))
                let read = try HTTP1Request(frame)
                #expect(read.target == request.target && read.headers["X"] == request.headers["X"] && input.isEmpty)
                #expect(read.headers.count == request.headers.count + 1)
            }
        }
    }

    // MARK: The server's side

    @Test func aServerReadsWhatAClientWritesAtEverySplit() throws {
        let requests = [
            HTTP1Request(.get, "/"), HTTP1Request(.post, "/a", headers: ["X": "y"], body: "hello"),
            HTTP1Request(.head, "*"),
            HTTP1Request(
                "BREW",
                "/",
                headers: ["Transfer-Encoding": "chunked"],
                body: "1\r\na\r\n2\r\nbc\r\n0\r\nT: u\r\n\r\n"
            ),
            HTTP1Request(.put, "/b", body: Bytes(String(repeating: "z", count: 500))),
        ]
        var bytes: [UInt8] = []
        for request in requests { bytes += Array(try written(request).utf8) }
        for size in 1...bytes.count {
            var server = LinkCodec(HTTP1Codec().serverSide())
            let frames = try frames(bytes, inPiecesOf: size, by: &server)
            var read: [HTTP1Request] = []
            for frame in frames { read.append(try HTTP1Request(frame)) }
            #expect(read.map(\.method) == requests.map(\.method) && frames.map(\.type) == [1, 3, 2, 0, 4])
            #expect(read.map { String($0.body).prefix(5) } == ["", "hello", "", "abc", "zzzzz"])
            #expect(read.map { $0.trailers["t"] } == [nil, nil, nil, "u", nil])
        }
    }

    @Test func aServerCompletesItsResponses() throws {
        var (server, frames) = (LinkCodec(HTTP1Codec().serverSide()), [Frame]())
        let text = "HEAD / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"
        var input = ReceiveBuffer(Array(text.utf8))
        try server.decodeAll(&input, into: &frames)
        let response = try HTTP1Response(200, reason: "OK", body: "hello").frame()
        #expect(try encoded(response, by: server.base) == "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        // Interim responses are not final.
        let interim = try HTTP1Response(100).frame()
        #expect(try encoded(interim, by: server.base) == "HTTP/1.1 100 \r\n\r\n")
        server.noteSent(interim)
        #expect(try encoded(response, by: server.base) == "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        server.noteSent(response)
        #expect(try encoded(response, by: server.base) == "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        #expect(try encoded(HTTP1Response(204).frame(), by: server.base) == "HTTP/1.1 204 \r\n\r\n")
        #expect(throws: FrameError.self) { try encoded(HTTP1Response(204, body: "x").frame(), by: server.base) }
        #expect(throws: FrameError.self) { try HTTP1Response(99).frame() }
        #expect(throws: FrameError.self) { try HTTP1Response(200, reason: "a\r\nX: y").frame() }
        #expect(throws: FrameError.self) { try HTTP1Response(200, headers: ["X": "a\rb"]).frame() }
    }

    @Test func aServerRefusesRequestsWithoutHostAndWithoutEnd() {
        for text in [
            "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\r\n\r\n", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "GE(T / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", String(repeating: "a", count: 70_000),
        ] {
            var (server, input) = (HTTP1Codec().serverSide(), ReceiveBuffer(Array(text.utf8)))
            #expect(throws: FrameError.self, "\(text.prefix(40))") { try server.decode(&input) }
        }
    }

    /// A logged request used to reveal credentials.
    @Test func printedFieldsHideSecretsAndLineBreaks() {
        let headers: HTTP1Headers = [
            "Host": "h", "AUTHORIZATION": "Bearer abc", "Cookie": "a=b", "X": "a\r\nEvil: b", "set-cookie": "c=d",
            "Proxy-Authorization": "Basic xyz",
        ]
        #expect(
            headers.description == """
                Host: h
                AUTHORIZATION: (redacted)
                Cookie: (redacted)
                X: a\\r\\nEvil: b
                set-cookie: (redacted)
                Proxy-Authorization: (redacted)
                """
        )
        #expect(!"\(HTTP1Request(.get, "/", headers: headers))".contains("abc"))
    }
}
