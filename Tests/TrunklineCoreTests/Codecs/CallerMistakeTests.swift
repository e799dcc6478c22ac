import Testing
import Trunkline

@testable import TrunklineLayouts

/// An invalid codec configuration stops the program when the codec is created, and the message names the caller's line,
/// not a line of the library. Such codecs used to be created, and then refused every frame or sent no ping.
struct CallerMistakeTests {
    private func expect(
        _ words: String,
        from result: ExitTest.Result?,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let output = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(output.contains("CallerMistakeTests.swift:"), "\(output)", sourceLocation: sourceLocation)
        #expect(output.contains(words), "\(output)", sourceLocation: sourceLocation)
    }

    @Test func aDelimiterMustNotBeEmpty() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = DelimitedCodec(delimiter: "")
        }
        expect("the delimiter is empty", from: result)
    }

    @Test func aHeartbeatMustNotContainTheDelimiter() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = DelimitedCodec(delimiter: "\n").heartbeat(ping: "PING\n", pong: "PONG")
        }
        expect("the body contains the delimiter", from: result)
    }

    /// A limit, which may come from a configuration, does not stop the program.
    @Test func aLimitIsAtLeastTheSizeOfTheSmallestFrame() {
        for limit in [Int.min, -1, 0, 1] {
            let delimited: DelimitedCodec = DelimitedCodec(delimiter: "\r\n", parts: 2, maximumFrameSize: limit)
            #expect(delimited.maximumFrameSize == 4)
            #expect(LengthPrefixedCodec(UInt16.self, maximumFrameSize: limit).maximumFrameSize == 2)
            let counted = CountedPayloadCodec(maximumHeadSize: limit, maximumFrameSize: limit) { _ in .absent }
            #expect(counted.maximumHeadSize == 2 && counted.maximumFrameSize == 2)
        }
    }

    @Test func aSerialMustFitInTheLongestBody() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = LengthPrefixedCodec(UInt8.self).serial(at: 252, UInt32.self)
        }
        expect("4 bytes at offset 252 exceed the longest body (255 bytes)", from: result)
    }

    @Test func aTypeMustFitWithinMaximumFrameSize() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = LengthPrefixedCodec(.varint, maximumFrameSize: 100).type(at: 98, UInt16.self)
        }
        expect("2 bytes at offset 98 exceed the longest body (99 bytes)", from: result)
    }

    @Test func aTypeHasAtMostFourBytes() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = LengthPrefixedCodec(.varint).type(at: 0, UInt64.self)
        }
        expect("a type has at most 4 bytes, not 8", from: result)
    }

    @Test func aLengthHasAtMostEightBytes() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = LengthPrefixedCodec(.integer(width: 9))
        }
        expect("a length has 1 to 8 bytes, not 9", from: result)
    }

    @Test func valuesThatJustFitAreAccepted() {
        _ = LengthPrefixedCodec(UInt8.self).serial(at: 251, UInt32.self)
        _ = LengthPrefixedCodec(UInt64.self, countingItself: true, maximumFrameSize: .max).serial(
            at: 1 << 40,
            UInt64.self
        )
        _ = LengthPrefixedCodec(UInt16.self, maximumFrameSize: 2)
    }
}
