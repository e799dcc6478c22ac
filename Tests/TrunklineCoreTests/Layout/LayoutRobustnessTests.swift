import SampleLayouts
import Testing
import Trunkline

struct LayoutRobustnessTests {
    static let all: [FrameLayout] = [
        .standard, Layouts.acme, Layouts.checked, Layouts.memcached, Layouts.odd, Layouts.varint, Protocols.smpp,
        Protocols.diameter,
    ]

    /// Four frames of `layout` as its client receives them, and their bytes.
    static func conversation(of layout: FrameLayout) throws -> (frames: [Frame], bytes: [UInt8]) {
        let sent = [
            Frame(.response, type: 0x42, serial: 50, body: "one"), Frame(.response, type: 0x43, serial: 51),
            Frame(.response, type: 1, serial: 0, body: Bytes([UInt8](repeating: 0xCA, count: 40))),
            Frame(.response, type: 0x44, serial: 0x0102_0304, status: 9, body: [0]),
        ]
        let server = layout.serverSide()
        let bytes = try sent.flatMap { try server.encoded($0) }
        let frames = try layout.decoded(bytes).frames
        #expect(frames.map(\.serial) == sent.map(\.serial))
        #expect(frames.map(\.type) == sent.map(\.type))
        #expect(frames.map(\.body) == sent.map(\.body))
        return (frames, bytes)
    }

    @Test(arguments: all.indices)
    func framesAreTheSameWhereverTheBytesAreSplit(index: Int) throws {
        var layout = Self.all[index]
        let (expected, bytes) = try Self.conversation(of: layout)
        for split in 0...bytes.count {
            var input = ReceiveBuffer()
            var frames: [Frame] = []
            input.receive(bytes.prefix(split))
            try layout.decodeAll(&input, into: &frames)
            input.receive(bytes.dropFirst(split))
            try layout.decodeAll(&input, into: &frames)
            #expect(frames == expected && input.isEmpty)
        }
    }

    @Test(arguments: all.indices)
    func framesAreTheSameIfTheirBytesArriveOneByOne(index: Int) throws {
        var layout = Self.all[index]
        let (expected, bytes) = try Self.conversation(of: layout)
        var input = ReceiveBuffer()
        var frames: [Frame] = []
        for byte in bytes {
            input.receive([byte])
            try layout.decodeAll(&input, into: &frames)
        }
        #expect(frames == expected && input.isEmpty)
    }

    @Test(arguments: all.indices)
    func truncatedFrameIsNotConsumed(index: Int) throws {
        let layout = Self.all[index]
        let bytes = try layout.serverSide().encoded(Frame(.response, type: 0x42, serial: 50, body: "truncated"))
        for count in 0..<bytes.count {
            var input = ReceiveBuffer(bytes.prefix(count))
            #expect(try layout.decode(&input) == nil)
            #expect(input.count == count)
        }
    }

    @Test(arguments: all.indices)
    func corruptedByteNeverTraps(index: Int) throws {
        let layout = Self.all[index]
        let bytes = try Self.conversation(of: layout).bytes
        for position in bytes.indices {
            for value in [0, 1, 0x7f, 0x80, 0xfe, 0xff] as [UInt8] {
                var corrupted = bytes
                corrupted[position] = value
                _ = layout.refusal(of: corrupted)
            }
        }
    }

    @Test(arguments: all.indices)
    func randomBytesNeverTrap(index: Int) throws {
        var generator = SeededGenerator(seed: UInt64(index))
        let layout = Self.all[index]
        let bytes = try Self.conversation(of: layout).bytes
        for _ in 0..<2000 {
            // Half of the bytes begin like a frame, to get past the first checks.
            var garbage = Array(bytes.prefix(Int.random(in: 0..<40, using: &generator)))
            garbage += (0..<Int.random(in: 0..<60, using: &generator)).map { _ in
                UInt8.random(in: 0...255, using: &generator)
            }
            _ = layout.refusal(of: garbage)
            _ = layout.serverSide().refusal(of: garbage)
        }
    }

    @Test(arguments: [1, 2, 3, 4, 5, 6, 7, 8], [LengthCount.body, .rest, .wholeFrame, .body.plus(4), .rest.plus(-3)])
    func lengthOfAnyValueNeverTraps(width: Int, count: LengthCount) {
        var layout = FrameLayout {
            Field.length(width: width, counting: count)
            Field.serial(UInt16.self)
            Field.body
            Field.reserved(1)
        }
        for limit in [16, 16 << 20, Int.max] {
            layout.maximumFrameSize = limit
            for first in [0, 1, 2, 3, 5, 0x7f, 0x80, 0xff] as [UInt8] {
                for rest in [0, 1, 0x7f, 0xff] as [UInt8] {
                    let value = [first] + [UInt8](repeating: rest, count: width - 1)
                    _ = layout.refusal(of: value)
                    _ = layout.refusal(of: value + hex("0005 616263"))
                }
            }
        }
    }

    @Test func eightByteLengthBeyondAnyMemoryIsRefused() {
        var layout = FrameLayout {
            Field.length(UInt64.self, counting: .body)
            Field.body
        }
        layout.maximumFrameSize = .max
        #expect(layout.refusal(of: hex("ffffffffffffffff")) == .illegalLength)
        #expect(layout.refusal(of: hex("7fffffffffffffff")) == .illegalLength)
        #expect(layout.refusal(of: hex("8000000000000000")) == .illegalLength)
        #expect(layout.refusal(of: hex("0000000100000000")) == nil)
    }

    @Test func lengthLessThanTheBytesItMustCountIsRefused() {
        let layout = FrameLayout {
            Field.length(UInt16.self, counting: .wholeFrame)
            Field.serial(UInt16.self)
            Field.body
        }
        #expect(layout.refusal(of: hex("0003")) == .illegalLength)
        #expect(layout.refusal(of: hex("0003 0001")) == .illegalLength)
        #expect(layout.refusal(of: hex("0004 0001")) == nil)
    }

    @Test func frameAboveTheLimitIsRefusedBothWays() throws {
        var layout = FrameLayout.standard
        layout.maximumFrameSize = 20
        #expect(try layout.encoded(Frame(.request, body: "12345678")).count == 20)
        #expect(layout.refusal(of: Frame(.request, body: "123456789")) == .illegalLength)
        #expect(layout.refusal(of: hex("00000402 00000032 00000008")) == nil)
        #expect(layout.refusal(of: hex("00000402 00000032 00000009")) == .illegalLength)
        #expect(layout.serverSide().refusal(of: hex("00000402 00000032 00000009")) == .illegalLength)
        #expect(FrameLayout.standard.refusal(of: hex("00000402 00000032 00fffff4")) == nil)
        #expect(FrameLayout.standard.refusal(of: hex("00000402 00000032 00fffff5")) == .illegalLength)
    }

    @Test func lengthIsCheckedBeforeTheRestOfTheHeaderArrives() {
        #expect(Layouts.memcached.refusal(of: hex("81 00 0000 04 00 0000 ffffffff")) == .illegalLength)
    }

    @Test func bodyTooLongForItsLengthFieldIsRefused() throws {
        let layout = FrameLayout {
            Field.length(UInt8.self, counting: .wholeFrame)
            Field.body
        }
        #expect(try layout.encoded(Frame(.request, body: Bytes([UInt8](repeating: 1, count: 254)))).first == 255)
        #expect(layout.refusal(of: Frame(.request, body: Bytes([UInt8](repeating: 1, count: 255)))) == .illegalLength)
    }

    @Test func bodyShorterThanTheBytesTheLengthOmitsIsRefused() throws {
        let layout = FrameLayout {
            Field.length(UInt8.self, counting: .body.plus(-2))
            Field.body
        }
        #expect(layout.refusal(of: Frame(.request, body: "a")) == .illegalLength)
        #expect(try layout.encoded(Frame(.request, body: "ab")) == hex("00 6162"))
        #expect(try layout.decoded(hex("00 6162")).frames.map(\.body) == ["ab"])
    }
}

struct LayoutReceptionTests {
    @Test func largeFrameIsReadIntoStorageOfItsSizeAndTheNextFrameIsNot() throws {
        var layout = FrameLayout.standard
        var input = ReceiveBuffer()
        var frames: [Frame] = []
        let body = Bytes([UInt8](repeating: 7, count: 1 << 20))
        let bytes = try layout.encoded(Frame(.push, type: 2, body: body))
        input.receive(bytes.prefix(100_000))
        try layout.decodeAll(&input, into: &frames)
        #expect(offered(by: &input) >= bytes.count - 100_000)
        input.receive(bytes.dropFirst(100_000) + bytes.prefix(4))
        try layout.decodeAll(&input, into: &frames)
        #expect(frames == [Frame(.push, type: 2, body: body)] && input.count == 4)
        // The frame was decoded, so the buffer no longer reserves memory for it.
        #expect(offered(by: &input) < 1 << 20)
    }

    /// A peer that announced 16 MiB and sent 100 bytes at a time made each read copy all bytes received before.
    @Test func frameThatArrivesInSmallPiecesIsNotCopiedWithEveryRead() throws {
        var layout = FrameLayout.standard
        var input = ReceiveBuffer()
        var frames: [Frame] = []
        input.receive(hex("00000002 00000000 00fffff4"))
        var moves = 0
        var end = 0
        for _ in 0..<1000 {
            try layout.decodeAll(&input, into: &frames)
            unsafe input.fill { memory in
                let here = Int(bitPattern: memory.baseAddress)
                if here != end { moves += 1 }
                unsafe memory.copyBytes(from: repeatElement(7, count: 100))
                end = here + 100
                return 100
            }
        }
        #expect(input.count == 100_012 && moves < 10)
    }

    private func offered(by input: inout ReceiveBuffer) -> Int {
        var offered = 0
        unsafe input.fill {
            offered = $0.count
            return 0
        }
        return offered
    }
}
