import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

struct VarintLengthTests {
    /// Every other field moves with the length: numbers, constants, a repetition, a checksum, the trailer.
    static let layout = FrameLayout {
        Field.constant([0xA0])
        Field.type(UInt8.self)
        Field.varintLength(counting: .body)
        Field.serial(UInt16.self)
        Field.constant([0xB0])
        Field.type(UInt8.self)
        Field.bytes("token", 2)
        Field.body
        Field.checksum(.crc32, over: .headerAndBody)
        Field.constant([0xC0])
    }

    static func body(_ size: Int) -> Bytes { Bytes((0..<size).map { UInt8(truncatingIfNeeded: $0) }) }

    static func plain(_ count: LengthCount, order: ByteOrder = .littleEndian) -> FrameLayout {
        FrameLayout {
            Field.varintLength(counting: count, order: order)
            Field.body
        }
    }

    @Test func fieldsBehindTheLengthMoveWithIt() throws {
        // `ChecksumTests` compares CRC-32 with published values. There are none for these bytes, so it is computed
        // here.
        for (size, length) in [(0, "00"), (5, "05"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001")] {
            var frame = Frame(.response, type: 7, serial: 0x0102, body: Self.body(size))
            frame[bytes: "token"] = [3, 4]
            let head = hex("a0 07" + length + "0102 b0 07 0304") + Array(frame.body)
            let sum = try #require(Checksum.crc32.value(of: Bytes(head)))
            let bytes = head + (0..<4).map { UInt8(truncatingIfNeeded: sum >> (24 - 8 * $0)) } + [0xC0]
            #expect(try Self.layout.encoded(frame) == bytes)
            let (frames, left) = try Self.layout.decoded(bytes + bytes)
            #expect(frames == [frame, frame] && left == 0)
            #expect(Self.layout.refusal(of: replacing(2 + length.count / 2 + 2, in: bytes)) == .unexpectedBytes)
            #expect(Self.layout.refusal(of: replacing(2 + length.count / 2 + 3, in: bytes)) == .repetitionMismatch)
            #expect(Self.layout.refusal(of: replacing(bytes.count - 1, in: bytes)) == .unexpectedBytes)
            #expect(Self.layout.refusal(of: replacing(bytes.count - 2, in: bytes)) == .checksumMismatch)
        }
    }

    // MQTT 3.1.1, table 2.4, and protobuf's documentation (150 is 96 01).
    @Test(arguments: [(0, "00"), (127, "7f"), (128, "8001"), (150, "9601"), (16383, "ff7f"), (16384, "808001")])
    func lengthsHaveTheirPublishedBytes(size: Int, digits: String) throws {
        let layout = Self.plain(.body)
        let bytes = hex(digits) + Array(Self.body(size))
        #expect(try layout.encoded(Frame(.request, body: Self.body(size))) == bytes)
        #expect(try layout.decoded(bytes).frames.map(\.body) == [Self.body(size)])
    }

    // The Standard MIDI File specification's examples of variable-length quantities.
    @Test(arguments: [
        (0x40, "40"), (0x7f, "7f"), (0x80, "8100"), (0x2000, "c000"), (0x3fff, "ff7f"), (0x4000, "818000"),
    ])
    func theHighBitsOfALengthCanComeFirst(size: Int, digits: String) throws {
        let layout = Self.plain(.body, order: .bigEndian)
        let bytes = hex(digits) + Array(Self.body(size))
        #expect(try layout.encoded(Frame(.request, body: Self.body(size))) == bytes)
        #expect(try layout.decoded(bytes).frames.map(\.body) == [Self.body(size)])
    }

    /// A length that counts itself grows by its own second byte.
    @Test(arguments: [(0, "01"), (126, "7f"), (127, "8101"), (128, "8201"), (16381, "ff7f"), (16382, "818001")])
    func aLengthCanCountItself(size: Int, digits: String) throws {
        let layout = Self.plain(.wholeFrame)
        let bytes = hex(digits) + Array(Self.body(size))
        #expect(try layout.encoded(Frame(.request, body: Self.body(size))) == bytes)
        #expect(try layout.decoded(bytes).frames.map(\.body) == [Self.body(size)])
    }

    /// The length of the largest body grew by its own second byte, exceeded the limit on bodies by one, and was
    /// refused.
    @Test(arguments: [126, 127, 128, 200, 16381, 16382, 20000])
    func aLengthThatCountsItselfAllowsTheLargestBody(most: Int) throws {
        for order in [ByteOrder.littleEndian, .bigEndian] {
            let layout = FrameLayout {
                Field.varintLength(counting: .wholeFrame, order: order)
                Field.body(sizes: 0...most)
            }
            let frame = Frame(.response, body: Self.body(most))
            #expect(try layout.decoded(try layout.encoded(frame)).frames == [frame])
            let above = Frame(.response, body: Self.body(most + 1))
            #expect(layout.refusal(of: above) == .illegalLength)
            let bytes = try Self.plain(.wholeFrame, order: order).encoded(above)
            #expect(layout.refusal(of: bytes.prefix(varintWidth(UInt64(bytes.count)))) == .illegalLength)
        }
    }

    @Test func redundantZerosAreAcceptedUpToTenBytes() throws {
        #expect(try Self.plain(.body).decoded(hex("818000 61")).frames.map(\.body) == ["a"])
        #expect(try Self.plain(.body, order: .bigEndian).decoded(hex("808001 61")).frames.map(\.body) == ["a"])
        #expect(try Self.plain(.body).decoded(hex("81808080808080808000 61")).frames.map(\.body) == ["a"])
        for order in [ByteOrder.littleEndian, .bigEndian] {
            #expect(Self.plain(.body, order: order).refusal(of: hex("8080808080808080808000")) == .illegalLength)
            #expect(Self.plain(.body, order: order).refusal(of: hex("ffffffffff")) == .illegalLength)
        }
        #expect(Self.plain(.body).refusal(of: hex("8080808080808080807f")) == .illegalLength)
    }

    @Test func limitsApplyToTheWholeFrame() throws {
        for count in [LengthCount.body, .wholeFrame, .rest] {
            var layout = Self.plain(count)
            layout.maximumFrameSize = 130
            let most = try layout.encoded(Frame(.request, body: Self.body(128)))
            #expect(most.count == 130)
            #expect(try layout.decoded(most).frames.count == 1)
            #expect(layout.refusal(of: Frame(.request, body: Self.body(129))) == .illegalLength)
            let above = try Self.plain(count).encoded(Frame(.request, body: Self.body(129)))
            #expect(layout.refusal(of: above.prefix(2)) == .illegalLength)
        }
        #expect(Self.plain(.wholeFrame).refusal(of: hex("00")) == .illegalLength)
    }

    @Test func anAbsurdLengthForTestServersIsRefused() throws {
        #expect(Self.layout.refusal(of: try Self.layout.headerWithAbsurdLength(of: Frame(.response))) == .illegalLength)
    }
}
