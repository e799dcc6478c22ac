package import TrunklineCore

/// The receiving end of one link, driven as a connection drives it.
package struct ConformanceLink {
    package private(set) var codec: LinkCodec
    private var input = ReceiveBuffer()
    private let limit: Int
    /// Parts count as one frame with the response that they belong to.
    private let joinsParts: Bool
    private let ignored: (@Sendable (Frame) -> Bool)?
    private var parts: [UInt8] = []

    package private(set) var frames: [Frame] = []
    /// How many bytes were consumed when each of `frames` was complete.
    package private(set) var ends: [Int] = []
    package private(set) var received = 0
    /// Nothing is decoded after it.
    package private(set) var refusal: FrameError?
    package private(set) var fault: (rule: CodecConformance.Rule, message: String)?
    package private(set) var awaited = 0

    package init(
        _ codec: LinkCodec,
        limit: Int,
        sent: [Frame] = [],
        joinsParts: Bool = false,
        ignoring ignored: (@Sendable (Frame) -> Bool)? = nil
    ) {
        self.codec = codec
        self.limit = limit
        self.joinsParts = joinsParts
        self.ignored = ignored
        for frame in sent { self.codec.noteSent(frame) }
    }

    package var left: Int { input.count }
    package var refusalCode: FrameError.Code? { refusal?.code ?? frames.last?.malformedReason }
    private var isOver: Bool { refusal != nil || fault != nil }

    package mutating func receive(_ bytes: ArraySlice<UInt8>) {
        guard !isOver, !bytes.isEmpty else { return }
        received += bytes.count
        if input.isEmpty {
            // Storage without a spare byte, so that reading beyond its end is detected.
            input = ReceiveBuffer(bytes)
        } else {
            var rest = bytes
            while !rest.isEmpty {
                let count = unsafe input.fill { memory in
                    let piece = rest.prefix(memory.count)
                    unsafe memory.copyBytes(from: piece)
                    return piece.count
                }
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
            fault = (.limit, "decode awaits \(input.awaitedCount) bytes; a frame has at most \(limit) bytes")
        } else if input.count > limit {
            fault = (
                .limit, "decode waits for more although it has \(input.count) bytes; a frame has at most \(limit) bytes"
            )
        }
    }

    private mutating func keep(_ frame: Frame) {
        if ignored?(frame) == true { return }
        var frame = frame
        if joinsParts, frame.kind == .part || frame.kind == .response {
            parts += frame.body
            if frame.kind == .part { return }
            frame.body = Bytes(exchange(&parts, with: []))
        }
        frames.append(frame)
        ends.append(received - input.count)
    }

    package mutating func end() {
        while !isOver {
            let count = input.count
            do throws(FrameError) {
                guard let frame = try codec.decodeEnd(&input) else { return }
                keep(frame)
                // A frame completed by the end, even from zero bytes, is completed only once.
                if input.count == count { return }
            } catch {
                refusal = error
            }
        }
    }
}
