import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// The most common header has a fast path, whose results must equal those of the slow path.
@Suite struct PlainHeaderTests {}

extension PlainHeaderTests {
    /// Layouts with a limit low enough for random bytes to exceed it.
    private static let layouts: [any FrameCodec] = {
        var standard = FrameLayout.standard
        standard.maximumFrameSize = 300
        let wholeFrame = FrameLayout {
            Field.type(UInt32.self)
            Field.serial(UInt32.self)
            Field.length(UInt32.self, counting: .wholeFrame)
            Field.body
        }
        .roles {
            $0.ping = 1
            $0.cancel = 2
            $0.serials = 7...
        }
        return [standard, standard.serverSide(), wholeFrame, wholeFrame.serverSide()]
    }()

    /// Most lengths are small, so that whole frames occur; some are not.
    private static func input(_ random: inout some RandomNumberGenerator) -> [UInt8] {
        var bytes: [UInt8] = []
        for _ in 0..<Int.random(in: 0...4, using: &random) {
            let length = Int.random(in: 0...9, using: &random) == 0 ? UInt32.random(in: 0...400, using: &random) : 20
            for number in [UInt32.random(in: 0...0x402, using: &random), .random(in: 0...9, using: &random), length] {
                bytes += (0..<4).reversed().map { UInt8(truncatingIfNeeded: number >> (8 * UInt32($0))) }
            }
            bytes += (0..<Int.random(in: 6...22, using: &random)).map(UInt8.init)
        }
        return bytes
    }

    @Test("decoding all at once and one by one gives the same frames and leaves the same bytes", arguments: 0..<4)
    func decodingAllAtOnceAgreesWithDecodingOneByOne(layout: Int) {
        var random = SeededGenerator(seed: UInt64(layout))
        for _ in 0..<2000 {
            let bytes = Self.input(&random)
            var codec = Self.layouts[layout]
            var input = ReceiveBuffer(bytes)
            var frames: [Frame] = []
            let failure = failure { () throws(FrameError) in try codec.decodeAll(&input, into: &frames) }

            var rest = ReceiveBuffer(bytes)
            var single: [Frame] = []
            let expected = self.failure { () throws(FrameError) in
                while let frame = try codec.decode(&rest) {
                    rest.stopAwaiting()
                    single.append(frame)
                }
            }
            #expect(frames == single, "\(bytes)")
            #expect(failure?.code == expected?.code, "\(bytes)")
            if failure == nil {
                #expect(input.count == rest.count, "\(bytes)")
                #expect(input.awaitedCount == rest.awaitedCount, "\(bytes)")
            }
        }
    }

    private func failure(_ work: () throws(FrameError) -> Void) -> FrameError? {
        do throws(FrameError) {
            try work()
            return nil
        } catch {
            return error
        }
    }
}
