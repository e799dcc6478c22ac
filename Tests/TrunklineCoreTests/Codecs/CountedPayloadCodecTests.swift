import SampleLayouts
import Synchronization
import Testing
import Trunkline

@testable import TrunklineCore

/// A head that states how many bytes follow, as in three real protocols: memcached, NATS and LSP.
struct CountedPayloadCodecTests {
    private struct Stream {
        let codec: any FrameCodec
        let bytes: [UInt8]
        let frames: [Frame]
    }

    /// What the servers of these protocols send, written by hand.
    private static let streams = [
        Stream(
            codec: CountedProtocols.memcached,
            bytes: Array("VALUE a 0 5\r\n1\r\n23\r\nVALUE b 7 0 99\r\n\r\nEND\r\nSTORED\r\nSERVER_ERROR no\r\n".utf8),
            frames: [
                Frame(.part, head: "VALUE a 0 5", body: "1\r\n23"), Frame(.part, head: "VALUE b 7 0 99"),
                Frame(.response, head: "END"), Frame(.response, head: "STORED"),
                Frame(.response, isErrorResponse: true, head: "SERVER_ERROR no"),
            ]
        ),
        Stream(
            codec: CountedProtocols.nats,
            bytes: Array("INFO {}\r\nPING\r\nMSG news 2  4\r\nabcd\r\nMSG _INBOX.9 1 2\r\n\r\n\r\nPONG\r\n".utf8),
            frames: [
                Frame(.push, head: "INFO {}"), Frame(.ping, head: "PING"),
                Frame(.push, head: "MSG news 2  4", body: "abcd"),
                Frame(.response, serial: 9, head: "MSG", body: "\r\n"),
                Frame(.pong, head: "PONG"),
            ]
        ),
        Stream(
            codec: CountedProtocols.lsp,
            bytes: Array("content-length: 9 \r\nX: y\r\n\r\n{\"id\":3,}Content-Length:2\r\n\r\n{}".utf8),
            frames: [
                Frame(.response, serial: 3, head: "content-length: 9 \r\nX: y", body: "}"),
                Frame(.push, head: "Content-Length:2", body: "{}"),
            ]
        ),
    ]

    @Test(arguments: 0..<3)
    func framesAreTheSameAtEverySplit(_ index: Int) throws {
        let stream = Self.streams[index]
        for cut in 0...stream.bytes.count {
            for step in [stream.bytes.count, 1, 7] {
                var (codec, input, frames) = (stream.codec, ReceiveBuffer(stream.bytes[..<cut]), [Frame]())
                try codec.decodeAll(&input, into: &frames)
                var rest = stream.bytes[cut...]
                while !rest.isEmpty {
                    unsafe input.fill { memory in
                        let piece = rest.prefix(min(step, memory.count))
                        unsafe memory.copyBytes(from: piece)
                        rest = rest.dropFirst(piece.count)
                        return piece.count
                    }
                    try codec.decodeAll(&input, into: &frames)
                }
                #expect(frames == stream.frames, "split at \(cut), then by \(step)")
                #expect(input.isEmpty)
            }
        }
    }

    @Test func requestsAreEncodedAsTheProtocolsSpecify() throws {
        let set = Frame(.request, head: "set key 0 0 5", body: "1\r\n23")
        #expect(try CountedProtocols.memcached.encoded(set) == Array("set key 0 0 5\r\n1\r\n23\r\n".utf8))
        let get = Frame(.request, head: "get key")
        #expect(try CountedProtocols.memcached.encoded(get) == Array("get key\r\n".utf8))
        let ask = Frame(.request, serial: 7, head: "PUB time", body: "now?")
        #expect(try CountedProtocols.nats.encoded(ask) == Array("PUB time _INBOX.7 4\r\nnow?\r\n".utf8))
        let initialize = Frame(.request, serial: 7, body: "\"method\":\"initialize\"}")
        let json = "{\"id\":7,\"method\":\"initialize\"}"
        let expected = "Content-Length: \(json.utf8.count)\r\n\r\n\(json)"
        #expect(try CountedProtocols.lsp.encoded(initialize) == Array(expected.utf8))
    }

    /// A receiver would read the rest as the next frame, so a caller who chooses a key or a body could inject commands.
    @Test func aFrameThatWouldBeReadAsTwoIsRefused() {
        let codec = CountedProtocols.memcached
        #expect(codec.refusal(of: Frame(.request, head: "get a\r\nget b")) == .malformed)
        #expect(codec.refusal(of: Frame(.request, head: "set a 0 0 5", body: "123456")) == .malformed)
        #expect(codec.refusal(of: Frame(.request, head: "set a 0 0 5")) == .malformed)
        #expect(codec.refusal(of: Frame(.request, head: "get a", body: "1")) == .malformed)
        #expect(codec.refusal(of: Frame(.request, head: "set a 0 0 x", body: "1")) == .malformed)
        // Together with the head end, this head would end two bytes early.
        let block = CountedPayloadCodec(headEnd: "\r\n\r\n") { _ in .absent }
        #expect(block.refusal(of: Frame(.request, head: "a\r\n")) == .malformed)
        // Some servers end a line at a lone LF, some at a lone CR.
        for head: Bytes in ["get a\nget b", "get a\rget b", "get a\n", "\rget a"] {
            #expect(codec.refusal(of: Frame(.request, head: head)) == .malformed)
        }
        for head: Bytes in ["a\r\nb\r", "a\nb", "a\n\nb", "a\r\n\nb", "\r\na"] {
            #expect(block.refusal(of: Frame(.request, head: head)) == .malformed)
        }
        #expect(block.refusal(of: Frame(.request, head: "a\r\nb")) == nil)
        let unix = CountedPayloadCodec(headEnd: "\n\n") { _ in .absent }
        #expect(unix.refusal(of: Frame(.request, head: "a\nb")) == nil)
        #expect(unix.refusal(of: Frame(.request, head: "a\r\nb")) == .malformed)
        // If a head does not end with a line end, line ends within it have no meaning.
        let zero = CountedPayloadCodec(headEnd: "\0") { _ in .absent }
        #expect(zero.refusal(of: Frame(.request, head: "a\nb\r")) == nil)
    }

    @Test func limitsAreCheckedBeforeThePayloadArrives() {
        let codec = CountedProtocols.memcached
        // A head of 14 bytes; the head end and the payload end have 2 bytes each.
        #expect(codec.refusal(of: "VALUE a 0 1982\r\n".utf8) == nil)
        #expect(codec.refusal(of: "VALUE a 0 1983\r\n".utf8) == .illegalLength)
        #expect(codec.refusal(of: "VALUE a 0 999999999999999999\r\n".utf8) == .illegalLength)
        #expect(codec.refusal(of: "VALUE a 0 9999999999999999999999\r\n".utf8) == .malformed)
        #expect(codec.refusal(of: [UInt8](repeating: 0x61, count: 299)) == nil)
        #expect(codec.refusal(of: [UInt8](repeating: 0x61, count: 300)) == .illegalLength)
        #expect(codec.refusal(of: [UInt8](repeating: 0x61, count: 299) + Array("\r\n".utf8)) == .illegalLength)
        #expect(codec.refusal(of: [UInt8](repeating: 0x61, count: 298) + Array("\r\n".utf8)) == nil)
        #expect(codec.refusal(of: Frame(.request, head: Bytes(repeating: 0x61, count: 299))) == .illegalLength)
        #expect(codec.refusal(of: Frame(.request, head: Bytes(repeating: 0x61, count: 298))) == nil)
        let large = Frame(.request, head: "set a 0 0 1990", body: Bytes(repeating: 1, count: 1990))
        #expect(codec.refusal(of: large) == .illegalLength)
    }

    @Test(arguments: ["VALUE a 0", "VALUE a 0 ", "VALUE a 0 -1", "VALUE a 0 +1", "VALUE a 0 1a", "VALUE a 0 0x1"])
    func aHeadWithoutItsCountIsRefused(_ head: String) {
        #expect(CountedProtocols.memcached.refusal(of: "\(head)\r\n".utf8) == .malformed)
    }

    @Test func aPayloadWithoutItsEndIsRefused() {
        #expect(CountedProtocols.memcached.refusal(of: "VALUE a 0 1\r\n12\r\n".utf8) == .unexpectedBytes)
    }

    /// With two lengths, two receivers could disagree about where the message ends (request smuggling).
    @Test func aHeadMustHaveExactlyOneCount() {
        let codec = CountedProtocols.lsp
        #expect(codec.refusal(of: "Content-Length: 2\r\ncontent-length: 3\r\n\r\n{}".utf8) == .malformed)
        #expect(codec.refusal(of: "Content-Type: x\r\n\r\n".utf8) == .malformed)
        #expect(codec.refusal(of: "Content-Length:\r\n\r\n".utf8) == .malformed)
    }

    /// A head is read once, and a payload is not read before all of its bytes have arrived.
    @Test func aHeadIsReadOnceWhileItsPayloadArrivesByteByByte() throws {
        let size = 100_000
        let counter = Counter()
        var codec: any FrameCodec = CountedPayloadCodec(payloadEnd: "\r\n") { head in
            counter.count()
            return .count(inWord: 0, of: head)
        }
        var input = ReceiveBuffer()
        var frames: [Frame] = []
        for byte in Array("\(size)\r\n".utf8) + [UInt8](repeating: 1, count: size) + Array("\r\n".utf8) {
            unsafe input.fill { memory in
                unsafe memory[0] = byte
                return 1
            }
            try codec.decodeAll(&input, into: &frames)
        }
        #expect(frames.map(\.body.count) == [size])
        #expect(counter.value == 1)
    }

    private final class Counter: Sendable {
        private let number = Atomic<Int>(0)
        var value: Int { number.load(ordering: .relaxed) }
        func count() { number.wrappingAdd(1, ordering: .relaxed) }
    }

    @Test func keyingPushesSetsTheKeysOfPushes() {
        let push = Frame(.push, head: "MSG news 2 4", body: "abcd")
        #expect(CountedProtocols.nats.pushKey(of: push) == nil)
        let codec = CountedProtocols.nats.keyingPushes { PushKey(String($0.head.parts(separatedBy: " ")[1])) }
        #expect(codec.pushKey(of: push) == "news")
    }

    @Test func wordsAreCountedFromEitherEnd() {
        func missing(_ word: String, of count: Int) -> CountedPayloadCodec.Payload {
            .malformed("the head has \(count) words; word \(word) is missing")
        }
        #expect(CountedPayloadCodec.Payload.count(inWord: -1, of: "MSG a  \t 12") == .bytes(12))
        #expect(CountedPayloadCodec.Payload.count(inWord: -4, of: "MSG a 12") == missing("4 from the end", of: 3))
        #expect(CountedPayloadCodec.Payload.count(inWord: 3, of: "MSG a 12") == missing("4", of: 3))
        #expect(CountedPayloadCodec.Payload.count(inWord: 0, of: "") == missing("1", of: 0))
        #expect(CountedPayloadCodec.Payload.count(inWord: 0, of: "007") == .bytes(7))
        let head: Bytes = "\t 1  22 \t333 "
        for (index, number) in [(0, 1), (1, 22), (2, 333), (-3, 1), (-2, 22), (-1, 333)] {
            #expect(CountedPayloadCodec.Payload.count(inWord: index, of: head) == .bytes(number))
        }
        #expect(CountedPayloadCodec.Payload.count(inWord: 3, of: head) == missing("4", of: 3))
        #expect(CountedPayloadCodec.Payload.count(inWord: .max, of: head) == missing("9223372036854775808", of: 3))
        let least = missing("9223372036854775808 from the end", of: 3)
        #expect(CountedPayloadCodec.Payload.count(inWord: .min, of: head) == least)
        let invalid = CountedPayloadCodec.Payload.malformed("word 2 is not a decimal byte count")
        #expect(CountedPayloadCodec.Payload.count(inWord: 1, of: "1 a 3") == invalid)
        #expect(CountedPayloadCodec.Payload.count(inWord: -2, of: "1 a 3") == invalid)
    }

    @Test func theNameOfAFieldHasAnyCase() {
        for head: Bytes in [
            "LENGTH:7", "length: 7 ", "a:1\r\nLength:\t7", "Lengthy:1\r\nlength:7\r\n", ":\r\n\r\nlengtH:7",
        ] {
            #expect(CountedPayloadCodec.Payload.count(inField: "Length", of: head) == .bytes(7))
        }
        for head: Bytes in ["", "lengt:7", "length", "length 7", "xlength:7", "l:ngth:7", "length\r\n:7"] {
            let missing = CountedPayloadCodec.Payload.malformed("the head has no field Length")
            #expect(CountedPayloadCodec.Payload.count(inField: "Length", of: head) == missing)
        }
    }

    /// Otherwise the client would take what the server sends for another kind of frame.
    @Test func aServerRefusesFramesThatItsClientWouldMisread() {
        let server = CountedProtocols.nats.serverSide()
        #expect(server.refusal(of: Frame(.push, head: "MSG _INBOX.9 1 0")) == .unknownType)
        #expect(server.refusal(of: Frame(.push, head: "PING")) == .unknownType)
        #expect(server.refusal(of: Frame(.response, serial: 9, isErrorResponse: true, head: "MSG")) == .malformed)
        #expect(server.refusal(of: Frame(.response, serial: 9, head: "MSG", body: "yes")) == nil)
        #expect(CountedProtocols.nats.refusal(of: Frame(.cancel, serial: 9)) == .unknownType)
        #expect(CountedProtocols.memcached.refusal(of: Frame(.ping)) == .unknownType)
    }
}
