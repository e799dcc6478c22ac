import Trunkline

/// The bytes of hexadecimal `digits`; blanks between them are for the reader.
func hex(_ digits: String) -> [UInt8] {
    let values = digits.compactMap(\.hexDigitValue)
    return stride(from: 0, to: values.count, by: 2).map { UInt8(values[$0] * 16 + values[$0 + 1]) }
}

extension FrameCodec {
    /// The bytes of one frame.
    func encoded(_ frame: Frame) throws(FrameError) -> [UInt8] {
        var codec = self
        var output = SendBuffer()
        try codec.encode(frame, into: &output)
        return output.bytes
    }

    /// Every frame of `bytes`, and how many bytes are left.
    func decoded(_ bytes: some Sequence<UInt8>) throws(FrameError) -> (frames: [Frame], left: Int) {
        var codec = self
        var input = ReceiveBuffer(bytes)
        var frames: [Frame] = []
        try codec.decodeAll(&input, into: &frames)
        return (frames, input.count)
    }

    /// The error code that `bytes` are refused with.
    func refusal(of bytes: some Sequence<UInt8>) -> FrameError.Code? {
        do throws(FrameError) {
            _ = try decoded(bytes)
            return nil
        } catch {
            return error.code
        }
    }

    /// The error message that `bytes` are refused with.
    func message(of bytes: some Sequence<UInt8>) -> String? {
        do throws(FrameError) {
            _ = try decoded(bytes)
            return nil
        } catch {
            return error.message
        }
    }

    /// What is wrong with the frames of `bytes`, which are all there.
    func malformedReasons(of bytes: some Sequence<UInt8>) throws(FrameError) -> [FrameError.Code?] {
        try decoded(bytes).frames.map(\.malformedReason)
    }

    /// The error message that encoding `frame` is refused with.
    func complaint(about frame: Frame) -> String? {
        do throws(FrameError) {
            _ = try encoded(frame)
            return nil
        } catch {
            return error.message
        }
    }

    /// The error code that encoding `frame` is refused with.
    func refusal(of frame: Frame) -> FrameError.Code? {
        do throws(FrameError) {
            _ = try encoded(frame)
            return nil
        } catch {
            return error.code
        }
    }
}

extension ReceiveBuffer {
    /// Takes `bytes` as a socket would deliver them.
    mutating func receive(_ bytes: some Collection<UInt8>) {
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let count = unsafe fill { memory in
                let piece = rest.prefix(memory.count)
                unsafe memory.copyBytes(from: piece)
                return (piece.count, ())
            }.count
            rest = rest.dropFirst(count)
        }
    }
}
