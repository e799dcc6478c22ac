import Testing
import Trunkline

@testable import TrunklineLayouts

struct DelimitedCodecTests {
    private let lines = DelimitedCodec(delimiter: "\r\n")

    // MARK: Vectors

    @Test func encodedFramesMatchTheVectors() throws {
        #expect(try DelimitedCodec(delimiter: 0xFF).encoded(Frame(.request, body: "hi")) == hex("6869 ff"))
        #expect(try lines.encoded(Frame(.request, body: "hi")) == hex("6869 0d0a"))
        #expect(try lines.encoded(Frame(.request)) == hex("0d0a"))
        #expect(try DelimitedCodec(delimiter: 0).encoded(Frame(.request, body: [1, 255])) == hex("01ff 00"))
        let two = DelimitedCodec(delimiter: "\r\n", parts: 2)
        #expect(try two.encoded(Frame(.request, body: "h\r\nb")) == hex("68 0d0a 62 0d0a"))
    }

    @Test func decodedFramesMatchTheVectors() throws {
        let (frames, left) = try lines.decoded(hex("6869 0d0a 0d0a 610d62 0d0a 63"))
        #expect(frames == [Frame(.response, body: "hi"), Frame(.response), Frame(.response, body: "a\rb")])
        #expect(left == 1)
        let two = try DelimitedCodec(delimiter: "\r\n", parts: 2).decoded(hex("68 0d0a 62 0d0a 0d0a 0d0a 68 0d0a"))
        #expect(two.frames.map(\.body) == ["h\r\nb", "\r\n"] && two.left == 3)
        #expect(two.frames[0].body.parts(separatedBy: "\r\n") == ["h", "b"])
    }

    // MARK: What may be sent

    @Test(arguments: [
        ("\n", 1, "a\n", false), ("\n", 1, "", true), ("\r\n", 1, "a\r", true), ("\r\n", 1, "a\r\nb", false),
        ("aa", 1, "xa", false), ("aa", 1, "ax", true), ("aa", 1, "xaay", false), ("aba", 1, "xab", false),
        ("aba", 1, "xa", true), ("\n--\n", 1, "a\n--", false), ("\n--\n", 1, "a\n", true), ("\r\n", 2, "hb", false),
        ("\r\n", 2, "h\r\nb", true), ("\r\n", 2, "h\r\nb\r\n", false), ("aa", 2, "aa", true), ("aa", 2, "aaa", false),
    ])
    func aBodyThatWouldNotArriveUnchangedIsRefused(delimiter: String, parts: Int, body: String, isFine: Bool) throws {
        let codec = DelimitedCodec(delimiter: Bytes(delimiter), parts: parts)
        #expect(codec.refusal(of: Frame(.request, body: Bytes(body))) == (isFine ? nil : .malformed))
        if isFine {
            let bytes = try codec.encoded(Frame(.request, body: Bytes(body)))
            #expect(try codec.decoded(bytes).frames == [Frame(.response, body: Bytes(body))])
        }
    }

    @Test func everyAcceptedBodyArrivesUnchanged() throws {
        var generator = SeededGenerator(seed: 2)
        for delimiter in ["a", "aa", "ab", "aba", "abab", "aabaa"] as [Bytes] {
            for parts in 1...3 {
                let codec = DelimitedCodec(delimiter: delimiter, parts: parts)
                for _ in 0..<300 {
                    let body = Bytes(letters(0..<12, using: &generator))
                    guard codec.refusal(of: Frame(.request, body: body)) == nil else {
                        // The refusal is right: another body would arrive.
                        var input = ReceiveBuffer(Array(body) + Array(delimiter))
                        var codec = codec
                        let isSame = try codec.decode(&input)?.body == body && input.isEmpty
                        #expect(!isSame)
                        continue
                    }
                    let bytes =
                        try codec.encoded(Frame(.request, body: body))
                        + codec.encoded(
                            Frame(.request, body: body)
                        )
                    #expect(try codec.decoded(bytes).frames.map(\.body) == [body, body])
                }
            }
        }
    }

    @Test func maximumFrameSizeAppliesToBothDirections() throws {
        let codec = DelimitedCodec(delimiter: "\r\n", maximumFrameSize: 6)
        #expect(try codec.encoded(Frame(.request, body: "four")).count == 6)
        #expect(codec.refusal(of: Frame(.request, body: "fives")) == .illegalLength)
        #expect(try codec.decoded("four\r\n".utf8).frames.map(\.malformedReason) == [nil])
        #expect(DelimitedCodec(delimiter: 10).maximumFrameSize == 8192)
    }

    @Test func heartbeatsAndCancelFramesAreRefusedByDefault() {
        for kind in [.ping, .pong, .cancel] as [Frame.Kind] { #expect(lines.refusal(of: Frame(kind)) == .unknownType) }
        #expect(lines.ping(number: 0) == nil && !ProtocolCodec(lines).cancels(1))
    }

    // MARK: Malformed frames

    @Test func aFrameThatIsTooLongDoesNotAffectTheNext() throws {
        let codec = DelimitedCodec(delimiter: "\r\n", maximumFrameSize: 6)
        let frames = try codec.decoded("one\r\nendless line\r\ntwo\r\n".utf8).frames
        #expect(frames.map(\.body) == ["one", "endl", "two"])
        #expect(frames.map(\.malformedReason) == [nil, .illegalLength, nil])
        #expect(frames.allSatisfy { $0.kind == .response })
    }

    @Test func aFrameThatIsTooLongIsReportedAtOnceAndTakesNoMemory() throws {
        var codec = DelimitedCodec(delimiter: "\r\n", maximumFrameSize: 100)
        var input = ReceiveBuffer()
        var frames: [Frame] = []
        for round in 0..<1000 {
            input.receive([UInt8](repeating: UInt8(ascii: "x"), count: 100))
            try codec.decodeAll(&input, into: &frames)
            #expect(frames.count == 1 && input.count <= 1, "round \(round)")
        }
        input.receive("\r".utf8)
        try codec.decodeAll(&input, into: &frames)
        input.receive("\nfine\r\n".utf8)
        try codec.decodeAll(&input, into: &frames)
        #expect(frames.map(\.body.count) == [98, 4] && input.isEmpty)
    }

    @Test func everyPartOfAFrameThatIsTooLongIsSkipped() throws {
        let codec = DelimitedCodec(delimiter: "\n", parts: 3, maximumFrameSize: 8)
        let frames = try codec.decoded("a\nb\nendless\nc\nd\ne\nlonger than 8\nx\ny\nf\ng\nh\n".utf8).frames
        #expect(frames.map(\.malformedReason) == [.illegalLength, nil, .illegalLength, nil])
        #expect(frames.map(\.body) == ["a\nb\nend", "c\nd\ne", "longer ", "f\ng\nh"])
    }

    /// The frames, including malformed ones, are the same at every split. The reference searches all bytes at once.
    @Test func framesAreTheSameWhereverTheBytesAreSplit() throws {
        var generator = SeededGenerator(seed: 3)
        for delimiter in ["a", "aa", "ab", "aba", "abb"] as [Bytes] {
            for parts in 1...2 {
                for _ in 0..<150 {
                    let size = parts * delimiter.count + Int.random(in: 0..<5, using: &generator)
                    let bytes = letters(0..<60, using: &generator)
                    let expected = reference(bytes, Array(delimiter), parts, size)
                    var codec = DelimitedCodec(delimiter: delimiter, parts: parts, maximumFrameSize: size)
                    var input = ReceiveBuffer()
                    var frames: [Frame] = []
                    var rest = bytes[...]
                    while !rest.isEmpty {
                        let piece = rest.prefix(Int.random(in: 1...5, using: &generator))
                        rest = rest.dropFirst(piece.count)
                        input.receive(piece)
                        try codec.decodeAll(&input, into: &frames)
                    }
                    #expect(frames.map { Array($0.body) } == expected.map(\.body))
                    #expect(frames.map { $0.malformedReason != nil } == expected.map(\.isMalformed))
                }
            }
        }
    }

    /// Searching all bytes again after each one took a minute for this input.
    @Test func aFrameThatArrivesByteByByteIsSearchedOnce() throws {
        var codec = DelimitedCodec(delimiter: "\r\n", maximumFrameSize: 1 << 20)
        let size = 200_000
        var input = ReceiveBuffer()
        var frames: [Frame] = []
        for _ in 0..<size {
            input.receive(CollectionOfOne(13))
            try codec.decodeAll(&input, into: &frames)
        }
        input.receive(CollectionOfOne(10))
        try codec.decodeAll(&input, into: &frames)
        #expect(frames.map(\.body.count) == [size - 1])
    }

    @Test func randomBytesNeverTrap() throws {
        var generator = SeededGenerator(seed: 9)
        let codec = DelimitedCodec(delimiter: [0xFF, 0], parts: 2, maximumFrameSize: 50)
        for _ in 0..<500 {
            let bytes = (0..<300).map { _ in [0, 1, 0xFF].randomElement(using: &generator) ?? 0 as UInt8 }
            #expect(try codec.decoded(bytes).left < 50)
            #expect(try codec.serverSide().decoded(bytes).left < 50)
        }
    }

    // MARK: Kinds of frames

    private let chat = DelimitedCodec(delimiter: "\n", maximumFrameSize: 16)
        .heartbeat(ping: "PING", pong: "PONG")
        .reading { frame in
            if frame.body.hasPrefix(">") { frame.kind = .push }
            if frame.body.hasPrefix("-") { frame.isErrorResponse = true }
            if frame.body.isEmpty { frame.markMalformed(.malformed) }
        }

    @Test func theReadingRuleDeterminesTheKindOfReceivedFrames() throws {
        let frames = try chat.decoded(">news\n-no\nyes\n\nPING\nPONG\n>a push that is too long\n".utf8).frames
        #expect(frames.map(\.kind) == [.push, .response, .response, .response, .ping, .pong, .push])
        #expect(frames.map(\.isErrorResponse) == [false, true, false, false, false, false, false])
        #expect(frames.map(\.malformedReason) == [nil, nil, nil, .malformed, nil, nil, .illegalLength])
        let requests = try chat.serverSide().decoded(">news\nPING\n".utf8).frames
        #expect(requests.map(\.kind) == [.request, .ping])
    }

    @Test func heartbeatsAreEncodedAsConfigured() throws {
        let ping = try #require(chat.ping(number: 7))
        #expect(try chat.encoded(ping) == Array("PING\n".utf8))
        #expect(try chat.serverSide().encoded(Frame(.ping)) == Array("PING\n".utf8))
        let pong = try #require(chat.pong(answering: Frame(.ping)))
        #expect(try chat.encoded(pong) == Array("PONG\n".utf8))
        #expect(
            !chat.pongsLookLikePings
                && DelimitedCodec(delimiter: 10).heartbeat(ping: "h", pong: "h").pongsLookLikePings
        )
        #expect(chat.refusal(of: Frame(.request, body: "PING")) == .unknownType)
        #expect(chat.serverSide().refusal(of: Frame(.response, body: "PONG")) == .unknownType)
    }

    @Test func aServerRefusesFramesThatItsClientWouldMisread() throws {
        let server = chat.serverSide()
        #expect(try server.encoded(Frame(.push, body: ">x")) == Array(">x\n".utf8))
        #expect(server.refusal(of: Frame(.push, body: "x")) == .unknownType)
        #expect(server.refusal(of: Frame(.response, body: ">x")) == .unknownType)
        #expect(server.refusal(of: Frame(.response, isErrorResponse: true, body: "no")) == .malformed)
        #expect(try server.encoded(Frame(.response, isErrorResponse: true, body: "-no")) == Array("-no\n".utf8))
        #expect(lines.serverSide().refusal(of: Frame(.push, body: "x")) == .unknownType)
    }
}

private func letters(_ count: Range<Int>, using generator: inout SeededGenerator) -> [UInt8] {
    (0..<Int.random(in: count, using: &generator)).map { _ in UInt8.random(in: 97...98, using: &generator) }
}

/// The frames that a byte-by-byte search through all of `bytes` finds.
private func reference(
    _ bytes: [UInt8],
    _ delimiter: [UInt8],
    _ parts: Int,
    _ limit: Int
) -> [(body: [UInt8], isMalformed: Bool)] {
    var frames: [(body: [UInt8], isMalformed: Bool)] = []
    var rest = bytes[...]
    while true {
        var found = 0
        var index = rest.startIndex
        while found < parts, index + delimiter.count <= rest.endIndex {
            if Array(rest[index..<index + delimiter.count]) == delimiter {
                found += 1
                index += delimiter.count
            } else {
                index += 1
            }
        }
        let size = found == parts ? index - rest.startIndex : rest.count
        if size > limit || (found < parts && size == limit) {
            frames.append((Array(rest.prefix(limit - delimiter.count)), true))
        } else if found == parts {
            frames.append((Array(rest.prefix(size - delimiter.count)), false))
        }
        guard found == parts else { return frames }
        rest = rest[index...]
    }
}
