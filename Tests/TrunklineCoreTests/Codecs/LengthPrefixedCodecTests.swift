import Testing
import Trunkline

struct LengthPrefixedCodecTests {
    private let body: Bytes = "abc"

    // MARK: Vectors

    @Test func encodedAndDecodedFramesMatchTheVectors() throws {
        let vectors: [(LengthPrefixedCodec, String)] = [
            (LengthPrefixedCodec(UInt8.self), "03 616263"), (LengthPrefixedCodec(UInt16.self), "0003 616263"),
            (LengthPrefixedCodec(UInt16.self, order: .littleEndian), "0300 616263"),
            (LengthPrefixedCodec(UInt32.self), "00000003 616263"),
            (LengthPrefixedCodec(UInt32.self, order: .littleEndian, countingItself: true), "07000000 616263"),
            (LengthPrefixedCodec(UInt64.self, countingItself: true), "000000000000000b 616263"),
            (LengthPrefixedCodec(.integer(width: 3)), "000003 616263"), (LengthPrefixedCodec(.varint), "03 616263"),
        ]
        for (codec, digits) in vectors {
            #expect(try codec.encoded(Frame(.request, body: body)) == hex(digits))
            #expect(try codec.decoded(hex(digits)).frames == [Frame(.response, body: body)])
            #expect(try codec.serverSide().decoded(hex(digits)).frames == [Frame(.request, body: body)])
        }
        let large = Bytes([UInt8](repeating: 7, count: 300))
        let start = try LengthPrefixedCodec(.varint).encoded(Frame(.request, body: large)).prefix(3)
        #expect(Array(start) == hex("ac02 07"))
        #expect(try LengthPrefixedCodec(.varint).decoded(hex("8300 616263")).frames.map(\.body) == [body])
    }

    @Test func serialAndTypeAreAtTheirOffsets() throws {
        let codec = LengthPrefixedCodec(UInt16.self)
            .serial(at: 1, UInt16.self, order: .littleEndian)
            .type(at: 4, UInt8.self)
        let frame = Frame(.request, type: 9, serial: 0x0102, body: Bytes(hex("aa 0000 bb 00 cc")))
        #expect(try codec.encoded(frame) == hex("0006 aa 0201 bb 09 cc"))
        let received = Frame(.response, type: 9, serial: 0x0102, body: Bytes(hex("aa 0201 bb 09 cc")))
        #expect(try codec.decoded(hex("0006 aa 0201 bb 09 cc")).frames == [received])
        #expect(try codec.decoded(hex("0005 aa 0000 bb 09")).frames.map(\.kind) == [.push])
        #expect(codec.matching == .serial(1...0xFFFF))
        let swapped = LengthPrefixedCodec(UInt8.self).type(at: 0, UInt32.self).serial(
            at: 4,
            UInt8.self,
            numbers: 16...31
        )
        #expect(
            try swapped.encoded(Frame(.request, type: 5, serial: 16, body: Bytes(hex("0000000000"))))
                == hex("05 00000005 10")
        )
        #expect(try swapped.decoded(hex("05 00000005 20 05 00000005 1f")).frames.map(\.kind) == [.push, .response])
        // A large body is shared, not copied, and is encoded in pieces.
        let large = Bytes([UInt8](repeating: 7, count: 70_000))
        let bytes = try LengthPrefixedCodec(.varint).serial(at: 5000, UInt64.self).encoded(
            Frame(.request, serial: .max, body: large)
        )
        #expect(bytes.count == 70_003 && Array(bytes[5003..<5011]) == hex("ffffffffffffffff") && bytes[5011] == 7)
    }

    @Test func aBodyTooShortForItsSerialOrTypeIsRefusedBothWays() throws {
        let codec = LengthPrefixedCodec(UInt8.self).serial(at: 2, UInt16.self, numbers: 5...70_000)
        #expect(codec.refusal(of: Frame(.request, serial: 5, body: "abc")) == .illegalLength)
        #expect(codec.refusal(of: Frame(.request, serial: 5, body: "abcd")) == nil)
        #expect(codec.refusal(of: Frame(.request, serial: 70_000, body: "abcd")) == .malformed)
        #expect(codec.matching == .serial(5...0xFFFF))
        #expect(codec.refusal(of: hex("03")) == .illegalLength)
        #expect(codec.refusal(of: hex("04")) == nil)
        let typed = LengthPrefixedCodec(UInt8.self).type(at: 0, UInt8.self)
        #expect(typed.refusal(of: Frame(.request, type: 256, body: "a")) == .malformed)
    }

    // MARK: Limits

    @Test(arguments: [LengthPrefixedCodec.Length.integer(width: 1), .integer(width: 4, countingItself: true), .varint])
    func maximumFrameSizeAppliesToBothDirections(length: LengthPrefixedCodec.Length) throws {
        let codec = LengthPrefixedCodec(length, maximumFrameSize: 20)
        let largest = Bytes([UInt8](repeating: 1, count: length == .integer(width: 4, countingItself: true) ? 16 : 19))
        let bytes = try codec.encoded(Frame(.request, body: largest))
        #expect(bytes.count == 20)
        #expect(try codec.decoded(bytes).frames.map(\.body) == [largest])
        #expect(codec.refusal(of: Frame(.request, body: Bytes(largest + [1]))) == .illegalLength)
        let tooLong = try LengthPrefixedCodec(length).encoded(Frame(.request, body: Bytes(largest + [1])))
        #expect(codec.refusal(of: tooLong.dropLast(largest.count + 1)) == .illegalLength)
    }

    @Test func aLengthOutsideItsRangeIsRefused() {
        let large = Frame(.request, body: Bytes([UInt8](repeating: 1, count: 256)))
        #expect(LengthPrefixedCodec(UInt8.self).refusal(of: large) == .illegalLength)
        #expect(LengthPrefixedCodec(UInt8.self, countingItself: true).refusal(of: hex("00")) == .illegalLength)
        let vast = LengthPrefixedCodec(UInt64.self, maximumFrameSize: .max)
        #expect(vast.refusal(of: hex("ffffffffffffffff")) == .illegalLength)
        #expect(vast.refusal(of: hex("0000000100000000")) == nil)
        let varint = LengthPrefixedCodec(.varint, maximumFrameSize: .max)
        #expect(varint.refusal(of: hex("ffffffffffffffffff01")) == .illegalLength)
        #expect(varint.refusal(of: hex("ffffffffffffffffff7f")) == .malformed)
        #expect(varint.refusal(of: hex("ffffffff")) == nil)
        let tiny = LengthPrefixedCodec(UInt64.self, maximumFrameSize: 8)
        #expect(tiny.refusal(of: Frame(.request)) == nil)
        #expect(tiny.refusal(of: Frame(.request, body: "x")) == .illegalLength)
        #expect(tiny.refusal(of: hex("0000000000000001")) == .illegalLength)
    }

    // MARK: Splits and invalid bytes

    static let all: [LengthPrefixedCodec] = [
        LengthPrefixedCodec(UInt8.self), LengthPrefixedCodec(.varint),
        LengthPrefixedCodec(UInt32.self, order: .littleEndian, countingItself: true).serial(at: 0, UInt32.self),
        LengthPrefixedCodec(UInt16.self).serial(at: 1, UInt16.self).type(at: 0, UInt8.self).heartbeat(
            ping: "",
            pong: "p"
        ),
    ]

    @Test(arguments: all.indices)
    func framesAreTheSameWhereverTheBytesAreSplit(index: Int) throws {
        var codec = Self.all[index]
        let server = codec.serverSide()
        let bodies: [Bytes] = ["first", Bytes([UInt8](repeating: 200, count: 150)), "last one"]
        var bytes: [UInt8] = []
        for (index, body) in bodies.enumerated() {
            bytes += try server.encoded(Frame(.response, type: 3, serial: UInt64(index + 1), body: body))
        }
        let expected = try codec.decoded(bytes).frames
        #expect(expected.map(\.body.count) == bodies.map(\.count))
        for split in 0...bytes.count {
            var input = ReceiveBuffer()
            var frames: [Frame] = []
            input.receive(bytes.prefix(split))
            try codec.decodeAll(&input, into: &frames)
            // No byte of an incomplete frame is consumed.
            let complete = try frames.reduce(0) { try $0 + server.encoded($1.asResponse).count }
            #expect(input.count == split - complete)
            input.receive(bytes.dropFirst(split))
            try codec.decodeAll(&input, into: &frames)
            #expect(frames == expected && input.isEmpty)
        }
    }

    @Test(arguments: all.indices)
    func corruptedAndRandomBytesNeverTrap(index: Int) throws {
        var generator = SeededGenerator(seed: UInt64(index))
        let codec = Self.all[index]
        let bytes = try codec.serverSide().encoded(Frame(.response, type: 3, serial: 9, body: "a body"))
        for position in bytes.indices {
            for value in [0, 1, 0x7f, 0x80, 0xff] as [UInt8] {
                var corrupted = bytes
                corrupted[position] = value
                _ = codec.refusal(of: corrupted)
            }
        }
        for _ in 0..<2000 {
            let garbage = (0..<Int.random(in: 0..<60, using: &generator)).map { _ in
                UInt8.random(in: 0...255, using: &generator)
            }
            _ = codec.refusal(of: garbage)
            _ = codec.serverSide().refusal(of: garbage)
        }
    }

    // MARK: Kinds of frames

    @Test func theReadingRuleAndTheHeartbeatDetermineTheKindOfReceivedFrames() throws {
        let codec = LengthPrefixedCodec(UInt8.self)
            .serial(at: 0, UInt8.self)
            .heartbeat(ping: "", pong: "!")
            .reading { if $0.body.count == 3 { $0.isErrorResponse = true } }
        let bytes = hex("00 0121 020161 03016161 020061")
        let frames = try codec.decoded(bytes).frames
        #expect(frames.map(\.kind) == [.ping, .pong, .response, .response, .push])
        #expect(frames.map(\.isErrorResponse) == [false, false, false, true, false])
        #expect(frames.map(\.serial) == [0, 0, 1, 1, 0])
        #expect(try codec.encoded(try #require(codec.ping(number: 3))) == hex("00"))
        #expect(codec.refusal(of: Frame(.request, serial: 1, body: "")) == .unknownType)
        let server = codec.serverSide()
        #expect(server.refusal(of: Frame(.push, serial: 1, body: "ab")) == .unknownType)
        #expect(server.refusal(of: Frame(.push, serial: 0, body: "ab")) == nil)
        #expect(server.refusal(of: Frame(.response, serial: 0, body: "ab")) == .unknownType)
    }

    /// The serial of a body that was too short for it used to be read from the bytes of the next frame.
    @Test func aShortBodyOtherThanAHeartbeatIsRefused() {
        let codec = LengthPrefixedCodec(UInt8.self).serial(at: 0, UInt32.self).heartbeat(ping: "?", pong: "!")
        #expect(codec.refusal(of: hex("013f")) == nil)
        #expect(codec.refusal(of: hex("0122 0400000001")) == .illegalLength)
        #expect(codec.refusal(of: hex("00")) == .illegalLength)
    }
}

extension Frame {
    fileprivate var asResponse: Frame {
        var frame = self
        frame.kind = .response
        return frame
    }
}
