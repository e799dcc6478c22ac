import TrunklineCore

/// One client's connection to a `LoopbackServer`. Confined to the server's loop.
final class ServerLink {
    var transport: any Transport
    var secured: SecuredTransport? { transport as? SecuredTransport }
    var codec: LinkCodec
    let matching: ResponseMatching
    var received = ReceiveBuffer()
    /// Frames that arrived before reading stopped, kept until it resumes.
    var backlog = Deque<Frame>()
    var isStopped = false
    var isHandshaking = false
    /// Nothing more is read or performed, but queued bytes are still written.
    var isEnding = false
    var isDirty = false

    var unansweredPings = 0

    var delayed: [SerialNumber: Set<RequestID>] = [:]
    /// Channels on which a delayed program has yet to reply, in a protocol matched in order; 0 without channels.
    var heldUp: Set<UInt64> = []
    var lines: [UInt64: Deque<Program>] = [:]
    var held: [Program] = []

    var exchanges: [SerialNumber: OpenExchange] = [:]
    /// Exchanges whose body is running, also after the reply and in protocols without serials.
    var running: [OpenExchange] = []
    /// Serials of requests that were answered before they were complete.
    var unfinished: Set<SerialNumber> = []
    /// How many of `exchanges` hold so many frames that reading is paused.
    var crowdedCount = 0
    var writers: [PartWriter] = []
    var calls = Calls()
    var sentCount = 0

    /// Written in the order `out`, `later`, `tail`.
    private var out = SendBuffer()
    private var later = Deque<Output>()
    private var tail = SendBuffer()
    private var laterCount = 0

    /// A buffer frees its memory only when all of it is written, so none may grow without bound.
    private static let bufferSize = 256 * 1024

    /// Output that cannot be appended to the bytes before it.
    private enum Output {
        case bytes(SendBuffer)
        case pieces([UInt8], start: Int, size: Int)
        case startTLS
        case close
        /// The output that follows is never written.
        case hang
    }

    init(_ transport: any Transport, _ codec: LinkCodec) {
        self.transport = transport
        self.codec = codec
        matching = codec.matching
    }

    var unsentCount: Int { out.count + laterCount + tail.count }

    func removeDelayed(_ id: RequestID, serial: SerialNumber) {
        delayed[serial]?.remove(id)
        if delayed[serial]?.isEmpty == true { delayed[serial] = nil }
    }

    func append(_ frame: Frame) throws(FrameError) {
        if transport.exchangesDatagrams {
            var datagram = SendBuffer()
            try Self.encode(frame, with: &codec, into: &datagram)
            laterCount += datagram.count
            later.append(.bytes(datagram))
        } else if later.isEmpty, tail.isEmpty, out.count < Self.bufferSize {
            try Self.encode(frame, with: &codec, into: &out)
        } else {
            try Self.encode(frame, with: &codec, into: &tail)
            if tail.count >= Self.bufferSize { sealTail() }
        }
    }

    private func sealTail() {
        guard !tail.isEmpty else { return }
        laterCount += tail.count
        later.append(.bytes(exchange(&tail, with: SendBuffer())))
    }

    func encoded(_ frame: Frame) throws(FrameError) -> [UInt8] {
        var buffer = SendBuffer()
        try Self.encode(frame, with: &codec, into: &buffer)
        return buffer.bytes
    }

    private static func encode(
        _ frame: Frame,
        with codec: inout LinkCodec,
        into buffer: inout SendBuffer
    ) throws(FrameError) {
        let mark = buffer.mark
        do throws(FrameError) {
            try codec.encode(frame, into: &buffer)
        } catch {
            buffer.rollBack(to: mark)
            throw error
        }
        // Noted here and not when it is written: nothing is removed from the queue, and the order is the same.
        codec.noteSent(frame)
    }

    /// `size` bytes in each turn of the loop; `nil` for all at once.
    func append(_ bytes: [UInt8], inPiecesOf size: Int? = nil) {
        guard !bytes.isEmpty else { return }
        if let size {
            sealTail()
            later.append(.pieces(bytes, start: 0, size: size))
            laterCount += bytes.count
        } else if transport.exchangesDatagrams {
            later.append(.pieces(bytes, start: 0, size: bytes.count))
            laterCount += bytes.count
        } else if later.isEmpty, tail.isEmpty, out.count < Self.bufferSize {
            out.append(bytes)
        } else {
            tail.append(bytes)
            if tail.count >= Self.bufferSize { sealTail() }
        }
    }

    func appendClose() {
        isEnding = true
        transport.isReading = false
        sealTail()
        later.append(.close)
    }

    func appendHang() {
        sealTail()
        later.append(.hang)
    }

    func appendStartTLS() {
        sealTail()
        later.append(.startTLS)
    }

    enum Flush {
        /// Nothing is left, or the socket reports when it accepts more.
        case done
        /// In the next turn.
        case again
        case startTLS
        case close
        case failed
    }

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
            let outcome =
                transport.exchangesDatagrams
                ? unsafe out.withAllBytes { unsafe transport.write($0) }
                : unsafe out.withUnwritten { unsafe transport.write($0) }
            switch outcome {
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
            unsafe transport.write(UnsafeRawBufferPointer(rebasing: memory[piece]))
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

    enum Read {
        case nothing
        case bytes(Int, mayHaveMore: Bool)
        case end
        case failed
        case malformed(FrameError)
    }

    func read(into frames: inout [Frame]) -> Read {
        let (count, isFull, outcome) = transport.read(into: &received)
        switch outcome {
        case .bytes: break
        case .wouldBlock: return .nothing
        case .end: return end(into: &frames)
        case .failed: return .failed
        }
        do throws(FrameError) {
            try codec.decodeAll(&received, into: &frames)
            if received.count > Self.maximumUndecoded {
                throw FrameError(.illegalLength, "no complete frame within \(Self.maximumUndecoded) bytes")
            }
            if transport.exchangesDatagrams, !received.isEmpty {
                throw FrameError(.malformed, "the datagram ends within a frame")
            }
        } catch {
            received.stopAwaiting()
            if transport.exchangesDatagrams { _ = received.discard(received.count) }
            return .malformed(error)
        }
        return .bytes(count, mayHaveMore: isFull || transport.exchangesDatagrams)
    }

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
