import Testing
import Trunkline

/// What can be seen when a codec is made stops the program there, and the message names the caller's line, not ours. Such
/// codecs were made, and then refused every frame, or sent no ping.
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

    @Test func anEmptyDelimiter() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = DelimitedCodec(delimiter: "")
        }
        expect("the delimiter is empty", from: result)
    }

    @Test func noRoomForTheDelimiter() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let codec: DelimitedCodec = DelimitedCodec(delimiter: "\r\n", maximumFrameSize: 1)
            _ = codec
        }
        expect("maximumFrameSize 1 leaves no room", from: result)
    }

    @Test func aHeartbeatWithTheDelimiterInIt() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = DelimitedCodec(delimiter: "\n").heartbeat(ping: "PING\n", pong: "PONG")
        }
        expect("the delimiter stands within the body", from: result)
    }

    @Test func noRoomForTheLength() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = LengthPrefixedCodec(UInt16.self, maximumFrameSize: 1)
        }
        expect("maximumFrameSize 1 is less than the 2 bytes of a length", from: result)
    }

    @Test func aSerialBeyondWhatTheLengthCanSay() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = LengthPrefixedCodec(UInt8.self).serial(at: 252, UInt32.self)
        }
        expect("no body has 4 bytes at offset 252, the longest has 255", from: result)
    }

    @Test func aTypeBeyondTheLimit() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = LengthPrefixedCodec(.varint, maximumFrameSize: 100).type(at: 98, UInt16.self)
        }
        expect("no body has 2 bytes at offset 98, the longest has 99", from: result)
    }

    @Test func aTypeOfEightBytes() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = LengthPrefixedCodec(.varint).type(at: 0, UInt64.self)
        }
        expect("a type has at most 4 bytes, not 8", from: result)
    }

    @Test func aLengthOfNineBytes() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = LengthPrefixedCodec(.integer(width: 9))
        }
        expect("a length has 1 to 8 bytes, not 9", from: result)
    }

    @Test func placesAtTheEndOfTheLongestBodyAreTaken() {
        _ = LengthPrefixedCodec(UInt8.self).serial(at: 251, UInt32.self)
        _ = LengthPrefixedCodec(UInt64.self, countingItself: true, maximumFrameSize: .max).serial(
            at: 1 << 40,
            UInt64.self
        )
        _ = LengthPrefixedCodec(UInt16.self, maximumFrameSize: 2)
    }
}
