// Lengths that are as wide as they need to be. What follows one in the header moves with it.

/// How many bytes `value` takes with seven bits in each.
func varintWidth(_ value: UInt64) -> Int { max(1, (UInt64.bitWidth - value.leadingZeroBitCount + 6) / 7) }

extension LayoutPlan {
    /// Checks what is there of a frame whose length is a varint; returns where its parts are once the length is there.
    @inline(never)
    func variableParts(
        of bytes: borrowing RawSpan,
        _ order: ByteOrder,
        _ limits: Limits
    ) throws(FrameError) -> Parts? {
        try checkVariable(headerConstants.filter { $0.upperBound <= length.offset }, of: bytes, extra: 0)
        let (value, width): (UInt64, Int)
        switch bytes.varint(at: length.offset, order, upTo: limits.lengths.upperBound) {
        case .whole(let number, let count): (value, width) = (number, count)
        case .incomplete: return nil
        case .aboveMaximum: throw FrameError(.illegalLength, "the length is above \(limits.lengths.upperBound)")
        case .endless: throw FrameError(.illegalLength, "the length has more than ten bytes")
        }
        guard limits.lengths.contains(value) else { throw limits.illegalLength(value, lengthOfEmpty) }
        let extra = width - 1
        let body = Int(value) - lengthOfEmpty - (countsItself ? extra : 0)
        guard limits.bodySizes.contains(body), body + overhead + extra <= limits.frameSize else {
            throw body < 0 ? limits.illegalLength(value, lengthOfEmpty) : limits.illegalBody(body)
        }
        try checkVariable(headerConstants.filter { $0.lowerBound > length.offset }, of: bytes, extra: extra)
        let size = header.count + extra
        let parts = Parts(header: 0, extra: extra, body: size, trailer: size + body)
        if bytes.byteCount >= size { try checkRepetitions(earlyRepetitions, in: bytes, parts) }
        return parts
    }

    /// Checks those of `ranges` that are there, `extra` bytes further on than in `header`.
    private func checkVariable(
        _ ranges: [Range<Int>],
        of bytes: borrowing RawSpan,
        extra: Int
    ) throws(FrameError) {
        let there = 0..<max(0, bytes.byteCount - extra)
        try checkConstants(ranges.map { $0.clamped(to: there) }, of: header, in: bytes, at: extra)
    }

    /// Appends the header of a frame with `bodySize` bytes of body, which is within the limits, to `output`; returns how
    /// many bytes it is longer than `header`.
    @inline(never)
    func appendVariableHeader(
        bodySize: Int,
        _ order: ByteOrder,
        _ limits: Limits,
        to output: inout [UInt8]
    ) throws(FrameError) -> Int {
        var value = UInt64(bodySize + lengthOfEmpty)
        var extra = 0
        while varintWidth(value) > extra + 1 {
            extra += 1
            if countsItself { value += 1 }
        }
        guard bodySize + overhead + extra <= limits.frameSize else { throw limits.illegalBody(bodySize) }
        output.append(contentsOf: header[..<length.offset])
        for index in 0...extra {
            let shift = UInt64(7 * (order == .littleEndian ? index : extra - index))
            output.append(UInt8(truncatingIfNeeded: value >> shift & 0x7f) | (index < extra ? 0x80 : 0))
        }
        output.append(contentsOf: header[(length.offset + 1)...])
        return extra
    }
}
