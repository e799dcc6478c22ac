// The initializers of the standard library accept more than a protocol means: `UInt16("+80")` is 80, `UInt8("-0")` is
// 0, `Double("0x1p3")` is 8. They are used only for text that a parser has checked.

extension FixedWidthInteger {
    /// Reads digits only. By default zeros may not precede the number: programs disagree about what `010` means.
    package init?(strict text: some StringProtocol, radix: Int = 10, allowingZeros: Bool = false) {
        guard let value = number(in: [UInt8](copying: text.utf8), radix: UInt64(radix), allowingZeros: allowingZeros)
        else {
            return nil
        }
        self.init(exactly: value)
    }

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

/// Not generic, because other modules would run that for each digit.
private func number(in digits: [UInt8], radix: UInt64, allowingZeros: Bool) -> UInt64? {
    guard let first = digits.first, digits.count == 1 || allowingZeros || first != UInt8(ascii: "0") else { return nil }
    var value: UInt64 = 0
    for byte in digits {
        guard let digit = byte.hexadecimalValue.map({ UInt64($0) }), digit < radix else { return nil }
        let (product, overflows) = value.multipliedReportingOverflow(by: radix)
        let (sum, carries) = product.addingReportingOverflow(digit)
        guard !overflows, !carries else { return nil }
        value = sum
    }
    return value
}

extension Double {
    /// Reads digits, and possibly a point and digits: no signs, exponents, infinity or NaN.
    package init?(strict text: some StringProtocol) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy { 0x30...0x39 ~= $0 } }), let value = Double(text),
            value.isFinite
        else { return nil }
        self = value
    }
}
