package import Trunkline

/// The receiving end of one link, as a connection drives it: decodes every complete frame, puts back what is not one.
package struct ConformanceLink {
    private var codec: any FrameCodec
    private var input = ReceiveBuffer()
    /// What the codec must not leave undecoded, in bytes.
    private let limit: Int
    /// Whether parts count as one frame with the response that they belong to.
    private let joinsParts: Bool
    private var parts: [UInt8] = []

    package private(set) var frames: [Frame] = []
    /// How many bytes were taken when each of `frames` was complete.
    package private(set) var ends: [Int] = []
    package private(set) var received = 0
    /// What the codec refused the bytes with. Nothing is decoded after it.
    package private(set) var refusal: FrameError?
    /// What the codec must never do, whatever it is fed.
    package private(set) var fault: (rule: CodecConformance.Rule, message: String)?
    /// The largest size that was announced by `await`.
    package private(set) var awaited = 0

    package init(_ codec: any FrameCodec, limit: Int, sent: [Frame] = [], joinsParts: Bool = false) {
        self.codec = codec
        self.limit = limit
        self.joinsParts = joinsParts
        if codec._notesSent {
            for frame in sent { self.codec._noteSent(frame) }
        }
    }

    /// How many bytes are not decoded.
    package var left: Int { input.count }
    /// What the bytes were refused with, all of them or the last frame alone.
    package var refusalCode: FrameError.Code? { refusal?.code ?? frames.last?.malformedReason }
    private var isOver: Bool { refusal != nil || fault != nil }

    /// Takes `bytes` in, as one read of a socket.
    package mutating func receive(_ bytes: ArraySlice<UInt8>) {
        guard !isOver, !bytes.isEmpty else { return }
        received += bytes.count
        if input.isEmpty {
            // Storage without a byte to spare, so that reading beyond it cannot go unnoticed.
            input = ReceiveBuffer(bytes)
        } else {
            var rest = bytes
            while !rest.isEmpty {
                let count = unsafe input.fill { memory in
                    let piece = rest.prefix(memory.count)
                    unsafe memory.copyBytes(from: piece)
                    return (piece.count, ())
                }.count
                rest = rest.dropFirst(count)
            }
        }
        decode()
    }

    private mutating func decode() {
        while !input.isEmpty {
            let mark = input.position
            do throws(FrameError) {
                guard let frame = try codec.decode(&input) else {
                    input.rewind(to: mark)
                    break
                }
                guard input.position > mark else {
                    fault = (.progress, "decode returned a frame and consumed nothing")
                    return
                }
                input.stopAwaiting()
                keep(frame)
            } catch {
                refusal = error
                return
            }
        }
        awaited = max(awaited, input.awaitedCount)
        if input.awaitedCount > limit {
            fault = (.limit, "decode awaits \(input.awaitedCount) bytes, but a frame has \(limit) at most")
        } else if input.count > limit {
            fault = (.limit, "decode waits for more with \(input.count) bytes there, but a frame has \(limit) at most")
        }
    }

    private mutating func keep(_ frame: Frame) {
        var frame = frame
        if joinsParts, frame.kind == .part || frame.kind == .response {
            parts += frame.body
            if frame.kind == .part { return }
            frame.body = Bytes(exchange(&parts, with: []))
        }
        frames.append(frame)
        ends.append(received - input.count)
    }

    /// The peer ends the connection in good order.
    package mutating func end() {
        while !isOver {
            let count = input.count
            do throws(FrameError) {
                guard let frame = try codec._decodeEnd(&input) else { return }
                keep(frame)
                // Taking what remains, even if that is nothing, completes a frame once.
                if input.count == count { return }
            } catch {
                refusal = error
            }
        }
    }
}
