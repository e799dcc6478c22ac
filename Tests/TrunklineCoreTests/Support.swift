import Trunkline

/// The bytes of hexadecimal `digits`. Other characters are ignored.
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

    /// All frames of `bytes`, and the number of bytes left.
    func decoded(_ bytes: some Sequence<UInt8>) throws(FrameError) -> (frames: [Frame], left: Int) {
        var codec = self
        var input = ReceiveBuffer(bytes)
        var frames: [Frame] = []
        try codec.decodeAll(&input, into: &frames)
        return (frames, input.count)
    }

    /// The code of the error with which decoding `bytes` fails.
    func refusal(of bytes: some Sequence<UInt8>) -> FrameError.Code? {
        do throws(FrameError) {
            _ = try decoded(bytes)
            return nil
        } catch {
            return error.code
        }
    }

    /// The message of the error with which decoding `bytes` fails.
    func message(of bytes: some Sequence<UInt8>) -> String? {
        do throws(FrameError) {
            _ = try decoded(bytes)
            return nil
        } catch {
            return error.message
        }
    }

    /// What is malformed in each frame of `bytes`, which must contain whole frames only.
    func malformedReasons(of bytes: some Sequence<UInt8>) throws(FrameError) -> [FrameError.Code?] {
        try decoded(bytes).frames.map(\.malformedReason)
    }

    /// The message of the error with which encoding `frame` fails.
    func complaint(about frame: Frame) -> String? {
        do throws(FrameError) {
            _ = try encoded(frame)
            return nil
        } catch {
            return error.message
        }
    }

    /// The code of the error with which encoding `frame` fails.
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
    /// Appends `bytes` as a socket would deliver them.
    mutating func receive(_ bytes: some Collection<UInt8>) {
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let count = unsafe fill { memory in
                let piece = rest.prefix(memory.count)
                unsafe memory.copyBytes(from: piece)
                return piece.count
            }
            rest = rest.dropFirst(count)
        }
    }
}
