// How numbers are read from text. The initializers of the standard library accept more than a protocol, a configuration file
// or an argument means: `UInt16("+80")` is 80, `UInt8("-0")` is 0, `Double("0x1p3")` is 8. They are used only for text that a
// parser has checked already, such as the numbers of JSON in a recording.

extension FixedWidthInteger {
    /// Reads a number that consists of digits only; `nil` for empty text, any other character, and a number that does not fit.
    ///
    /// - Parameters:
    ///   - text: The digits, without a sign, a prefix or spaces.
    ///   - radix: 2 to 16. Default 10.
    ///   - allowingZeros: Whether zeros may precede the number. Default false: programs disagree about what `010` means.
    package init?(strict text: some StringProtocol, radix: Int = 10, allowingZeros: Bool = false) {
        var (value, count, isFirstZero): (Self, Int, Bool) = (0, 0, false)
        for byte in text.utf8 {
            guard let digit = byte.digitValue, digit < radix, let factor = Self(exactly: radix),
                let digit = Self(exactly: digit)
            else { return nil }
            let (product, overflows) = value.multipliedReportingOverflow(by: factor)
            let (sum, carries) = product.addingReportingOverflow(digit)
            guard !overflows, !carries else { return nil }
            if count == 0 { isFirstZero = digit == 0 }
            (value, count) = (sum, count + 1)
        }
        guard count == 1 || count > 1 && (allowingZeros || !isFirstZero) else { return nil }
        self = value
    }

    /// Reads a number that consists of digits only, or of a minus sign and digits; `nil` for anything else.
    package init?(strictSigned text: some StringProtocol) {
        guard text.utf8.first == UInt8(ascii: "-") else {
            self.init(strict: text)
            return
        }
        // The least number has no positive counterpart.
        guard let magnitude = Magnitude(strict: text.dropFirst()), magnitude > 0,
            let negative = Self(exactly: 0 - Int128(clamping: magnitude))
        else { return nil }
        self = negative
    }
}

extension Double {
    /// Reads a decimal number: digits, and possibly a point and digits. `nil` for anything else, also for signs, exponents,
    /// infinity and NaN, and for a number that is too large.
    package init?(strict text: some StringProtocol) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy { 0x30...0x39 ~= $0 } }), let value = Double(text),
            value.isFinite
        else { return nil }
        self = value
    }
}

extension UInt8 {
    /// The value of a digit in ASCII, up to that of `f` or `F`.
    fileprivate var digitValue: Int? {
        switch self {
        case 0x30...0x39: Int(self) - 0x30
        case 0x41...0x46: Int(self) - 0x37
        case 0x61...0x66: Int(self) - 0x57
        default: nil
        }
    }
}
