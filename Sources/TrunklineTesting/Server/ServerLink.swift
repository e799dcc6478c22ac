import Trunkline

/// One client's connection to a `LoopbackServer`. Confined to the server's loop.
final class ServerLink {
    var transport: any Transport
    var codec: any FrameCodec
    var received = ReceiveBuffer()
    /// Frames that arrived before reading stopped and wait for it to go on.
    var backlog = Deque<Frame>()
    /// Reading is stopped for this link alone.
    var isStopped = false
    /// Its TLS handshake is under way.
    var isHandshaking = false
    /// Nothing more is read, nor done, but what is in the way out is still written.
    var isEnding = false
    /// Whether the link is in its server's list of those that have something to write.
    var isDirty = false

    /// Pings of ours whose answer has not come.
    var unansweredPings = 0

    /// Delayed programs by the serial of their request.
    var delayed: [SerialNumber: Set<RequestID>] = [:]
    /// A program that is delayed has yet to reply, and its protocol knows responses by their order alone.
    var isHeldUp = false
    /// Programs that wait for it.
    var line = Deque<Program>()
    /// Replies held to be sent out of order.
    var held: [Program] = []

    /// Requests whose reaction runs a body, by their serials, until the reply.
    var exchanges: [SerialNumber: OpenExchange] = [:]
    /// Those whose body runs, also after the reply, and also without serials.
    var running: [OpenExchange] = []
    /// Serials of requests that were answered before all of them had come.
    var unfinished: Set<SerialNumber> = []
    /// How many of `exchanges` hold so much that nothing more is read.
    var crowdedCount = 0
    /// Bodies that wait until the kernel has what they wrote, in order.
    var writers: [PartWriter] = []
    /// How many bytes were written.
    var sentCount = 0

    /// What is written next, in as few writes as possible.
    private var out = SendBuffer()
    /// What comes after `out`, and then what comes after that.
    private var later = Deque<Output>()
    private var tail = SendBuffer()
    /// Bytes in `later`.
    private var laterCount = 0

    /// A buffer gives its memory back only when all of it is written, so none may grow on and on.
    private static let bufferSize = 256 * 1024

    /// Something that does not simply join what is before it.
    private enum Output {
        case bytes(SendBuffer)
        /// So many bytes in each turn of the loop.
        case pieces([UInt8], start: Int, size: Int)
        case startTLS
        case close
        /// Nothing behind it is ever written.
        case hang
    }

    init(_ transport: any Transport, _ codec: any FrameCodec) {
        self.transport = transport
        self.codec = codec
    }

    /// How many bytes wait to be written.
    var unsentCount: Int { out.count + laterCount + tail.count }

    /// The delayed program of `id` runs.
    func removeDelayed(_ id: RequestID, serial: SerialNumber) {
        delayed[serial]?.remove(id)
        if delayed[serial]?.isEmpty == true { delayed[serial] = nil }
    }

    // MARK: Queueing

    /// Encodes `frame` behind everything else.
    func append(_ frame: Frame) throws(FrameError) {
        if later.isEmpty, tail.isEmpty, out.count < Self.bufferSize {
            try Self.encode(frame, with: &codec, into: &out)
        } else {
            try Self.encode(frame, with: &codec, into: &tail)
            if tail.count >= Self.bufferSize { sealTail() }
        }
    }

    /// Makes room for something that does not join the bytes before it.
    private func sealTail() {
        guard !tail.isEmpty else { return }
        laterCount += tail.count
        later.append(.bytes(exchange(&tail, with: SendBuffer())))
    }

    /// The bytes of `frame`.
    func encoded(_ frame: Frame) throws(FrameError) -> [UInt8] {
        var buffer = SendBuffer()
        try Self.encode(frame, with: &codec, into: &buffer)
        return buffer.bytes
    }

    private static func encode(
        _ frame: Frame,
        with codec: inout any FrameCodec,
        into buffer: inout SendBuffer
    ) throws(FrameError) {
        let mark = buffer.mark
        do throws(FrameError) {
            try codec.encode(frame, into: &buffer)
        } catch {
            buffer.rollBack(to: mark)
            throw error
        }
        // Here and not when it is written: nothing is taken back any more, and the order is the same.
        if codec._notesSent { codec._noteSent(frame) }
    }

    /// Writes `bytes` behind everything else, `size` of them in each turn of the loop; `nil` for all at once.
    func append(_ bytes: [UInt8], inPiecesOf size: Int? = nil) {
        guard !bytes.isEmpty else { return }
        if let size {
            sealTail()
            later.append(.pieces(bytes, start: 0, size: size))
            laterCount += bytes.count
        } else if later.isEmpty, tail.isEmpty {
            out.append(bytes)
        } else {
            tail.append(bytes)
        }
    }

    /// Closes in good order once everything is written.
    func appendClose() {
        isEnding = true
        transport.isReading = false
        sealTail()
        later.append(.close)
    }

    /// Writes nothing of what follows.
    func appendHang() {
        sealTail()
        later.append(.hang)
    }

    /// Goes on with TLS once everything is written.
    func appendStartTLS() {
        sealTail()
        later.append(.startTLS)
    }

    // MARK: Writing

    enum Flush {
        /// Nothing is left, or the socket takes no more and will say when it does.
        case done
        /// More is to be written in the next turn.
        case again
        /// Everything in plaintext is written: the link is to be secured.
        case startTLS
        /// Everything is written: the link is to be closed in good order.
        case close
        case failed
    }

    /// Writes as much as the socket takes and this turn allows; counts the bytes in `sent`.
    func flush(sent: inout Int) -> Flush {
        transport.awaitsWritable = false
        for _ in 0..<64 {
            if out.isEmpty {
                switch later.popFirst() {
                case nil:
                    if tail.isEmpty { return .done }
                    out = exchange(&tail, with: SendBuffer())
                case .bytes(let buffer)?:
                    out = buffer
                    laterCount -= buffer.count
                case .pieces(let bytes, let start, let size)?:
                    return flushPiece(of: bytes, start, size, sent: &sent)
                case .startTLS?: return .startTLS
                case .close?: return .close
                case .hang?:
                    later.prepend(.hang)
                    return .done
                }
                continue
            }
            switch unsafe out.withUnwritten({ unsafe transport.write($0) }) {
            case .bytes(let count):
                out.didWrite(count)
                sent += count
            case .wouldBlock:
                transport.awaitsWritable = true
                return .done
            case .failed: return .failed
            }
        }
        return .again
    }

    private func flushPiece(of bytes: [UInt8], _ start: Int, _ size: Int, sent: inout Int) -> Flush {
        let piece = start..<min(bytes.count, start + size)
        let outcome = unsafe bytes.withUnsafeBytes { memory in
            unsafe transport.write([UnsafeRawBufferPointer(rebasing: memory[piece])])
        }
        var written = 0
        switch outcome {
        case .bytes(let count): written = count
        case .wouldBlock: transport.awaitsWritable = true
        case .failed: return .failed
        }
        sent += written
        laterCount -= written
        if start + written < bytes.count {
            later.prepend(.pieces(bytes, start: start + written, size: size))
        }
        return transport.awaitsWritable ? .done : .again
    }

    // MARK: Reading

    enum Read {
        case nothing
        /// So many bytes, and whether there may be more.
        case bytes(Int, mayHaveMore: Bool)
        /// The client has ended its direction.
        case end
        case failed
        case malformed(FrameError)
    }

    /// Reads once and decodes every complete frame.
    func read(into frames: inout [Frame]) -> Read {
        var offered = 0
        let (count, outcome) = unsafe received.fill { free in
            offered = free.count
            let outcome = unsafe transport.read(into: free)
            if case .bytes(let count) = outcome { return (count, outcome) }
            return (0, outcome)
        }
        switch outcome {
        case .bytes: break
        case .wouldBlock: return .nothing
        case .end: return end(into: &frames)
        case .failed: return .failed
        }
        do throws(FrameError) {
            try codec.decodeAll(&received, into: &frames)
            if received.count > Self.maximumUndecoded {
                throw FrameError(.illegalLength, "no frame within \(Self.maximumUndecoded) bytes")
            }
        } catch {
            return .malformed(error)
        }
        return .bytes(count, mayHaveMore: count == offered)
    }

    /// The client has ended its direction: decodes what that completes.
    private func end(into frames: inout [Frame]) -> Read {
        do throws(FrameError) {
            try codec.decodeAllAtEnd(&received, into: &frames)
            return .end
        } catch {
            return .malformed(error)
        }
    }

    private static let maximumUndecoded = 256 * 1024 * 1024
}
