import Trunkline

/// The standard layout, written by hand with the same limit and the same checks: the reference for the declared layout.
struct HandWrittenCodec: FrameCodec, HeartbeatCodec, CancellingCodec, ServerSideCodec {
    private static let headerSize = 12
    private static let largestBody = 16 * 1024 * 1024 - headerSize
    private var isServerSide = false

    var matching: ResponseMatching { .serial(50...0xFFFF_FFFF) }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let length = input.integer(at: 8, as: UInt32.self) else { return nil }
        let size = Int(length)
        guard size <= Self.largestBody else { throw FrameError(.illegalLength, "a body of \(size) bytes") }
        guard input.count >= Self.headerSize + size else {
            input.await(Self.headerSize + size)
            return nil
        }
        guard
            let type = input.readInteger(as: UInt32.self),
            let serial = input.readInteger(as: UInt32.self),
            input.skip(4),
            let body = input.readBytes(size)
        else { return nil }
        return Frame(kind(of: type), type: type, serial: UInt64(serial), body: body)
    }

    private func kind(of type: UInt32) -> Frame.Kind {
        switch type {
        case 0x1: .ping
        case 0x401: .cancel
        case 0x404: .part
        case 0x2...0x400 where !isServerSide: .push
        default: isServerSide ? .request : .response
        }
    }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        let size = frame.body.count
        guard size <= Self.largestBody else { throw FrameError(.illegalLength, "a body of \(size) bytes") }
        guard let serial = UInt32(exactly: frame.serial) else {
            throw FrameError(.malformed, "serial \(frame.serial)")
        }
        if frame.kind == .request, frame.type <= 0x401, frame.type != 0 {
            throw FrameError(.unknownType, "\(frame.type) is not the type of a request")
        }
        if frame.isErrorResponse { throw FrameError(.malformed, "error responses are not supported") }
        if frame.kind == .part, frame.type != 0, frame.type != 0x404 {
            throw FrameError(.unknownType, "\(frame.type) is not the type of a part")
        }
        output.append(integer: frame.kind == .part ? 0x404 : frame.type)
        output.append(integer: serial)
        output.append(integer: UInt32(size))
        output.append(frame.body)
    }

    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { Frame(.cancel, type: 0x401, serial: serial) }

    func ping(number: UInt64) -> Frame? { Frame(.ping, type: 0x1, serial: 1 + number % 49) }

    func pong(answering ping: Frame) -> Frame? { Frame(.pong, type: 0x1, serial: ping.serial) }

    var pongsLookLikePings: Bool { true }

    func serverSide() -> any FrameCodec {
        var codec = self
        codec.isServerSide = true
        return codec
    }
}
