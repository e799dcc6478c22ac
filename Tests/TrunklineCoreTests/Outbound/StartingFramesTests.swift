import Testing

@testable import TrunklineCore

/// Which frames a codec hears of that wants to know what went out: each once, at its first byte, in order.
@Suite struct StartingFramesTests {
    private struct BodyCodec: FrameCodec {
        var matching: ResponseMatching { .inOrder }
        func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { nil }
        func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            if frame.body.first == UInt8(ascii: "!") { throw FrameError(.malformed, "begins with !") }
            output.append(frame.body)
        }
    }

    private var codec: any FrameCodec = BodyCodec()

    private func queue(_ bodies: [Bytes], ticket: Ticket = 1) -> OutboundQueue {
        var queue = OutboundQueue()
        for body in bodies { queue.append(OutboundQueue.Item(Frame(.request, body: body), ticket: ticket)) }
        return queue
    }

    /// Encodes, lets the socket take up to `limit` bytes and returns the bodies of the frames that started.
    private func write(_ queue: inout OutboundQueue, upTo limit: Int) -> [String] {
        var (codec, started, reported) = (codec, [String](), [Ticket]())
        _ = queue.encode(using: &codec)
        let count = min(limit, queue.unwrittenCount)
        queue.forEachStarting(within: count) { started.append(String($0.body)) }
        queue.didWrite(count, reporting: &reported)
        return started
    }

    @Test func everyFrameStartsOnceHoweverItsBytesGoOut() {
        let bodies: [Bytes] = ["one", "two", "!", "three", "f"]
        for size in 1...13 {
            var (queue, started) = (queue(bodies), [String]())
            while !queue.isEmpty { started += write(&queue, upTo: size) }
            #expect(started == ["one", "two", "three", "f"], "\(size) bytes at a time")
        }
    }

    @Test func aFrameStartsWithItsFirstByteAndNotBefore() {
        var queue = queue(["one", "two"])
        #expect(write(&queue, upTo: 3) == ["one"])
        #expect(write(&queue, upTo: 0) == [])
        #expect(write(&queue, upTo: 1) == ["two"])
        #expect(write(&queue, upTo: 1) == [])
    }

    @Test func aFrameThatIsRemovedBeforeItStartsNeverDoes() {
        var queue = queue(["one", "two", "three"])
        #expect(write(&queue, upTo: 1) == ["one"])
        // It is encoded: its bytes are taken back, and those of the third with them.
        #expect(queue.remove(2) != nil)
        #expect(write(&queue, upTo: 2) == [])
        #expect(write(&queue, upTo: 9) == ["three"])
        #expect(queue.isEmpty)
    }

    @Test func whatHadNotStartedOnALostLinkStartsOnTheNext() {
        var queue = queue(["one", "two", "three"])
        #expect(write(&queue, upTo: 4) == ["one", "two"])
        queue.linkLost()
        #expect(write(&queue, upTo: 99) == ["three"])
    }

    @Test func whatIsLeftToOthersHalfWrittenDoesNotStartAgain() {
        var queue = queue(["one", "two", "three"])
        queue.append(OutboundQueue.Item(Frame(.cancel, body: "cancel"), ticket: 0))
        #expect(write(&queue, upTo: 4) == ["one", "two"])
        var rest = queue.splitOff()
        #expect(write(&rest, upTo: 1) == [])
        #expect(write(&rest, upTo: 9) == [])
        #expect(write(&rest, upTo: 9) == ["cancel"])
        #expect(write(&queue, upTo: 9) == ["three"])
        #expect(rest.isEmpty && queue.isEmpty)
    }
}
