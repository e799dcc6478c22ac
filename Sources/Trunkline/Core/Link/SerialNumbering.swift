/// How the serial numbers of a protocol are chosen: see `SerialNumberingCodec`.
package struct SerialNumbering: Sendable {
    /// Whether they are drawn at random.
    package var isRandom = false
    /// The number of bits of a serial beyond 64.
    package var extraBits = 0

    package init() {}

    package init(_ codec: any SerialNumberingCodec) {
        isRandom = codec.usesRandomSerials
        extraBits = min(max(64, codec.serialBits), 128) - 64
    }
}

/// The bits of the serials of one link beyond 64. They follow from the other bits and a secret of the link, so that they
/// need no memory. An attacker who has seen no frame of the link does not know them.
package struct SerialExtension: Sendable {
    private let secret: UInt64
    /// The bits that there are; 0 if serials have no more than 64.
    private let mask: UInt64

    package init(bits: Int = 0, secret: UInt64 = 0) {
        (mask, self.secret) = (bits <= 0 ? 0 : UInt64.max >> UInt64(64 - min(bits, 64)), secret)
    }

    package var isEmpty: Bool { mask == 0 }

    /// The bits above the 64 of `serial`.
    package func bits(of serial: SerialNumber) -> UInt64 {
        var generator = SeededGenerator(seed: serial ^ secret)
        _ = generator.next()
        return (generator.next() ^ secret) & mask
    }

    /// Completes the serial of a frame that is sent.
    package func complete(_ frame: inout Frame) { if !isEmpty { frame.highSerial = bits(of: frame.serial) } }

    /// Whether a received frame has the right bits beyond 64.
    package func matches(_ frame: Frame) -> Bool { isEmpty || frame.highSerial == bits(of: frame.serial) }
}
