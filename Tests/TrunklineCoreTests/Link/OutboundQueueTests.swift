import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

@Suite struct OutboundQueueTests {
    private var codec: any FrameCodec = BodyCodec()

    private func item(_ body: Bytes, _ id: RequestID? = nil, reports: Bool = false) -> OutboundQueue.Item {
        OutboundQueue.Item(Frame(.request, body: body), id: id, reportsWritten: reports)
    }

    @Test func headsCountLikeBodies() {
        var frame = Frame(.request, head: Bytes(repeating: 1, count: 1000), body: "12345")
        frame["unit"] = 7
        #expect(frame.queueCost == 1000 + 5 + 32)
        #expect(Frame(.request, body: "12345").queueCost == 5 + 32)
    }

    @Test func framesAreWrittenInOrder() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [RequestID]())
        for body in ["one", "two", "three"] as [Bytes] { queue.append(item(body)) }
        #expect(queue.encode(using: &codec).isEmpty)
        #expect(String(decoding: queue.write(upTo: 100, &reported), as: UTF8.self) == "onetwothree")
        #expect(queue.isEmpty)
        #expect(queue.byteCount == 0)
    }

    @Test func anEncodedFrameThatHasNotStartedCanBeRemoved() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [RequestID]())
        let one = queue.append(item("one", 1))
        let two = queue.append(item("two", 2))
        let three = queue.append(item("three", 3))
        _ = queue.encode(using: &codec)
        #expect(queue.write(upTo: 1, &reported).count == 1)
        #expect(queue.hasStarted(one))
        #expect(!queue.hasStarted(two))
        #expect(queue.remove(one) == nil)
        #expect(queue.remove(two)?.id == 2)
        #expect(queue.remove(two) == nil)
        #expect(!queue.hasStarted(three))
        var rest = queue.write(upTo: 100, &reported)
        _ = queue.encode(using: &codec)
        rest += queue.write(upTo: 100, &reported)
        #expect(String(decoding: rest, as: UTF8.self) == "nethree")
        #expect(queue.isEmpty)
    }

    /// Parts of a request that has started are written on its link, or not at all.
    @Test func framesThatBelongToTheirLinkStayWithIt() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [RequestID]())
        queue.append(item("one", 1))
        queue.append(OutboundQueue.Item(Frame(.part, body: "two"), id: 2, belongsToLink: true))
        queue.append(item("three", 3))
        let four = queue.append(OutboundQueue.Item(Frame(.part, body: "four"), id: 4, belongsToLink: true))
        queue.append(item("cancel"))
        _ = queue.encode(using: &codec)
        var bytes = queue.write(upTo: 1, &reported)
        #expect(queue.unstartedIDs == [2, 3, 4])
        #expect(queue.takeUnstarted().map(\.id) == [3])
        #expect(queue.takeUnstarted().isEmpty)
        #expect(queue.unstartedIDs == [2, 4])
        #expect(queue.remove(four)?.id == 4 && queue.remove(four) == nil)
        while !queue.isEmpty {
            _ = queue.encode(using: &codec)
            bytes += queue.write(upTo: 100, &reported)
        }
        #expect(String(decoding: bytes, as: UTF8.self) == "onetwocancel")
        #expect(queue.byteCount == 0 && queue.linkFrameCount == 0)
    }

    @Test func onlyTheFrameThatCannotBeEncodedIsRemoved() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [RequestID]())
        queue.append(item("one", 1))
        queue.append(item("!two", 2))
        queue.append(item("", 3))
        queue.append(item("four", 4))
        #expect(queue.encode(using: &codec).map(\.item.id) == [2, 3])
        #expect(String(decoding: queue.write(upTo: 100, &reported), as: UTF8.self) == "onefour")
        #expect(queue.isEmpty)
    }

    @Test func aFrameIsReportedWithItsLastByte() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [RequestID]())
        queue.append(item("one", 1, reports: true))
        queue.append(item("two", 2))
        queue.append(item("three", 3, reports: true))
        _ = queue.encode(using: &codec)
        _ = queue.write(upTo: 2, &reported)
        #expect(reported.isEmpty)
        _ = queue.write(upTo: 1, &reported)
        #expect(reported == [1])
        _ = queue.write(upTo: 100, &reported)
        #expect(reported == [1, 3])
    }

    @Test func unstartedFramesAreTakenWholeAndInOrder() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [RequestID]())
        let one = queue.append(item("one", 1))
        let two = queue.append(item("two", 2, reports: true))
        queue.append(item("three", 3))
        _ = queue.encode(using: &codec)
        _ = queue.write(upTo: 2, &reported)
        let taken = queue.takeUnstarted()
        #expect(taken.map(\.id) == [2, 3] && taken.map(\.frame.body) == ["two", "three"])
        #expect(taken.map(\.reportsWritten) == [true, false])
        #expect(queue.hasStarted(one) && queue.remove(two) == nil)
        // The rest of the first frame is still written while the link drains.
        #expect(String(decoding: queue.write(upTo: 100, &reported), as: UTF8.self) == "e")
        #expect(queue.isEmpty && queue.byteCount == 0)
    }

    /// A request is written and abandoned, and its cancel frame is queued. The link is lost before that frame is
    /// written. On the next link, the frame would name a request that the server has not received there or, worse,
    /// another request.
    @Test func framesThatBelongToALostLinkAreDiscarded() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [RequestID]())
        queue.append(item("one", 1))
        queue.append(item("cancel"))
        queue.append(item("two", 2))
        _ = queue.encode(using: &codec)
        _ = queue.write(upTo: 3, &reported)
        #expect(queue.takeUnstarted().map(\.id) == [2])
        #expect(queue.linkFrameCount == 1 && queue.unstartedIDs.isEmpty)
        queue.removeAll()
        #expect(queue.isEmpty && queue.byteCount == 0 && queue.linkFrameCount == 0 && queue.unwrittenCount == 0)
        #expect(reported.isEmpty)
    }

    @Test func aRefusalHasThePositionAndTheError() {
        var (queue, codec) = (OutboundQueue(), codec)
        let positions = (["one", "!two", ""] as [Bytes]).map { queue.append(item($0, 1)) }
        let refusals = queue.encode(using: &codec)
        #expect(refusals.map(\.position) == Array(positions[1...]))
        #expect(refusals.map(\.item.frame.body) == ["!two", ""])
        #expect(refusals.map(\.error.code) == [.malformed, .malformed])
        #expect(queue.remove(positions[1]) == nil)
    }

    /// Positions continue after all frames were removed, so that a question about an old position still has an answer.
    @Test func positionsAreNeverUsedTwice() {
        var queue = OutboundQueue()
        let one = queue.append(item("one", 1))
        queue.removeAll()
        let two = queue.append(item("two", 2))
        #expect(two == one + 1 && queue.hasStarted(one) && !queue.hasStarted(two))
        #expect(queue.takeUnstarted().map(\.id) == [2])
        #expect(queue.append(item("three", 3)) == two + 1)
    }

    @Test func largeBodiesAreNotCopied() {
        let body = Bytes([UInt8](repeating: 7, count: 1 << 20))
        var buffer = SendBuffer()
        buffer.append(integer: UInt32(1))
        buffer.append(body)
        let address = unsafe body.withUnsafeBytes { $0.baseAddress }
        unsafe buffer.withUnwritten { pieces in
            #expect(pieces.count == 2)
            #expect(unsafe pieces.last?.baseAddress == address)
        }
    }

    /// Random appends, removals, partial writes and draining links, compared with a plain list of frames.
    @Test func theBytesWrittenAreThoseQueuedAndNotRemoved() {
        for seed in seeds(300) {
            var generator = SeededGenerator(seed: seed)
            var (queue, codec, reported) = (OutboundQueue(), codec, [RequestID]())
            var expected: [(position: OutboundPosition, bytes: [UInt8])] = []
            var wire: [UInt8] = []
            var id: RequestID = 0
            for _ in 0..<200 {
                switch Int.random(in: 0..<8, using: &generator) {
                case 0...3:
                    id += 1
                    let size =
                        Int.random(in: 0..<20, using: &generator) == 0
                        ? 5000 : Int.random(in: 1...20, using: &generator)
                    let bytes = [UInt8](repeating: UInt8(40 + id.number % 200), count: size)
                    let position = queue.append(item(Bytes(bytes), id))
                    expected.append((position, bytes))
                case 4:
                    guard let victim = expected.randomElement(using: &generator) else { continue }
                    let started = queue.hasStarted(victim.position)
                    #expect((queue.remove(victim.position) == nil) == started, "seed \(seed)")
                    if !started { expected.removeAll { $0.position == victim.position } }
                case 5 where Int.random(in: 0..<10, using: &generator) == 0:
                    // The link drains: the rest of the started frame is written, and nothing else.
                    let unstarted = expected.filter { !queue.hasStarted($0.position) }
                    let taken = queue.takeUnstarted().map { Array($0.frame.body) }
                    #expect(taken == unstarted.map(\.bytes), "seed \(seed)")
                    expected.removeLast(unstarted.count)
                default:
                    _ = queue.encode(using: &codec)
                    wire += queue.write(upTo: .random(in: 0...60, using: &generator), &reported)
                    // The frames that are completely on the wire must be the first of those expected.
                    while let first = expected.first, wire.count >= first.bytes.count, queue.hasStarted(first.position)
                    {
                        #expect(Array(wire.prefix(first.bytes.count)) == first.bytes, "seed \(seed)")
                        wire.removeFirst(first.bytes.count)
                        expected.removeFirst()
                    }
                }
            }
            while !queue.isEmpty {
                _ = queue.encode(using: &codec)
                wire += queue.write(upTo: 1 << 20, &reported)
            }
            #expect(wire == expected.flatMap(\.bytes), "seed \(seed)")
            #expect(queue.byteCount == 0, "seed \(seed)")
        }
    }
}
