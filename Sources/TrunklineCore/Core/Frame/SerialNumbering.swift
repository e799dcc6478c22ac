/// How the serial numbers of a protocol are chosen: see `SerialNumberingCodec`.
struct SerialNumbering: Sendable {
    var isRandom = false
    /// The bits of a serial beyond 64, at most 64. Small, because every client has room for it.
    var extraBits: UInt8 = 0

    init() {}

    package init(_ codec: any SerialNumberingCodec) {
        isRandom = codec.usesRandomSerials
        extraBits = UInt8(min(max(64, codec.serialBits), 128) - 64)
    }
}

/// The bits of the serials of one link beyond 64. They follow from the other bits and a secret of the link, so they
/// need no memory. An attacker who has seen no frame of the link does not know them.
struct SerialExtension: Sendable {
    /// `nil` if serials have no more than 64 bits. An object, because few links have it.
    private let rule: Rule?

    private final class Rule: Sendable {
        let secret: UInt64
        let mask: UInt64

        init(mask: UInt64, secret: UInt64) { (self.mask, self.secret) = (mask, secret) }
    }

    init(bits: Int = 0, secret: UInt64 = 0) {
        rule = bits <= 0 ? nil : Rule(mask: UInt64.max >> UInt64(64 - min(bits, 64)), secret: secret)
    }

    var isEmpty: Bool { rule == nil }

    func bits(of serial: SerialNumber) -> UInt64 {
        guard let rule else { return 0 }
        var generator = SeededGenerator(seed: serial ^ rule.secret)
        _ = generator.next()
        return (generator.next() ^ rule.secret) & rule.mask
    }

    func complete(_ frame: inout Frame) { if !isEmpty { frame.highSerial = bits(of: frame.serial) } }

    func matches(_ frame: Frame) -> Bool { isEmpty || frame.highSerial == bits(of: frame.serial) }
}
