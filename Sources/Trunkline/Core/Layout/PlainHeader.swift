/// A header of type, serial and length, four bytes each, big-endian, with nothing else around the body: the commonest
/// layout of all, read without asking for every frame what it has.
extension FrameLayout {
    /// Appends at most `limit` complete frames of `input` to `frames`. Throws as `decode(_:)` does.
    public mutating func decodeAll(
        _ input: inout ReceiveBuffer,
        into frames: inout [Frame],
        limit: Int
    ) throws(FrameError) {
        let plan = inbound
        var rest = limit
        guard plan.isPlain, marks == nil else {
            while rest > 0, !input.isEmpty, let frame = try decode(&input) {
                rest &-= 1
                input.stopAwaiting()
                frames.append(frame)
            }
            return
        }
        while rest > 0, let frame = try decodePlain(&input, lengthOfEmpty: plan.lengthOfEmpty) {
            rest &-= 1
            input.stopAwaiting()
            frames.append(frame)
        }
    }

    /// As `decode`.
    @inline(__always)
    private func decodePlain(_ input: inout ReceiveBuffer, lengthOfEmpty: Int) throws(FrameError) -> Frame? {
        guard let length = input.integer(at: 8, as: UInt32.self) else { return nil }
        guard inboundLimits.lengths.contains(UInt64(length)) else {
            throw inboundLimits.illegalLength(UInt64(length), lengthOfEmpty)
        }
        let bodySize = Int(length) &- lengthOfEmpty
        guard input.count &- 12 >= bodySize else {
            input.await(12 &+ bodySize)
            return nil
        }
        guard
            let type = input.readInteger(as: UInt32.self),
            let serial = input.readInteger(as: UInt32.self),
            input.skip(4),
            let body = input.readBytes(bodySize)
        else { return nil }
        return Frame(roles.kind(ofType: type, isServerSide), type: type, serial: SerialNumber(serial), body: body)
    }
}
