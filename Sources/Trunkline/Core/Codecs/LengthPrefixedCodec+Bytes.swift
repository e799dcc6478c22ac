// MARK: - Bytes in

extension LengthPrefixedCodec {
    /// Takes one frame from the front of `input`; `nil` when it is not complete.
    ///
    /// Throws `illegalLength` for a length above the limit or below what the serial number and the type need, as soon as it
    /// is there, and `malformed` for a varint of more than ten bytes or 64 bits.
    public mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let (value, width) = try length.read(from: input) else { return nil }
        let least = leastBody
        let most = max(0, maximumFrameSize - width)
        let own = length.countsItself ? width : 0
        guard value >= UInt64(least + own), value <= UInt64(most + own) else {
            throw FrameError(.illegalLength, "the length is \(value), not within \(least + own)–\(most + own)")
        }
        let size = Int(value) - own
        guard input.count >= width + size else {
            input.await(width + size)
            return nil
        }
        input.skip(width)
        guard let body = input.readBytes(size) else { return nil }
        if let heartbeat = reading.heartbeat(of: body) { return heartbeat }
        var frame = Frame(.response, body: body)
        if let serial {
            frame.serial = try serial.number(in: body)
            if !serials.contains(frame.serial) { frame.kind = .push }
        }
        if let type { frame.type = UInt32(truncatingIfNeeded: try type.number(in: body)) }
        reading.apply(to: &frame)
        return frame
    }

    /// The least that a body must have. Heartbeats need no serial number, nor a type.
    private var leastBody: Int {
        let least = max(serial?.end ?? 0, type?.end ?? 0)
        guard let heartbeat = reading.heartbeat else { return least }
        return min(least, heartbeat.ping.count, heartbeat.pong.count)
    }
}

extension LengthPrefixedCodec.Place {
    /// The number that `body` has here.
    @inline(__always)
    fileprivate func number(in body: Bytes) throws(FrameError) -> UInt64 {
        guard end <= body.count else { throw FrameError(.illegalLength, "\(body.count) bytes have no byte \(end - 1)") }
        var number: UInt64 = 0
        for index in 0..<width {
            number = number << 8 | UInt64(body[order == .bigEndian ? offset + index : end - 1 - index])
        }
        return number
    }
}

extension LengthPrefixedCodec.Length {
    /// The length at the front of `input` and how many bytes it has; `nil` when it is not all there yet.
    @inline(__always)
    fileprivate func read(from input: borrowing ReceiveBuffer) throws(FrameError) -> (value: UInt64, width: Int)? {
        guard let width else { return try input.varint() }
        return input.integer(at: 0, width: width, order: order).map { ($0, width) }
    }
}

// MARK: - Bytes out

extension LengthPrefixedCodec {
    /// Appends the length and the body of `frame`, with its serial number and type in their places.
    ///
    /// Throws `illegalLength` for a body that is too long, or too short to hold these; `malformed` for a serial number that
    /// does not fit its place; and `unknownType` for a type that does not, for a frame that its receiver would take for
    /// something else, for a ping without `heartbeat` and for a cancellation.
    public mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        let isPush = serial != nil && !serials.contains(frame.serial)
        let body = try reading.body(of: frame, takenFor: isPush ? .push : .response)
        try appendLength(of: body, to: &output)
        if frame.kind == .ping || frame.kind == .pong { return output.append(body) }
        switch (serial, type) {
        case (nil, nil): output.append(body)
        case (let serial?, let type?):
            let isFirst = serial.offset < type.offset
            let numbers = [(serial, frame.serial), (type, UInt64(frame.type))]
            try append(body, with: isFirst ? numbers : numbers.reversed(), to: &output)
        case (let serial?, nil): try append(body, with: CollectionOfOne((serial, frame.serial)), to: &output)
        case (nil, let type?): try append(body, with: CollectionOfOne((type, UInt64(frame.type))), to: &output)
        }
    }

    private func appendLength(of body: Bytes, to output: inout SendBuffer) throws(FrameError) {
        let size = body.count
        guard let width = length.width else {
            let start = output.appendedCount
            output.append(varint: UInt64(size))
            return try check(size, behind: output.appendedCount - start)
        }
        let value = UInt64(size + (length.countsItself ? width : 0))
        guard value <= UInt64.max >> UInt64(64 - 8 * width) else {
            throw FrameError(.illegalLength, "a length of \(width) bytes cannot say \(value)")
        }
        try check(size, behind: width)
        output.append(integer: value, width: width, order: length.order)
    }

    private func check(_ size: Int, behind width: Int) throws(FrameError) {
        guard size <= maximumFrameSize - width else {
            throw FrameError(.illegalLength, "\(size) bytes and their length are more than \(maximumFrameSize)")
        }
    }

    /// Appends `body` with `numbers` in their places, which are in ascending order.
    @inline(__always)
    private func append(
        _ body: Bytes,
        with numbers: some Collection<(place: Place, value: UInt64)>,
        to output: inout SendBuffer
    ) throws(FrameError) {
        var start = 0
        for (place, value) in numbers {
            guard place.end <= body.count else {
                throw FrameError(
                    .illegalLength,
                    "\(body.count) bytes have no byte \(place.end - 1)"
                )
            }
            guard value <= place.maximum else {
                throw FrameError(.malformed, "the number \(value) does not fit in \(place.width) bytes")
            }
            output.append(body.shared(start..<place.offset))
            output.append(integer: value, width: place.width, order: place.order)
            start = place.end
        }
        output.append(body.shared(start..<body.count))
    }
}

extension Bytes {
    /// A part of the bytes that does not outlive them by much.
    fileprivate func shared(_ range: Range<Int>) -> Bytes {
        Bytes(sharing: storage, in: start + range.lowerBound..<start + range.upperBound)
    }
}
