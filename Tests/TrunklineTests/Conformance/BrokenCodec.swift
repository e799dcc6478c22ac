import Trunkline
import TrunklineTesting

/// A codec with one of many mistakes. A frame is one byte each for type, serial and length, then the body, then 0xEE.
///
/// Type 1 is a ping, 2 a pong, 3 a cancel frame, 4 a push, 5 a window update. All others are requests and responses.
struct BrokenCodec: FrameCodec, HeartbeatCodec, CancellingCodec, EndOfStreamCodec, WindowedCodec, ServerSideCodec {
    enum Mistake: CaseIterable {
        case none
        /// Reads beyond the available bytes.
        case traps
        /// Keeps state from an incomplete frame, which it decodes again later.
        case splitState
        /// Accepts a frame that lacks its last byte.
        case offByOne
        /// Rejects input that is only incomplete.
        case impatient
        /// Rejects a frame whose last byte has not arrived yet.
        case brittle
        /// Returns the remaining bytes as a body when the connection ends.
        case acceptsHalf
        /// Waits for any length that a header announces.
        case unlimitedLength
        /// Checks the limit only when the body is complete.
        case lateLimit
        /// Encodes bodies that the other side rejects.
        case unlimitedBody
        /// Never throws and never finds a frame, if the input is long.
        case swallowsAll
        /// Consumes all bytes of the input with one frame.
        case losesTail
        /// Keeps its state in an object.
        case sharedState
        /// Returns frames without consuming bytes.
        case emptyFrames
        /// Counts its frames and stores the number in them.
        case counts
        /// Encodes a wrong length if the buffer already has bytes.
        case absoluteLength
        /// Accepts any byte as the constant.
        case ignoresConstant
        /// Encodes a length that is too small for a large body.
        case injection
        /// Drops a bit of the serial number 255.
        case narrowSerial
        /// Decodes another serial number than the client sent.
        case wrongSerial
        /// Decodes pings as requests.
        case pingIsRequest
        /// States that pongs look like pings although they differ.
        case falseAlarm
        /// Puts the type instead of the serial number into a cancel frame.
        case wrongCancel
        /// Recognizes window updates on one side only.
        case wrongWindow
        /// Drops the last byte of the body.
        case lossy
        /// Encodes other bytes than the sample states.
        case wrongBytes
    }

    /// The state that all copies share.
    final class Shared: @unchecked Sendable {
        var count: UInt64 = 0
        var length: UInt8?
    }

    static let limit = 104
    static let request = Frame(.request, type: 0x42, serial: 200, body: "question")
    static let samples: [CodecConformance.Sample] = [
        .init(request, bytes: [0x42, 200, 8] + Array("question".utf8) + [0xEE]),
        .init(Frame(.response, type: 0x42, serial: 200, body: "an answer"), answering: request),
        .init(Frame(.push, type: 4, body: "news")), .init(Frame(.request, type: 5, serial: 200, body: "more")),
        .bytes([0x42, 200, 0, 0xEE], are: nil, answering: [request]),
        .refused([4, 0, 1, 7, 0xED], with: .unexpectedBytes),
    ]

    let mistake: Mistake
    var isServer = false
    var maximumBody = 100
    private var seen = 0
    private let shared = Shared()

    init(_ mistake: Mistake, maximumBody: Int = 100) {
        self.mistake = mistake
        self.maximumBody = maximumBody
    }

    var matching: ResponseMatching { .serial(1...255) }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        if mistake == .swallowsAll, input.count > 40 { return nil }
        if mistake == .emptyFrames, input.count == 5 { return Frame(.push) }
        guard let type = input.byte(at: 0), let serial = input.byte(at: 1), let announced = input.byte(at: 2) else {
            if mistake == .splitState { seen += 1 }
            return nil
        }
        let length = mistake == .sharedState ? shared.length ?? announced : announced
        if mistake == .impatient, input.count < 5 { throw FrameError(.malformed, "too short") }
        let isTooLong = length > maximumBody
        if isTooLong, ![.unlimitedLength, .lateLimit].contains(mistake) {
            throw FrameError(.illegalLength, "a body of \(length) bytes")
        }
        if mistake != .lateLimit { input.await(4 + Int(length)) }
        if mistake == .offByOne, input.count == 3 + Int(length) {
            return Frame(kind(type), type: UInt32(type), serial: UInt64(serial), body: input.take(3, Int(length), 0))
        }
        if mistake == .traps, length > 90, input.count <= 102 { return Frame(.push, body: [Bytes()[102]]) }
        guard let last = input.byte(at: 3 + Int(length)) else {
            if mistake == .splitState { seen += 1 }
            shared.length = length
            if mistake == .brittle, length > 8, input.count == 3 + Int(length) {
                throw FrameError(.malformed, "no end")
            }
            return nil
        }
        shared.length = nil
        if isTooLong, mistake == .lateLimit { throw FrameError(.illegalLength, "a body of \(length) bytes") }
        guard last == 0xEE || mistake == .ignoresConstant else { throw FrameError(.unexpectedBytes, "byte \(last)") }
        var body = input.take(3, Int(length), 1)
        if mistake == .losesTail { input.skip(input.count) }
        if mistake == .splitState, seen > 0 { body = "after \(seen) attempts" }
        if mistake == .lossy { body = Bytes(body.dropLast()) }
        var frame = Frame(kind(type), type: UInt32(type), serial: number(serial), body: body)
        if mistake == .counts {
            shared.count += 1
            frame["count"] = shared.count
        }
        return frame
    }

    private func number(_ serial: UInt8) -> SerialNumber {
        if mistake == .wrongSerial, !isServer, serial > 0 { return 9 }
        return SerialNumber(serial)
    }

    mutating func decodeEnd(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard mistake == .acceptsHalf, input.count > 3 else { return nil }
        return Frame(.push, body: input.take(3, input.count - 3, 0))
    }

    private func kind(_ type: UInt8) -> Frame.Kind {
        switch type {
        case 1: mistake == .pingIsRequest ? .request : .ping
        case 2: .pong
        case 3: .cancel
        case 4: .push
        default: isServer ? .request : .response
        }
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        var size = frame.body.count
        guard size <= maximumBody || [.unlimitedBody, .injection].contains(mistake), mistake == .injection || size < 256
        else { throw FrameError(.illegalLength, "a body of \(size) bytes") }
        if mistake == .absoluteLength { size += output.bytes.isEmpty ? 0 : 1 }
        output.append(mistake == .wrongBytes ? UInt8(frame.type) ^ 0x10 : UInt8(frame.type))
        let serial = UInt8(truncatingIfNeeded: frame.serial)
        output.append(mistake == .narrowSerial && serial == 255 ? 127 : serial)
        output.append(UInt8(truncatingIfNeeded: mistake == .injection && size > 20 ? size - 20 : size))
        output.append(frame.body)
        output.append(0xEE)
    }

    func ping(number: UInt64) -> Frame? { Frame(.ping, type: 1) }
    func pong(answering ping: Frame) -> Frame? { Frame(.pong, type: 2) }
    var pongsLookLikePings: Bool { mistake == .falseAlarm }

    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
        Frame(.cancel, type: 3, serial: mistake == .wrongCancel ? SerialNumber(type) : serial)
    }

    func isWindowUpdate(_ frame: Frame) -> Bool { frame.type == 5 && !(mistake == .wrongWindow && isServer) }

    func serverSide() -> any FrameCodec {
        var server = self
        server.isServer = true
        return server
    }
}

extension ReceiveBuffer {
    /// Skips `before` bytes, reads `count` bytes, and skips `after` bytes. All of them must be in the buffer.
    fileprivate mutating func take(_ before: Int, _ count: Int, _ after: Int) -> Bytes {
        skip(before)
        let bytes = readBytes(count) ?? Bytes()
        skip(after)
        return bytes
    }
}
