import Trunkline

/// The bytes of hexadecimal `digits`. White space is ignored.
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

    /// Every frame of `bytes`.
    func decoded(_ bytes: [UInt8]) throws(FrameError) -> [Frame] {
        var codec = self
        var input = ReceiveBuffer(bytes)
        var frames: [Frame] = []
        try codec.decodeAll(&input, into: &frames)
        return frames
    }
}
