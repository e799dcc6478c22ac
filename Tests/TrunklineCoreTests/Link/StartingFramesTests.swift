import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Which frames are reported to a codec that tracks sent frames: each one once, at its first byte, in order.
@Suite struct StartingFramesTests {
    private var codec: any FrameCodec = BodyCodec()

    private func queue(_ bodies: [Bytes], id: RequestID = 1) -> OutboundQueue {
        var queue = OutboundQueue()
        for body in bodies { queue.append(OutboundQueue.Item(Frame(.request, body: body), id: id)) }
        return queue
    }

    /// Encodes, lets the socket take up to `limit` bytes and returns the bodies of the frames that started.
    private func write(_ queue: inout OutboundQueue, upTo limit: Int) -> [String] {
        var (codec, started, reported) = (codec, [String](), [RequestID]())
        _ = queue.encode(using: &codec)
        let count = min(limit, queue.unwrittenCount)
        queue.forEachStarting(within: count) { started.append(String($0.body)) }
        queue.didWrite(count, reporting: &reported)
        return started
    }

    @Test func everyFrameStartsOnceHoweverItsBytesAreWritten() {
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

    @Test func aFrameRemovedBeforeItStartsNeverStarts() {
        var queue = queue(["one", "two", "three"])
        #expect(write(&queue, upTo: 1) == ["one"])
        // It is encoded already: its bytes are removed, and those of the third frame with them.
        #expect(queue.remove(2) != nil)
        #expect(write(&queue, upTo: 2) == [])
        #expect(write(&queue, upTo: 9) == ["three"])
        #expect(queue.isEmpty)
    }

    @Test func unstartedFramesOfALostLinkStartOnTheNext() {
        var queue = queue(["one", "two", "three"])
        #expect(write(&queue, upTo: 4) == ["one", "two"])
        var next = OutboundQueue()
        for item in queue.takeUnstarted() { next.append(item) }
        queue.removeAll()
        #expect(write(&queue, upTo: 99) == [])
        #expect(write(&next, upTo: 99) == ["three"])
    }

    @Test func aPartlyWrittenFrameDoesNotStartAgain() {
        var queue = queue(["one", "two", "three"])
        queue.append(OutboundQueue.Item(Frame(.cancel, body: "cancel"), id: nil))
        #expect(write(&queue, upTo: 4) == ["one", "two"])
        #expect(queue.takeUnstarted().map(\.id) == [1])
        #expect(write(&queue, upTo: 1) == [])
        #expect(write(&queue, upTo: 9) == [])
        #expect(write(&queue, upTo: 9) == ["cancel"])
        #expect(queue.isEmpty)
    }
}
