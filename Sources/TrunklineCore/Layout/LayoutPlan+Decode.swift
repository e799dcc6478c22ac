extension LayoutPlan {
    // MARK: Before the body is awaited

    /// Checks what is there of an incomplete header; returns the whole frame's size once its length is there.
    func checkStart(of input: borrowing ReceiveBuffer, _ limits: Limits) throws(FrameError) -> Int? {
        let bytes = unsafe input.storage.span.bytes.extracting(input.lower..<input.upper)
        for range in headerConstants where range.lowerBound < bytes.byteCount {
            try checkConstants([range.clamped(to: 0..<bytes.byteCount)], of: header, in: bytes, at: 0)
        }
        guard length.offset + length.width <= bytes.byteCount else { return nil }
        return try overhead + bodySize(in: bytes, limits)
    }

    /// Checks all that is there of the frame in `input`, whose header is complete.
    ///
    /// Returns the body's size, and the numbers unless the body and the trailer are not all there.
    @inline(__always)
    func read(
        _ input: borrowing ReceiveBuffer,
        _ limits: Limits
    ) throws(FrameError) -> (bodySize: Int, numbers: Numbers?) {
        let bytes = unsafe input.storage.span.bytes.extracting(input.lower..<input.upper)
        try checkConstants(headerConstants, of: header, in: bytes, at: 0)
        try checkRepetitions(earlyRepetitions, in: bytes, Parts(trailer: 0))
        let bodySize = try bodySize(in: bytes, limits)
        let parts = Parts(trailer: header.count &+ bodySize)
        guard bytes.byteCount >= overhead &+ bodySize else { return (bodySize, nil) }
        if hasLateChecks { try checkEnd(of: bytes, parts) }
        return (bodySize, numbers(in: bytes, parts))
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
        guard limits.lengths.contains(value) else { throw limits.illegalLength(value) }
        return Int(truncatingIfNeeded: value) &- lengthOfEmpty
    }

    // MARK: Once the frame is complete

    /// Checks the trailer's constants, every checksum and then the repetitions that were not checked before.
    @inline(never)
    func checkEnd(of bytes: borrowing RawSpan, _ parts: Parts) throws(FrameError) {
        try checkConstants(trailerConstants, of: trailer, in: bytes, at: parts.trailer)
        for item in checksums {
            let covered = item.scope == .body ? 0 : header.count
            let computed = item.compute(
                bytes.extracting(0..<covered),
                bytes.extracting(header.count..<parts.trailer)
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
        if !named.isEmpty {
            numbers.fields = named.map { item in
                Frame.NamedField(name: item.name, value: item.slot.load(bytes, at: item.slot.position(in: parts)))
            }
        }
        return numbers
    }

    /// What a frame says besides its body.
    struct Numbers {
        var type: UInt32 = 0
        var serial: SerialNumber = 0
        var status: UInt32 = 0
        var fields: [Frame.NamedField] = []
    }
}

extension LayoutPlan.Limits {
    @inline(never)
    func illegalLength(_ value: UInt64) -> FrameError {
        FrameError(.illegalLength, "the length is \(value), not within \(lengths.lowerBound)–\(lengths.upperBound)")
    }

    @inline(never)
    func illegalBody(_ size: Int) -> FrameError {
        let (least, most) = (bodySizes.lowerBound, bodySizes.upperBound)
        return FrameError(.illegalLength, "the body has \(size) bytes, not within \(least)–\(most)")
    }
}

func hexadecimal(_ number: some BinaryInteger) -> String { "0x" + String(number, radix: 16) }
