import Testing
import Trunkline

@testable import TrunklineHTTP

/// Messages that two readers could understand differently, and messages without bounds: they are refused, each with its
/// own error message.
@Suite struct HTTP1StrictnessTests: HTTP1Testing {}

extension HTTP1StrictnessTests {
    struct Case: CustomTestStringConvertible {
        let text: String
        let words: String
        var code = FrameError.Code.malformed
        var testDescription: String { words }

        init(_ text: String, _ words: String, _ code: FrameError.Code = .malformed) {
            (self.text, self.words, self.code) = (text, words, code)
        }
    }

    /// The field lines of heads, for responses and requests.
    static let fields: [Case] = [
        Case("Content-Length: 1\r\nContent-Length: 2\r\n", "more than one Content-Length"),
        Case("Content-Length: 1\r\ncontent-length: 1\r\n", "more than one Content-Length"),
        Case("Content-Length: 1, 1\r\n", "a Content-Length that is not a number"),
        Case("Content-Length: +1\r\n", "a Content-Length that is not a number"),
        Case("Content-Length: -1\r\n", "a Content-Length that is not a number"),
        Case("Content-Length: 0x1\r\n", "a Content-Length that is not a number"),
        Case("Content-Length: 1 1\r\n", "a Content-Length that is not a number"),
        Case("Content-Length:\r\n", "a Content-Length without a value"),
        Case("Content-Length: 99999999999999999999\r\n", "too large to represent", .illegalLength),
        Case("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "both Content-Length and Transfer-Encoding"),
        Case("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", "both Content-Length and Transfer-Encoding"),
        Case("Transfer-Encoding: gzip\r\n", "other than chunked"),
        Case("Transfer-Encoding: gzip, chunked\r\n", "other than chunked"),
        Case("Transfer-Encoding: chunked, gzip\r\n", "other than chunked"),
        Case("Transfer-Encoding: chunked, chunked\r\n", "other than chunked"),
        Case("Transfer-Encoding: xchunked\r\n", "other than chunked"),
        Case("Transfer-Encoding:\r\n", "other than chunked"),
        Case("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "more than one Transfer-Encoding"),
        Case("Transfer-Encoding : chunked\r\n", "whitespace before the colon"),
        Case("Content-Length\t: 1\r\n", "whitespace before the colon"),
        Case("X: a\r\n b\r\n", "a folded line"),
        Case(" X: a\r\n", "a folded line"),
        Case("X: a\rContent-Length: 1\r\n", "a carriage return without a line feed"),
        Case("X: a\r\rY: b\r\n", "a carriage return without a line feed"),
        Case("X: a\nContent-Length: 1\r\n", "a line feed without a carriage return"),
        Case("X: a\0b\r\n", "a zero byte"),
        Case("X\0: a\r\n", "a zero byte"),
        Case("X: \u{1}\r\n", "the byte 0x1"),
        Case("X: \u{7F}\r\n", "the byte 0x7f"),
        Case("X\r\n", "a field without a colon"),
        Case(": a\r\n", "a field without a name"),
        Case("X(y): a\r\n", "the byte 0x28"),
        Case("Ä: a\r\n", "in the name of a field"),
    ]

    @Test(arguments: fields)
    func aHeadWithInvalidFieldsIsRefused(_ fields: Case) throws {
        let response = try #require(refusal(of: "HTTP/1.1 200 OK\r\n\(fields.text)\r\n"))
        #expect(response.message.contains(fields.words), "\(response)")
        #expect(response.code == fields.code)
        // A server refuses them, and so does the encoder.
        let request = "POST / HTTP/1.1\r\nHost: h\r\n\(fields.text)\r\n"
        var (server, input) = (HTTP1Codec().serverSide(), ReceiveBuffer(Array(request.utf8)))
        let received = #expect(throws: FrameError.self) { try server.decode(&input) }
        #expect(received?.message.contains(fields.words) == true)
        let sent = #expect(throws: FrameError.self) { try encoded(Frame(.request, type: 3, body: Bytes(request))) }
        #expect(sent?.message.contains(fields.words) == true)
    }

    /// Every byte at every offset of a value: the search for bytes that are not allowed looks at eight of them
    /// together.
    @Test func everyByteOfAValueIsChecked() throws {
        for count in 0..<24 {
            for byte in UInt8.min...UInt8.max where byte != 0x0D {
                for neighbour in [UInt8(ascii: "a"), 0x09, 0xFF] {
                    var value = [UInt8](repeating: neighbour, count: 24)
                    value[count] = byte
                    let bytes = Array("HTTP/1.1 200 \r\na:".utf8) + value + Array("\r\nContent-Length:0\r\n\r\n".utf8)
                    let isAllowed = byte >= 0x20 && byte != 0x7F || byte == 0x09
                    #expect(((try? replies(bytes)) != nil) == isAllowed, "\(byte) at \(count)")
                }
            }
        }
    }

    @Test(arguments: [
        Case("HTTP/2.0 200 OK\r\n\r\n", "not an HTTP/1.x response"),
        Case("http/1.1 200 OK\r\n\r\n", "not an HTTP/1.x response"),
        Case("<html>", "not an HTTP/1.x response"),
        Case("\r\nHTTP/1.1 200 OK\r\n\r\n", "not an HTTP/1.x response"),
        Case("HTTP/1.x 200 OK\r\n\r\n", "a version that is not HTTP/1.x"),
        Case("HTTP/1.11 200 OK\r\n\r\n", "the byte 0x31 in a version"),
        Case("HTTP/1.1  200 OK\r\n\r\n", "a status that is not a number"),
        Case("HTTP/1.1 20 OK\r\n\r\n", "a status that is not a number"),
        Case("HTTP/1.1 2000 OK\r\n\r\n", "a status that is not a number"),
        Case("HTTP/1.1 099 OK\r\n\r\n", "a status that is not a number"),
        Case("HTTP/1.1 200OK\r\n\r\n", "the byte 0x4f in a status"),
        Case("HTTP/1.1 200 O\0K\r\n\r\n", "a zero byte in a status line"),
        Case("HTTP/1.1 200 OK\n\r\n", "a line feed without a carriage return"),
        Case("HTTP/1.1 200 OK\rX\r\n\r\n", "a carriage return without a line feed"),
        Case("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", "101 Switching Protocols"),
        Case("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "in an HTTP/1.0 message"),
    ])
    func aResponseWithAnInvalidBeginningIsRefused(_ response: Case) throws {
        let error = try #require(refusal(of: response.text))
        #expect(error.message.contains(response.words), "\(error)")
        #expect(error.code == .malformed)
    }

    /// Each follows `Transfer-Encoding: chunked`.
    @Test(arguments: [
        Case("-5\r\n", "a chunk without a size"), Case("+5\r\n", "a chunk without a size"),
        Case("\r\n", "a chunk without a size"), Case(";a\r\n", "a chunk without a size"),
        Case(" 5\r\n", "a chunk without a size"), Case("0x5\r\n", "not a hexadecimal number"),
        Case("5 \r\n", "not a hexadecimal number"), Case("5g\r\n", "not a hexadecimal number"),
        Case("5;a\0\r\n", "a zero byte in the extension of a chunk"),
        Case("5;a\rb\r\n", "a carriage return without a line feed in the extension of a chunk"),
        Case("5\nhello\r\n", "a line feed without a carriage return"),
        Case("\n", "a line feed without a carriage return"),
        Case("5\r\nhelloX\r\n", "no CR LF after the data of a chunk"),
        Case("5\r\nhello\rX", "no CR LF after the data of a chunk"),
        Case("5\r\nhello\n", "no CR LF after the data of a chunk"),
        Case("4000001\r\n", "the chunked content exceeds the limit", .illegalLength),
        Case("ffffffffffffffffffff\r\n", "the chunked content exceeds the limit", .illegalLength),
        Case("10000000000000000\r\n", "the chunked content exceeds the limit", .illegalLength),
        Case("5;" + String(repeating: "a", count: 300), "the size line of a chunk exceeds the limit", .illegalLength),
        Case(String(repeating: "0", count: 300), "the size line of a chunk exceeds the limit", .illegalLength),
        Case("0\r\nX : y\r\n\r\n", "whitespace before the colon"),
        Case("0\r\n y\r\n\r\n", "a folded line"),
        Case("0\r\nX: y\n\r\n", "a line feed without a carriage return"),
        Case("0\r\nX: y\r\nContent-Length: 5\r\n\r\n", "content-length in a trailer section"),
        Case("0\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer-encoding in a trailer section"),
        Case("0\r\nHOST: elsewhere\r\n\r\n", "host in a trailer section"),
        Case("0\r\nX: " + String(repeating: "a", count: 70_000), "the trailer section exceeds", .illegalLength),
    ])
    func invalidChunksAreRefusedAtEverySplit(_ chunks: Case) throws {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks.text
        for size in chunks.text.utf8.count > 1000 ? [999, .max] : [1, 2, 7, .max] {
            let error = #expect(throws: FrameError.self) { try replies(text, inPiecesOf: size) }
            #expect(error?.message.contains(chunks.words) == true, "\(error as Any)")
            #expect(error?.code == chunks.code)
        }
    }

    @Test func limitsAreCheckedBeforeTheBytesArrive() {
        #expect(refusal(of: "HTTP/1.1 200 OK\r\nContent-Length: 67108865\r\n\r\n")?.code == .illegalLength)
        #expect(refusal(of: "HTTP/1.1 200 OK\r\nContent-Length: 67108865\r\n\r\n", to: [.head]) == nil)
        let endless = "HTTP/1.1 200 OK\r\nX: " + String(repeating: "a", count: 65_536)
        #expect(refusal(of: endless)?.message == "the head exceeds the limit of 65536 bytes (maximumHeadSize)")
        let fields = "HTTP/1.1 200 OK\r\n" + String(repeating: "X: a\r\n", count: 257) + "\r\n"
        #expect(refusal(of: fields)?.message == "the head exceeds the limit of 256 fields (maximumFields)")
        let interim = String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 65)
        #expect(refusal(of: interim)?.message == "more than 64 interim responses before a response")
        let small = HTTP1Codec { $0.maximumBodySize = 10 }
        let unbounded = "HTTP/1.1 200 OK\r\n\r\n01234567890"
        #expect(refusal(of: unbounded, by: small)?.code == .illegalLength)
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n012345678\r\n2\r\n"
        #expect(refusal(of: chunks, by: small)?.code == .illegalLength)
        let most = HTTP1Codec { ($0.maximumBodySize, $0.maximumHeadSize, $0.partSize) = (.max, .max, .max) }
        let length = "HTTP/1.1 200 OK\r\nContent-Length: \(Int.max)\r\n\r\n"
        #expect(refusal(of: length, by: most)?.code == .illegalLength)
    }

    /// A head that can no longer become valid used to be awaited to its end.
    @Test(arguments: fields)
    func anInvalidLineIsRefusedBeforeTheHeadEnds(_ fields: Case) throws {
        let error = try #require(refusal(of: "HTTP/1.1 200 OK\r\n\(fields.text)"))
        #expect(error.message.contains(fields.words), "\(error)")
        #expect(error.code == fields.code)
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\rX", "HTTP/1.1 200 OK\r\r", "HTTP/1.1 200 \0", "HTTP/1.1 200 OK\r\nX: a\rb",
        "HTTP/1.1 200 OK\r\nX: a\u{7F}", "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nX\u{1}", "HTTP/1.1 20x OK\r\n",
        "HTTP/1.1 200 OK\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: a\rb",
    ])
    func anInvalidByteIsRefusedBeforeTheLineEnds(_ text: String) {
        for size in [1, 3, .max] {
            #expect(throws: FrameError.self) { try replies(text, inPiecesOf: size) }
            // The bytes before it may still become a valid head.
            let start = String(decoding: text.utf8.dropLast(), as: UTF8.self)
            if !text.hasSuffix("\n") { #expect(throws: Never.self) { try replies(start, inPiecesOf: size) } }
        }
    }

    /// The response to a request must not be taken from bytes that arrived before the request was sent, even if the
    /// rest of them arrives after it.
    @Test(arguments: 1..<39)
    func aResponseThatBeganBeforeItsRequestEndsTheLink(_ count: Int) throws {
        let text = Array("HTTP/1.1 408 Timeout\r\nContent-Length: 2\r\n\r\nno".utf8)
        var codec = LinkCodec(HTTP1Codec())
        var (input, frames) = (ReceiveBuffer(text.prefix(count)), [Frame]())
        try codec.decodeAll(&input, into: &frames)
        #expect(frames.isEmpty)
        codec.noteSent(Frame(.request, type: HTTP1Request.Method.get.type))
        unsafe input.fill { memory in
            unsafe memory.copyBytes(from: text[count...])
            return text.count - count
        }
        try codec.decodeAll(&input, into: &frames)
        #expect(frames.count == 1 && frames[0].kind == .goAway && frames[0].isFarewell && frames[0].status == 408)
        #expect(input.isEmpty)
    }

    @Test func bytesWithoutARequestThatAreNoResponseAreRefused() throws {
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        #expect(refusal(of: "\r\n", to: [])?.message == "not an HTTP/1.x response")
        #expect(refusal(of: "HTTP/1.1 101 Switching\r\n\r\n", to: [])?.message.contains("101") == true)
        #expect(try replies(response + response).count == 2)
        let last = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        #expect(refusal(of: last + response, to: [.get, .get])?.message.contains("after the last response") == true)
    }

    // MARK: Arbitrary bytes

    private static let samples = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n",
        "HTTP/1.0 200 OK\r\nServer: x\r\n\r\nhello",
    ]

    /// Decodes and reads. Errors are allowed, traps are not.
    private func survive(_ bytes: [UInt8], inPiecesOf size: Int) {
        guard let replies = try? replies(bytes, to: [.get, .head], inPiecesOf: size, thenEnd: true) else { return }
        for reply in replies { _ = try? HTTP1Response(reply.frame) }
    }

    @Test func aCorruptedByteNeverTraps() {
        for sample in Self.samples {
            var bytes = Array(sample.utf8)
            for index in bytes.indices {
                let byte = bytes[index]
                for value in 0...255 as ClosedRange<UInt8> {
                    bytes[index] = value
                    survive(bytes, inPiecesOf: value % 3 == 0 ? 4 : .max)
                }
                bytes[index] = byte
            }
        }
    }

    @Test func randomBytesNeverTrap() {
        var generator = SeededGenerator(seed: 1)
        let words = [
            "HTTP/1.1 200 OK\r\n", "Content-Length: ", "Transfer-Encoding: chunked\r\n", "\r\n", "5\r\n", "0\r\n", "f",
        ]
        for _ in 0..<5_000 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 1...12, using: &generator) {
                if Bool.random(using: &generator) {
                    bytes += Array(words.randomElement(using: &generator)!.utf8)
                } else {
                    bytes += (0..<Int.random(in: 1...9, using: &generator)).map { _ in
                        .random(in: 0...255, using: &generator)
                    }
                }
            }
            survive(bytes, inPiecesOf: Int.random(in: 1...40, using: &generator))
            var (server, input) = (HTTP1Codec().serverSide(), ReceiveBuffer(bytes))
            _ = try? server.decode(&input)
        }
    }

    @Test func framesWithWrongPartLengthsAreRefused() {
        for (head, trailers) in [(0, 0), (1, 0), (4, 0), (999, 0), (38, 99), (.max, .max), (20, 0)]
            as [(UInt64, UInt64)]
        {
            var frame = Frame(.response, body: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
            frame["headLength"] = head
            frame["trailerLength"] = trailers
            #expect(throws: FrameError.self, "\(head), \(trailers)") { try HTTP1Response(frame) }
        }
        #expect(throws: FrameError.self) { try HTTP1Response(Frame(.response, body: "")) }
        #expect(throws: FrameError.self) { try HTTP1Request(Frame(.request, body: "GET / HTTP/1.1\r\n")) }
    }
}
