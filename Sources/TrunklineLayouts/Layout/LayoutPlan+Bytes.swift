import TrunklineCore

extension LayoutPlan {
    /// Checks what has arrived. Returns the positions of the parts as soon as the length has arrived.
    @inline(__always)
    func check(_ input: borrowing ReceiveBuffer) throws(FrameError) -> (parts: FrameParts, isComplete: Bool)? {
        let bytes = unsafe input.storage.span.bytes.extracting(input.lower..<input.upper)
        guard let parts = try parts(of: bytes) else { return nil }
        let isComplete = bytes.byteCount >= parts.trailer &+ shape.trailer.count
        if isComplete, hasLateChecks { try checkEnd(of: bytes, parts) }
        return (parts, isComplete)
    }

    @inline(__always)
    private func parts(of bytes: borrowing RawSpan) throws(FrameError) -> FrameParts? {
        if let varint = shape.varint { return try variableParts(of: bytes, varint) }
        var parts = FrameParts(body: shape.header.count, trailer: shape.header.count)
        if bytes.byteCount >= shape.header.count {
            try checkConstants(shape.headerConstants, of: shape.header, in: bytes, at: 0)
            try checkRepetitions(inTrailer: false, in: bytes, parts)
        } else {
            try checkPresent(bytes) { _ in true }
            guard shape.length.offset + shape.length.width <= bytes.byteCount else { return nil }
        }
        parts.trailer = parts.body &+ (try bodySize(in: bytes))
        return parts
    }

    /// The header must have arrived up to the end of its length field.
    @inline(__always)
    private func bodySize(in bytes: borrowing RawSpan) throws(FrameError) -> Int {
        let value = shape.length.load(bytes, at: shape.length.offset)
        guard limits.lengths.contains(value) else { throw limits.illegalLength(value, shape.lengthOfEmpty) }
        return Int(truncatingIfNeeded: value) &- shape.lengthOfEmpty
    }

    @inline(never)
    private func variableParts(of bytes: borrowing RawSpan, _ order: ByteOrder) throws(FrameError) -> FrameParts? {
        let offset = shape.length.offset
        try checkPresent(bytes) { $0.upperBound <= offset }
        let (value, width): (UInt64, Int)
        switch bytes.varint(at: offset, order, upTo: limits.lengths.upperBound) {
        case .whole(let number, let count): (value, width) = (number, count)
        case .incomplete: return nil
        case .aboveMaximum:
            guard case .whole(let value, _) = bytes.varint(at: offset, order, upTo: .max) else {
                throw limits.excessiveLength(nil)
            }
            throw limits.excessiveLength(value)
        case .endless: throw FrameError(.illegalLength, "the length field is a varint of more than ten bytes")
        }
        guard limits.lengths.contains(value) else { throw limits.illegalLength(value, shape.lengthOfEmpty) }
        let extra = width - 1
        let body = Int(value) - shape.lengthOfEmpty - (shape.countsItself ? extra : 0)
        guard limits.bodySizes.contains(body), body + shape.overhead + extra <= limits.frameSize else {
            throw body < 0 ? limits.illegalLength(value, shape.lengthOfEmpty) : limits.illegalBody(body)
        }
        try checkPresent(bytes, extra: extra) { $0.lowerBound > offset }
        let size = shape.header.count + extra
        let parts = FrameParts(extra: extra, body: size, trailer: size + body)
        if bytes.byteCount >= size { try checkRepetitions(inTrailer: false, in: bytes, parts) }
        return parts
    }

    @inline(__always)
    private func checkPresent(
        _ bytes: borrowing RawSpan,
        extra: Int = 0,
        _ isMeant: (Range<Int>) -> Bool
    ) throws(FrameError) {
        let present = 0..<max(0, bytes.byteCount - extra)
        for range in shape.headerConstants where isMeant(range) {
            try checkConstant(range.clamped(to: present), of: shape.header, in: bytes, at: extra)
        }
    }

    @inline(__always)
    private func checkConstants(
        _ ranges: [Range<Int>],
        of template: [UInt8],
        in bytes: borrowing RawSpan,
        at start: Int
    ) throws(FrameError) {
        for range in ranges { try checkConstant(range, of: template, in: bytes, at: start) }
    }

    @inline(__always)
    private func checkConstant(
        _ range: Range<Int>,
        of template: [UInt8],
        in bytes: borrowing RawSpan,
        at start: Int
    ) throws(FrameError) {
        for index in range {
            let byte = unsafe bytes.unsafeLoad(fromByteOffset: start + index, as: UInt8.self)
            if byte != template[index] {
                let (found, expected) = (hexadecimal(byte), hexadecimal(template[index]))
                throw FrameError(.unexpectedBytes, "byte \(start + index) is \(found) instead of \(expected)")
            }
        }
    }

    @inline(__always)
    private func checkRepetitions(
        inTrailer: Bool,
        in bytes: borrowing RawSpan,
        _ parts: FrameParts
    ) throws(FrameError) {
        for repetition in shape.repetitions where repetition.slot.isInTrailer == inTrailer {
            let again = repetition.slot.load(bytes, parts)
            let first = repetition.original.load(bytes, parts)
            if again != first {
                let message = "is \(hexadecimal(first)), but its repetition is \(hexadecimal(again))"
                throw FrameError(.repetitionMismatch, "the \(repetition.what) \(message)")
            }
        }
    }

    @inline(never)
    private func checkEnd(of bytes: borrowing RawSpan, _ parts: FrameParts) throws(FrameError) {
        try checkConstants(shape.trailerConstants, of: shape.trailer, in: bytes, at: parts.trailer)
        for item in shape.checksums { try item.check(bytes, parts) }
        try checkRepetitions(inTrailer: true, in: bytes, parts)
    }

    @inline(__always)
    func header(of input: borrowing ReceiveBuffer, _ parts: FrameParts) -> (frame: Frame, kind: UInt64) {
        let bytes = unsafe input.storage.span.bytes.extracting(input.lower..<input.upper)
        var frame = Frame(.response)
        if let type = shape.type { frame.type = UInt32(truncatingIfNeeded: type.load(bytes, parts)) }
        if let serial = shape.serial { frame.serial = serial.load(bytes, parts) }
        if let status = shape.status { frame.status = UInt32(truncatingIfNeeded: status.load(bytes, parts)) }
        if !shape.named.isEmpty { frame.setSortedFields(fields(in: bytes, parts)) }
        if let high = shape.highSerial { frame.highSerial = high.load(bytes, parts) }
        return (frame, shape.kind?.slot.load(bytes, parts) ?? 0)
    }

    private func fields(in bytes: borrowing RawSpan, _ parts: FrameParts) -> [Frame.NamedField] {
        var fields: [Frame.NamedField] = []
        fields.reserveCapacity(shape.named.count)
        for item in shape.named {
            if item.isBytes {
                let run = Bytes(item.slot.loadBytes(bytes, parts))
                fields.append(Frame.NamedField(name: item.name, value: .bytes(run)))
            } else {
                fields.append(Frame.NamedField(name: item.name, value: .number(item.slot.load(bytes, parts))))
            }
        }
        return fields
    }

    /// Returns by how many bytes the header is longer than its template.
    @inline(never)
    func appendVariableHeader(bodySize: Int, _ order: ByteOrder, to output: inout [UInt8]) throws(FrameError) -> Int {
        var value = UInt64(bodySize + shape.lengthOfEmpty)
        var extra = 0
        while varintWidth(value) > extra + 1 {
            extra += 1
            if shape.countsItself { value += 1 }
        }
        guard bodySize + shape.overhead + extra <= limits.frameSize else { throw limits.illegalBody(bodySize) }
        output.append(contentsOf: shape.header[..<shape.length.offset])
        for index in 0...extra {
            let shift = UInt64(7 * (order == .littleEndian ? index : extra - index))
            output.append(UInt8(truncatingIfNeeded: value >> shift & 0x7f) | (index < extra ? 0x80 : 0))
        }
        output.append(contentsOf: shape.header[(shape.length.offset + 1)...])
        return extra
    }

    @inline(__always)
    func writeNumbers(
        of frame: borrowing Frame,
        type number: UInt32,
        isFromServer: Bool,
        at parts: FrameParts,
        into bytes: inout MutableRawSpan
    ) throws(FrameError) {
        if let type = shape.type {
            try write(UInt64(number), in: type, "type", orThrow: .unknownType, parts, into: &bytes)
        }
        if let serial = shape.serial { try write(frame.serial, in: serial, "serial", parts, into: &bytes) }
        if let high = shape.highSerial { try write(frame.highSerial, in: high, "serial", parts, into: &bytes) }
        if let status = shape.status { try write(UInt64(frame.status), in: status, "status", parts, into: &bytes) }
        if shape.varint == nil {
            let count = UInt64(truncatingIfNeeded: frame.body.count &+ shape.lengthOfEmpty)
            shape.length.store(count, into: &bytes, parts)
        }
        if let kind = shape.kind, let number = kind.number(of: frame.kind, isFromServer: isFromServer) {
            kind.slot.store(number, into: &bytes, parts)
        }
        for item in shape.repetitions {
            item.slot.store(item.original.load(bytes.bytes, parts), into: &bytes, parts)
        }
        for item in shape.named {
            if !item.isBytes {
                try write(frame[item.name] ?? item.initial, in: item.slot, item.name, parts, into: &bytes)
            } else if let run = frame[bytes: item.name] {
                item.slot.storeBytes(run, into: &bytes, parts)
            }
        }
    }

    @inline(__always)
    private func write(
        _ value: UInt64,
        in slot: Slot,
        _ name: String,
        orThrow code: FrameError.Code = .malformed,
        _ parts: FrameParts,
        into bytes: inout MutableRawSpan
    ) throws(FrameError) {
        guard value <= slot.maximum else {
            throw FrameError(code, "\(name) \(value) does not fit in \(byteSize(slot.width))")
        }
        slot.store(value, into: &bytes, parts)
    }

    /// Called last, because checksums may cover the header.
    @inline(never)
    func writeChecksums(of body: Bytes, at parts: FrameParts, into bytes: inout MutableRawSpan) throws(FrameError) {
        let body = unsafe body.storage.span.bytes.extracting(body.start..<body.start + body.count)
        for item in shape.checksums { try item.write(of: body, into: &bytes, parts) }
    }
}

func varintWidth(_ value: UInt64) -> Int { max(1, (UInt64.bitWidth - value.leadingZeroBitCount + 6) / 7) }

extension LayoutShape.ChecksumSlot {
    fileprivate func check(_ bytes: borrowing RawSpan, _ parts: FrameParts) throws(FrameError) {
        let header = bytes.extracting(0..<(scope == .body ? 0 : parts.body))
        let body = bytes.extracting(parts.body..<parts.trailer)
        switch checksum.algorithm {
        case .integer(let compute):
            let (received, computed) = (slot.load(bytes, parts), compute(header, body))
            if received != computed { throw mismatch(hexadecimal(received), hexadecimal(computed)) }
        case .bytes(let compute):
            let (received, computed) = (slot.loadBytes(bytes, parts), compute(header, body))
            if received != computed {
                let digits = computed?.count == slot.width ? computed?.map(twoDigits).joined() : nil
                throw mismatch(received.map(twoDigits).joined(), digits ?? "no valid value")
            }
        case .unavailable:
            throw mismatch("present", "nothing")
        }
    }

    private func mismatch(_ received: String, _ computed: String) -> FrameError {
        FrameError(.checksumMismatch, "\(checksum.name) is \(received), computed \(computed)")
    }

    private var noChecksum: FrameError {
        FrameError(.malformed, "the checksum \(checksum.name) did not return \(slot.width) bytes")
    }

    fileprivate func write(
        of body: borrowing RawSpan,
        into bytes: inout MutableRawSpan,
        _ parts: FrameParts
    ) throws(FrameError) {
        let header = parts.header..<(scope == .body ? parts.header : parts.body)
        switch checksum.algorithm {
        case .integer(let compute):
            let result = compute(bytes.bytes.extracting(header), body)
            slot.store(result, into: &bytes, parts)
        case .bytes(let compute):
            let result = compute(bytes.bytes.extracting(header), body)
            guard let result, result.count == slot.width else { throw noChecksum }
            slot.storeBytes(result, into: &bytes, parts)
        case .unavailable:
            throw noChecksum
        }
    }
}
