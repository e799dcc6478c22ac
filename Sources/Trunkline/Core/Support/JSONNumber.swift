/// A number as JSON writes it (RFC 8259, section 6), in decimal: `digits` × 10^`exponent`. It loses no precision.
package struct JSONNumber {
    private let isNegative: Bool
    /// The significant digits, without zeros at either end. Empty for zero.
    private let digits: ArraySlice<UInt8>
    private let exponent: Int

    /// Reads `text`, which must be one number: `+1`, `-01`, `.5` and `1.` are not. `nil` if it is not.
    package init?(_ text: some Sequence<UInt8>) {
        var rest = Array(text)[...]
        isNegative = Self.take("-", from: &rest)
        let whole = Self.takeDigits(from: &rest)
        guard !whole.isEmpty, whole.count == 1 || whole.first != 0 else { return nil }
        var fraction: [UInt8] = []
        if Self.take(".", from: &rest) {
            fraction = Self.takeDigits(from: &rest)
            guard !fraction.isEmpty else { return nil }
        }
        var power = 0
        if Self.take("e", from: &rest) || Self.take("E", from: &rest) {
            let isSmall = Self.take("-", from: &rest)
            if !isSmall { _ = Self.take("+", from: &rest) }
            let digits = Self.takeDigits(from: &rest)
            guard !digits.isEmpty else { return nil }
            // A larger exponent makes no difference: no text has that many digits.
            power = digits.reduce(0) { min($0 * 10 + Int($1), 1 << 40) } * (isSmall ? -1 : 1)
        }
        guard rest.isEmpty else { return nil }
        var digits = (whole + fraction).drop { $0 == 0 }
        var exponent = power - fraction.count
        while digits.last == 0 {
            digits.removeLast()
            exponent += 1
        }
        (self.digits, self.exponent) = (digits, exponent)
    }

    private static func take(_ character: Unicode.Scalar, from rest: inout ArraySlice<UInt8>) -> Bool {
        guard rest.first == UInt8(ascii: character) else { return false }
        rest.removeFirst()
        return true
    }

    /// Returns the values of the digits with which `rest` begins.
    private static func takeDigits(from rest: inout ArraySlice<UInt8>) -> [UInt8] {
        let digits = rest.prefix { (0x30...0x39).contains($0) }
        rest = rest.dropFirst(digits.count)
        return digits.map { $0 - 0x30 }
    }

    /// Returns this number × 10^`power`. `nil` if that is out of range, or not an integer.
    ///
    /// - Parameters:
    ///   - power: A power of ten: 9 turns seconds into nanoseconds.
    ///   - cutsDecimals: Whether the decimals of the result are dropped.
    package func integer<Value: FixedWidthInteger>(power: Int = 0, cutsDecimals: Bool = false) -> Value? {
        let zeros = exponent + power
        guard zeros >= 0 || cutsDecimals || digits.isEmpty else { return nil }
        let kept = zeros < 0 ? digits.dropLast(-zeros) : digits
        guard !kept.isEmpty else { return 0 }
        // `UInt64.max` has 20 digits.
        guard kept.count + max(0, zeros) <= 20 else { return nil }
        var value: Value = 0
        for digit in kept + repeatElement(0, count: max(0, zeros)) {
            let (product, overflows) = value.multipliedReportingOverflow(by: 10)
            let (sum, sumOverflows) =
                isNegative
                ? product.subtractingReportingOverflow(Value(digit)) : product.addingReportingOverflow(Value(digit))
            guard !overflows, !sumOverflows else { return nil }
            value = sum
        }
        return value
    }
}
