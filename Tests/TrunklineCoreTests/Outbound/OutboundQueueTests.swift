import Testing

@testable import TrunklineCore

/// Encodes a frame as its body; a body that begins with `!` cannot be encoded.
private struct BodyCodec: FrameCodec {
    var matching: ResponseMatching { .inOrder }
    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { nil }
    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        output.append(frame.body)
        if frame.body.first == UInt8(ascii: "!") { throw FrameError(.malformed, "begins with !") }
    }
}

@Suite struct OutboundQueueTests {
    private var codec: any FrameCodec = BodyCodec()

    private func item(_ body: Bytes, _ ticket: Ticket = 0, reports: Bool = false) -> OutboundQueue.Item {
        OutboundQueue.Item(Frame(.request, body: body), ticket: ticket, reportsWritten: reports)
    }

    /// Lets the socket take up to `limit` bytes; returns them.
    private func write(_ queue: inout OutboundQueue, upTo limit: Int, _ reported: inout [Ticket]) -> [UInt8] {
        let taken = unsafe queue.withUnwritten { pieces in
            Array(unsafe pieces.reduce(into: [UInt8]()) { unsafe $0 += Array($1) }.prefix(limit))
        }
        queue.didWrite(taken.count, reporting: &reported)
        return taken
    }

    @Test func namedBytesCountAsTheBodyDoes() {
        var frame = Frame(.request, head: Bytes(repeating: 1, count: 1000), body: "12345")
        frame["unit"] = 7
        #expect(OutboundQueue.cost(of: frame) == 1000 + 5 + 32)
        #expect(OutboundQueue.cost(of: Frame(.request, body: "12345")) == 5 + 32)
    }

    @Test func framesGoOutInOrder() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [Ticket]())
        for body in ["one", "two", "three"] as [Bytes] { queue.append(item(body)) }
        #expect(queue.encode(using: &codec).isEmpty)
        #expect(String(decoding: write(&queue, upTo: 100, &reported), as: UTF8.self) == "onetwothree")
        #expect(queue.isEmpty)
        #expect(queue.byteCount == 0)
    }

    @Test func aFrameThatHasNotStartedCanBeRemovedEvenWhenItIsEncoded() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [Ticket]())
        let one = queue.append(item("one", 1))
        let two = queue.append(item("two", 2))
        let three = queue.append(item("three", 3))
        _ = queue.encode(using: &codec)
        #expect(write(&queue, upTo: 1, &reported).count == 1)
        #expect(queue.hasStarted(one))
        #expect(!queue.hasStarted(two))
        #expect(queue.remove(one) == nil)
        #expect(queue.remove(two)?.ticket == 2)
        #expect(queue.remove(two) == nil)
        #expect(!queue.hasStarted(three))
        var rest = write(&queue, upTo: 100, &reported)
        _ = queue.encode(using: &codec)
        rest += write(&queue, upTo: 100, &reported)
        #expect(String(decoding: rest, as: UTF8.self) == "nethree")
        #expect(queue.isEmpty)
    }

    /// What is added to a request that has started: it goes where that has gone, or nowhere.
    @Test func framesThatBelongToTheirLinkStayWithIt() {
        func queue(_ codec: inout any FrameCodec) -> OutboundQueue {
            var (queue, reported) = (OutboundQueue(), [Ticket]())
            queue.append(item("one", 1))
            queue.append(OutboundQueue.Item(Frame(.part, body: "two"), ticket: 2, belongsToLink: true))
            queue.append(item("three", 3))
            queue.append(OutboundQueue.Item(Frame(.part, body: "four"), ticket: 4, belongsToLink: true))
            _ = queue.encode(using: &codec)
            _ = write(&queue, upTo: 1, &reported)
            return queue
        }
        var (codec, reported) = (codec, [Ticket]())
        var lost = queue(&codec)
        #expect(lost.linkLost() == [2, 4])
        _ = lost.encode(using: &codec)
        #expect(String(decoding: write(&lost, upTo: 100, &reported), as: UTF8.self) == "three")
        #expect(lost.isEmpty)

        var next = queue(&codec)
        var left = next.splitOff()
        #expect(!next.remove(of: 2) && !next.remove(of: 4))
        #expect(left.remove(of: 4) && !left.remove(of: 4) && !left.remove(of: 1))
        _ = left.encode(using: &codec)
        var bytes = write(&left, upTo: 100, &reported)
        _ = left.encode(using: &codec)
        bytes += write(&left, upTo: 100, &reported)
        #expect(String(decoding: bytes, as: UTF8.self) == "netwo")
        #expect(left.isEmpty && left.byteCount == 0)
        _ = next.encode(using: &codec)
        #expect(String(decoding: write(&next, upTo: 100, &reported), as: UTF8.self) == "three")
    }

    @Test func aFrameThatCannotBeEncodedLeavesAloneAndTheOthersGoOut() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [Ticket]())
        queue.append(item("one", 1))
        queue.append(item("!two", 2))
        queue.append(item("", 3))
        queue.append(item("four", 4))
        #expect(queue.encode(using: &codec).map(\.item.ticket) == [2, 3])
        #expect(String(decoding: write(&queue, upTo: 100, &reported), as: UTF8.self) == "onefour")
        #expect(queue.isEmpty)
    }

    @Test func aReportComesWithTheLastByte() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [Ticket]())
        queue.append(item("one", 1, reports: true))
        queue.append(item("two", 2))
        queue.append(item("three", 3, reports: true))
        _ = queue.encode(using: &codec)
        _ = write(&queue, upTo: 2, &reported)
        #expect(reported.isEmpty)
        _ = write(&queue, upTo: 1, &reported)
        #expect(reported == [1])
        _ = write(&queue, upTo: 100, &reported)
        #expect(reported == [1, 3])
    }

    @Test func aLostLinkDropsWhatHadStartedAndSendsTheRestAgain() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [Ticket]())
        let one = queue.append(item("one", 1))
        let two = queue.append(item("two", 2))
        _ = queue.encode(using: &codec)
        _ = write(&queue, upTo: 2, &reported)
        queue.linkLost()
        #expect(queue.hasStarted(one))
        #expect(!queue.hasStarted(two))
        _ = queue.encode(using: &codec)
        #expect(String(decoding: write(&queue, upTo: 100, &reported), as: UTF8.self) == "two")
    }

    /// A request is written and given up, its cancel frame queued; the link is lost before that is written. On the next
    /// link it would name a request that the server has never seen there, or worse, that it has.
    @Test func aLostLinkTakesTheFramesThatBelongToItAlong() {
        var (queue, codec, reported) = (OutboundQueue(), codec, [Ticket]())
        queue.append(item("one", 1))
        queue.append(item("cancel", 0))
        let two = queue.append(item("two", 2))
        _ = queue.encode(using: &codec)
        _ = write(&queue, upTo: 3, &reported)
        queue.linkLost()
        #expect(!queue.hasStarted(two))
        _ = queue.encode(using: &codec)
        #expect(String(decoding: write(&queue, upTo: 100, &reported), as: UTF8.self) == "two")
        #expect(reported.isEmpty)
        #expect(queue.byteCount == 0)
    }

    @Test func largeBodiesAreNotCopied() {
        let body = Bytes([UInt8](repeating: 7, count: 1 << 20))
        var buffer = SendBuffer()
        buffer.append(integer: UInt32(1))
        buffer.append(body)
        let address = unsafe body.withUnsafeBytes { $0.baseAddress }
        unsafe buffer.withUnwritten { pieces in
            #expect(unsafe pieces.count == 2)
            #expect(unsafe pieces.last?.baseAddress == address)
        }
    }

    /// Random appends, removals, partial writes and lost links against a plain list of frames.
    @Test func whatIsWrittenIsWhatWasQueuedAndNotRemoved() {
        for seed in seeds(300) {
            var generator = SeededGenerator(seed: seed)
            var (queue, codec, reported) = (OutboundQueue(), codec, [Ticket]())
            var expected: [(position: OutboundPosition, bytes: [UInt8])] = []
            var wire: [UInt8] = []
            var ticket: Ticket = 0
            for _ in 0..<200 {
                switch Int.random(in: 0..<8, using: &generator) {
                case 0...3:
                    ticket += 1
                    let size =
                        Int.random(in: 0..<20, using: &generator) == 0
                        ? 5000 : Int.random(in: 1...20, using: &generator)
                    let bytes = [UInt8](repeating: UInt8(40 + ticket % 200), count: size)
                    let position = queue.append(item(Bytes(bytes), ticket))
                    expected.append((position, bytes))
                case 4:
                    guard let victim = expected.randomElement(using: &generator) else { continue }
                    let started = queue.hasStarted(victim.position)
                    #expect((queue.remove(victim.position) == nil) == started, "seed \(seed)")
                    if !started { expected.removeAll { $0.position == victim.position } }
                case 5 where Int.random(in: 0..<10, using: &generator) == 0:
                    queue.linkLost()
                    wire = []
                    expected.removeAll { queue.hasStarted($0.position) }
                default:
                    _ = queue.encode(using: &codec)
                    wire += write(&queue, upTo: .random(in: 0...60, using: &generator), &reported)
                    // What is wholly on the wire must be the front of what is expected.
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
                wire += write(&queue, upTo: 1 << 20, &reported)
            }
            #expect(wire == expected.flatMap(\.bytes), "seed \(seed)")
            #expect(queue.byteCount == 0, "seed \(seed)")
        }
    }
}
