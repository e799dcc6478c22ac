extension LayoutPlan {
    // MARK: Before the body is awaited

    /// Checks what is there of an incomplete header; returns the whole frame's size once its length is there.
    func checkStart(of input: borrowing ReceiveBuffer, _ limits: Limits) throws(FrameError) -> Int? {
        let bytes = unsafe input.storage.span.bytes.extracting(input.lower..<input.upper)
        if let varint {
            guard let parts = try variableParts(of: bytes, varint, limits) else { return nil }
            return parts.trailer + trailer.count
        }
        for range in headerConstants where range.lowerBound < bytes.byteCount {
            try checkConstants([range.clamped(to: 0..<bytes.byteCount)], of: header, in: bytes, at: 0)
        }
        guard length.offset + length.width <= bytes.byteCount else { return nil }
        return try overhead + bodySize(in: bytes, limits)
    }

    /// Checks all that is there of the frame in `input`, whose header is complete unless its length is a varint.
    ///
    /// Returns where its parts are, once that is known, and the numbers unless the body and the trailer are not all
    /// there.
    @inline(__always)
    func read(
        _ input: borrowing ReceiveBuffer,
        _ limits: Limits
    ) throws(FrameError) -> (parts: Parts?, numbers: Numbers?) {
        let bytes = unsafe input.storage.span.bytes.extracting(input.lower..<input.upper)
        let parts: Parts
        if let varint {
            guard let found = try variableParts(of: bytes, varint, limits) else { return (nil, nil) }
            parts = found
        } else {
            try checkConstants(headerConstants, of: header, in: bytes, at: 0)
            let size = header.count
            try checkRepetitions(earlyRepetitions, in: bytes, Parts(header: 0, body: size, trailer: size))
            parts = Parts(header: 0, body: size, trailer: size &+ (try bodySize(in: bytes, limits)))
        }
        guard bytes.byteCount >= parts.trailer &+ trailer.count else { return (parts, nil) }
        if hasLateChecks { try checkEnd(of: bytes, parts) }
        return (parts, numbers(in: bytes, parts))
    }

    /// Checks that `bytes`, from `start` on, are those of `template` in every one of `ranges`.
    @inline(__always)
    func checkConstants(
        _ ranges: [Range<Int>],
        of template: [UInt8],
        in bytes: borrowing RawSpan,
        at start: Int
    ) throws(FrameError) {
        for range in ranges {
            for index in range {
                let byte = unsafe bytes.unsafeLoad(fromByteOffset: start + index, as: UInt8.self)
                if byte != template[index] {
                    throw FrameError(
                        .unexpectedBytes,
                        "byte \(start + index) is \(hexadecimal(byte)) instead of \(hexadecimal(template[index]))"
                    )
                }
            }
        }
    }

    /// Checks that numbers in several places are the same in all of them.
    @inline(__always)
    func checkRepetitions(
        _ repetitions: [Repetition],
        in bytes: borrowing RawSpan,
        _ parts: Parts
    ) throws(FrameError) {
        for repetition in repetitions {
            let slot = repetition.slot
            let again = slot.load(bytes, at: slot.position(in: parts))
            let first = repetition.original.load(bytes, at: repetition.original.position(in: parts))
            if again != first {
                throw FrameError(
                    .repetitionMismatch,
                    "the \(repetition.what) is \(hexadecimal(first)), its repetition \(hexadecimal(again))"
                )
            }
        }
    }

    /// The body's size in bytes, from the length field; the header must be there up to its end.
    @inline(__always)
    func bodySize(in bytes: borrowing RawSpan, _ limits: Limits) throws(FrameError) -> Int {
        let value = length.load(bytes, at: length.offset)
        guard limits.lengths.contains(value) else { throw limits.illegalLength(value, lengthOfEmpty) }
        return Int(truncatingIfNeeded: value) &- lengthOfEmpty
    }

    // MARK: Once the frame is complete

    /// Checks the trailer's constants, every checksum and then the repetitions that were not checked before.
    @inline(never)
    func checkEnd(of bytes: borrowing RawSpan, _ parts: Parts) throws(FrameError) {
        try checkConstants(trailerConstants, of: trailer, in: bytes, at: parts.trailer)
        for item in checksums {
            let computed = item.compute(
                bytes.extracting(0..<(item.scope == .body ? 0 : parts.body)),
                bytes.extracting(parts.body..<parts.trailer)
            )
            let received = item.load(bytes, at: item.slot.position(in: parts))
            if received != computed {
                let computed = computed?.description ?? "nothing"
                throw FrameError(.checksumMismatch, "\(item.checksum) is \(received), computed \(computed)")
            }
        }
        try checkRepetitions(lateRepetitions, in: bytes, parts)
    }

    /// Every number that a complete frame holds.
    @inline(__always)
    private func numbers(in bytes: borrowing RawSpan, _ parts: Parts) -> Numbers {
        var numbers = Numbers()
        if let type { numbers.type = UInt32(truncatingIfNeeded: type.load(bytes, at: type.position(in: parts))) }
        if let serial { numbers.serial = serial.load(bytes, at: serial.position(in: parts)) }
        if let status {
            numbers.status = UInt32(truncatingIfNeeded: status.load(bytes, at: status.position(in: parts)))
        }
        if let kind { numbers.kind = kind.slot.load(bytes, at: kind.slot.position(in: parts)) }
        if !named.isEmpty { numbers.fields = fields(in: bytes, parts) }
        return numbers
    }

    private func fields(in bytes: borrowing RawSpan, _ parts: Parts) -> [Frame.NamedField] {
        var fields: [Frame.NamedField] = []
        fields.reserveCapacity(named.count)
        for item in named {
            let position = item.slot.position(in: parts)
            if item.isBytes {
                let run = unsafe bytes.extracting(position..<position + item.slot.width).withUnsafeBytes {
                    unsafe Array($0)
                }
                fields.append(Frame.NamedField(name: item.name, value: .bytes(Bytes(run))))
            } else {
                fields.append(Frame.NamedField(name: item.name, value: .number(item.slot.load(bytes, at: position))))
            }
        }
        return fields
    }

    /// What a frame says besides its body.
    struct Numbers {
        var type: UInt32 = 0
        var serial: SerialNumber = 0
        var status: UInt32 = 0
        var kind: UInt64 = 0
        var fields: [Frame.NamedField] = []
    }
}

func hexadecimal(_ number: some BinaryInteger) -> String { "0x" + String(number, radix: 16) }
