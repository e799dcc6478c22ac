import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// Serials that are drawn at random, and serials of more than 64 bits.
@Suite struct SerialNumberingTests {}

extension SerialNumberingTests {
    /// A sequence of random bits that the same seed repeats.
    private func bits(_ seed: UInt64) -> @Sendable () -> UInt64 {
        let generator = Lock(SeededGenerator(seed: seed))
        return { generator.withLock { $0.next() } }
    }

    private func table(_ range: ClosedRange<SerialNumber>, seed: UInt64 = 1) -> InFlightTable {
        InFlightTable(matching: .serial(range), draw: bits(seed))
    }

    private func insert(_ id: UInt64, into table: inout InFlightTable) -> SerialNumber? {
        table.insert(RequestID(id), type: 1, at: .first)
    }

    @Test func everySerialIsDrawnOnceAtATime() {
        for seed in seeds(20) {
            var random = SeededGenerator(seed: seed)
            let count = UInt64.random(in: 1...300, using: &random)
            var table = table(10...(9 + count), seed: seed)
            var held: Set<SerialNumber> = []
            for id in 1...2000 as ClosedRange<UInt64> {
                if let serial = insert(id, into: &table) {
                    #expect((10...(9 + count)).contains(serial) && held.insert(serial).inserted, "seed \(seed)")
                } else {
                    #expect(held.count == Int(count), "seed \(seed)")
                }
                if Bool.random(using: &random), let serial = held.sorted().randomElement(using: &random) {
                    held.remove(serial)
                    let answered = table.takeAnswered(serial, before: OutboundPosition.first.advanced(by: 1))
                    guard case .request = answered else { Issue.record("seed \(seed)"); return }
                }
            }
        }
    }

    /// Each request cost up to 1,024 draws and a search of all numbers, and the number after a row of held ones was taken
    /// more often than others.
    @Test func aNumberIsFoundQuicklyIfNearlyAllAreHeld() {
        for seed in seeds(3) {
            var table = table(1...65_535, seed: seed)
            var random = SeededGenerator(seed: seed)
            var (held, last) = ([SerialNumber](), UInt64(0))
            while held.count < 65_535 {
                last += 1
                guard let serial = insert(last, into: &table) else { Issue.record("seed \(seed)"); return }
                held.append(serial)
            }
            #expect(Set(held).count == 65_535 && table.isExhausted, "seed \(seed)")
            let before = table.visitedCount
            #expect(before < 4 * 65_535, "seed \(seed)")
            var reused = 0
            for _ in 0..<10_000 {
                // Three are free, and one of them is drawn.
                let free = (0..<3).map { _ in
                    held.swapAt(held.indices.randomElement(using: &random)!, held.count - 1)
                    return held.removeLast()
                }
                for serial in free { _ = table.takeAnswered(serial, before: OutboundPosition.first.advanced(by: 1)) }
                last += 1
                let drawn = insert(last, into: &table)
                if drawn == free[0] { reused += 1 }
                let isFree = drawn.map { free.contains($0) }
                #expect(isFree == true, "seed \(seed)")
                if let drawn { held.append(drawn) }
                for _ in 0..<2 {
                    last += 1
                    if let serial = insert(last, into: &table) { held.append(serial) }
                }
            }
            #expect(table.visitedCount == before, "seed \(seed)")
            #expect((3000...3700).contains(reused), "seed \(seed): \(reused)")
        }
    }

    /// The serials of DNS (RFC 5452 §9.2) spread over the whole range, and none is the one before plus one.
    @Test func drawnSerialsHaveNoOrder() throws {
        var table = table(1...65_535)
        let serials = (1...4096).compactMap { insert($0, into: &table) }
        #expect(serials.count == 4096)
        #expect(zip(serials, serials.dropFirst()).count { $1 == $0 + 1 } < 5)
        for quarter in 0..<4 as Range<UInt64> {
            let share = serials.count { $0 / 16_384 == quarter }
            #expect((850...1200).contains(share))
        }
    }

    /// A seed gives the same serials again, so that simulations can be repeated.
    @Test func aSeedRepeatsItsSerials() {
        var (first, second, other) = (
            table(1...SerialNumber.max), table(1...SerialNumber.max), table(1...9999, seed: 2)
        )
        let all = (1...20).map { (insert($0, into: &first), insert($0, into: &second), insert($0, into: &other)) }
        #expect(all.allSatisfy { $0.0 == $0.1 })
        #expect(all.contains { $0.0 != $0.2 })
    }

    /// Random serials have no order, so a cumulative acknowledgement names only one of them.
    @Test func aCumulativeAnswerAnswersOne() {
        var table = table(1...1000)
        let serials = (1...10).compactMap { insert($0, into: &table) }
        let unstarted = OutboundPosition.first.advanced(by: 1)
        let answered = table.takeAnswered(.through, serials[4], types: nil, before: unstarted)
        #expect(answered.requests.map(\.serial) == [serials[4]] && table.count == 9)
    }

    @Test(arguments: [65, 96, 128]) func theBitsBeyond64ArePredictableForTheLinkOnly(_ width: Int) {
        let first = SerialExtension(bits: width - 64, secret: 0x1234_5678_9abc_def0)
        let second = SerialExtension(bits: width - 64, secret: 0x1234_5678_9abc_def1)
        var different = 0
        for serial in 1...1000 as ClosedRange<UInt64> {
            let bits = first.bits(of: serial)
            #expect(bits == first.bits(of: serial))
            if width < 128 { #expect(bits < 1 << UInt64(width - 64)) }
            if bits != second.bits(of: serial) { different += 1 }
        }
        #expect(different > 400)
        #expect(SerialExtension().isEmpty && SerialExtension().bits(of: 7) == 0)
    }

    // MARK: Frames and layouts

    @Test func aFrameHasAWideSerial() {
        var frame = Frame(.request, serial: 7)
        #expect(frame.wideSerial == 7)
        frame.wideSerial = 0x0102_0304_0506_0708_090a_0b0c
        #expect(frame.serial == 0x0506_0708_090a_0b0c && frame.wideSerial >> 64 == 0x0102_0304)
        frame["name"] = 3
        #expect(frame.wideSerial >> 64 == 0x0102_0304 && frame.fieldNames == ["name"])
        frame.wideSerial = 9
        var other = Frame(.request, serial: 9)
        other["name"] = 3
        #expect(frame == other)
    }

    @Test(arguments: [9, 12, 16], [ByteOrder.bigEndian, .littleEndian])
    func aLayoutHasASerialOfSixteenBytes(_ width: Int, _ order: ByteOrder) throws {
        let layout = try FrameLayout(validating: [
            .length(UInt8.self, counting: .body), .serial(width: width, order: order), .body,
        ])
        #expect(layout.serialBits == 8 * width && layout.matching == .serial(1...SerialNumber.max))
        let bytes = (1...width).map { UInt8($0) }
        var frame = Frame(.request, body: "x")
        let ordered = order == .bigEndian ? bytes : bytes.reversed()
        frame.wideSerial = ordered.reduce(0) { $0 << 8 | UInt128($1) }
        let encoded = try layout.encoded(frame)
        #expect(encoded == [1] + bytes + [0x78])
        #expect(try layout.decoded(encoded).frames.map(\.wideSerial) == [frame.wideSerial])
        // A number that does not fit.
        guard width < 16 else { return }
        frame.wideSerial = 1 << UInt128(8 * width)
        #expect(throws: FrameError.self) { try layout.encoded(frame) }
    }

    @Test func wideSerialsAreValidated() {
        func error(_ fields: [Field], _ response: [Field]? = nil) -> String? {
            do throws(LayoutError) {
                _ = try FrameLayout(validating: fields, response: response)
                return nil
            } catch {
                return "\(error)"
            }
        }
        let length = Field.length(UInt8.self, counting: .body)
        #expect(error([length, .serial(width: 17), .body])?.contains("1 to 16 bytes") == true)
        #expect(error([length, .serial(width: 12), .serial(width: 12), .body])?.contains("repeated") == true)
        #expect(error([length, .serial(width: 12), .serial(width: 8), .body])?.contains("repeated") == true)
        let narrow: [Field] = [length, .serial(width: 9), .body]
        #expect(error([length, .serial(width: 12), .body], narrow)?.contains("same width") == true)
        #expect(error([length, .serial(UInt128.self), .body]) == nil)
    }
}
