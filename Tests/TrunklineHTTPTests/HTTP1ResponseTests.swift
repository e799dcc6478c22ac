import Testing
import Trunkline

@testable import TrunklineHTTP

/// Responses as specified in RFC 9112, and where each one ends.
@Suite struct HTTP1ResponseTests: HTTP1Testing {}

extension HTTP1ResponseTests {
    /// Responses of every kind, the requests they answer, and their expected bodies.
    private static let conversation: (text: String, methods: [HTTP1Request.Method], bodies: [String]) = (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
            + "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"
            + "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
            + "HTTP/1.1 404 Not Found\r\ncontent-length:3\t\r\n\r\nno!"
            + "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"
            + "HTTP/1.1 204 No Content\r\n\r\n"
            + "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"
            + "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n6;a=\"b\"\r\n world\r\n0\r\n\r\n"
            + "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3 ;x\r\nabc\r\n00\r\nSum: 1\r\nX: y\r\n\r\n"
            + "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nz"
            + "HTTP/1.1 200 OK\r\nConnection: upgrade , Close\r\nContent-Length: 1\r\n\r\n!",
        [.get, .get, .post, .head, .delete, .get, .get, "BREW", .get, .get],
        ["hello", "", "no!", "", "", "", "hello world", "abc", "z", "!"]
    )

    @Test func everyResponseEndsAtTheRightByteAtEverySplit() throws {
        let (text, methods, bodies) = Self.conversation
        for size in Array(1...text.utf8.count) {
            let replies = try replies(text, to: methods, inPiecesOf: size)
            #expect(replies.map(\.body) == bodies, "in pieces of \(size)")
            #expect(replies.map(\.status) == [200, 200, 404, 200, 204, 304, 200, 200, 200, 200])
            #expect(replies.map(\.frame.isFarewell) == [Bool](repeating: false, count: 9) + [true])
        }
    }

    @Test func aResponseThatHasArrivedIsOneFrameWhateverItsSize() throws {
        let body = String(repeating: "x", count: 200_000)
        let length = try replies("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n\(body)")
        #expect(length.map(\.parts) == [1] && length[0].body == body)
        let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n30d40\r\n\(body)\r\n0\r\n\r\n"
        let chunks = try replies(chunk)
        #expect(chunks.map(\.parts) == [1] && chunks[0].body == body)
    }

    /// The server must close the connection after it (RFC 9112 §9.6), whether or not it announces this.
    @Test func theResponseToConnectionCloseIsTheLast() throws {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
        var codec = LinkCodec(HTTP1Codec())
        codec.noteSent(try HTTP1Request(.get, "/").frame())
        codec.noteSent(try HTTP1Request(.get, "/", headers: ["Connection": "close"]).frame())
        let frames = try frames(Array((text + text).utf8), inPiecesOf: 5, by: &codec)
        #expect(frames.map(\.isFarewell) == [false, true])
        #expect(throws: FrameError.self) {
            var rest = ReceiveBuffer(Array("H".utf8))
            var more: [Frame] = []
            try codec.decodeAll(&rest, into: &more)
        }
    }

    @Test func largeResponsesArriveInPartsAndSmallOnesDoNot() throws {
        let body = String(repeating: "x", count: 100_000)
        let large = try replies("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n\(body)", inPiecesOf: 40_000)
        #expect(large.map(\.parts) == [4] && large[0].body == body)
        let small = try replies("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", inPiecesOf: 7)
        #expect(small.map(\.parts) == [1])
    }

    @Test func theFirstPartIsTheHeadAndTheLastHasItsLength() throws {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        var (codec, frames) = (LinkCodec(HTTP1Codec()), [Frame]())
        codec.noteSent(Frame(.request, type: 1))
        for piece in [head, "5\r\nhel", "lo\r\n", "1\r\n!\r\n0\r\nA: b\r\n\r\n"] {
            // Each piece is decoded completely, except for the line end behind a chunk.
            var input = ReceiveBuffer(Array((piece == "1\r\n!\r\n0\r\nA: b\r\n\r\n" ? "\r\n" + piece : piece).utf8))
            if piece == "lo\r\n" { input = ReceiveBuffer(Array("lo".utf8)) }
            try codec.decodeAll(&input, into: &frames)
        }
        #expect(frames.map(\.kind) == [.part, .part, .part, .response])
        #expect(frames.map { String($0.body) } == [head, "hel", "lo", "!A: b\r\n"])
        #expect(frames.last?["headLength"] == UInt64(head.utf8.count) && frames.last?["trailerLength"] == 6)
        let response = try HTTP1Response(joined(frames)[0].frame)
        #expect(String(response.body) == "hello!")
        #expect(response.trailers["a"] == "b" && response.headers["a"] == nil)
    }

    @Test func aResponseWithoutALengthEndsWithTheConnection() throws {
        for size in [1, 3, .max] {
            let replies = try replies("HTTP/1.0 200 OK\r\n\r\nhello", inPiecesOf: size, thenEnd: true)
            #expect(replies.map(\.body) == ["hello"] && replies[0].frame.isFarewell)
        }
        #expect(try replies("HTTP/1.1 200 OK\r\n\r\n", thenEnd: true).map(\.body) == [""])
        #expect(try replies("HTTP/1.1 200 OK\r\n\r\nhello").isEmpty)
    }

    @Test func anIncompleteResponseIsNotDecodedAtTheEndOfTheConnection() throws {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        ] {
            for size in [1, .max] { #expect(try replies(text, inPiecesOf: size, thenEnd: true).isEmpty) }
        }
    }

    @Test func connectionFieldsAndVersionsDetermineWhetherTheLinkEnds() throws {
        let cases: [(String, Bool)] = [
            ("HTTP/1.1 200 OK\r\n", false), ("HTTP/1.0 200 OK\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: CLOSE\r\n", true),
            ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", false), ("HTTP/1.9 200 OK\r\n", false),
            ("HTTP/1.1 200 OK\r\nConnection: closed\r\n", false), ("HTTP/1.1 200 OK\r\nConnection: a,,close\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: a\r\nConnection: close\r\n", true),
        ]
        for (head, ends) in cases {
            #expect(try replies(head + "Content-Length: 0\r\n\r\n").map(\.frame.isFarewell) == [ends], "\(head)")
        }
        #expect(try replies("HTTP/1.1 200 OK\r\n\r\n", to: [.connect]).map(\.frame.isFarewell) == [true])
        let refused = try replies("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", to: [.connect])
        #expect(refused.map(\.body) == ["no"] && !refused[0].frame.isFarewell)
    }

    @Test func onlyTheGivenStatusesAreErrorResponses() throws {
        let codec = HTTP1Codec(rejecting: 500...599)
        for (status, isErrorResponse) in [(200, false), (404, false), (500, true), (599, true), (600, false)] {
            let replies = try replies("HTTP/1.1 \(status) x\r\nContent-Length: 0\r\n\r\n", by: codec)
            #expect(replies.map(\.frame.isErrorResponse) == [isErrorResponse])
        }
        #expect(try replies("HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n").map(\.frame.isErrorResponse) == [false])
    }

    @Test func headersIgnoreCaseAndKeepTheirOrder() throws {
        let head =
            "HTTP/1.1 200 All  right\r\nSet-Cookie: a=1\r\nX:\r\nset-cookie:  b=2 \t\r\nContent-Length: 0\r\n\r\n"
        let response = try HTTP1Response(replies(head)[0].frame)
        #expect(response.reason == "All  right" && response.status == 200)
        #expect(response.headers.values(of: "SET-COOKIE") == ["a=1", "b=2"])
        #expect(response.headers["x"] == "" && response.headers["y"] == nil)
        #expect(response.headers.map(\.name) == ["Set-Cookie", "X", "set-cookie", "Content-Length"])
        #expect(response.headers["set-cookie"] == "a=1, b=2")
    }
}
