/// A number as JSON writes it (RFC 8259, section 6), in decimal: `digits` × 10^`exponent`. It loses no precision.
package struct JSONNumber {
    private let isNegative: Bool
    /// Without zeros at either end. Empty for zero.
    private let digits: ArraySlice<UInt8>
    private let exponent: Int

    /// `nil` unless `text` is one number: `+1`, `-01`, `.5` and `1.` are none.
    package init?(_ text: some Sequence<UInt8>) { self.init(utf8: [UInt8](copying: text)) }

    private init?(utf8 text: [UInt8]) {
        var place = 0
        isNegative = Self.take("-", in: text, at: &place)
        let whole = Self.takeDigits(in: text, at: &place)
        guard !whole.isEmpty, whole.count == 1 || text[whole.lowerBound] != UInt8(ascii: "0") else { return nil }
        var fraction = place..<place
        if Self.take(".", in: text, at: &place) {
            fraction = Self.takeDigits(in: text, at: &place)
            guard !fraction.isEmpty else { return nil }
        }
        var power = 0
        if Self.take("e", in: text, at: &place) || Self.take("E", in: text, at: &place) {
            let isSmall = Self.take("-", in: text, at: &place)
            if !isSmall { _ = Self.take("+", in: text, at: &place) }
            let digits = Self.takeDigits(in: text, at: &place)
            guard !digits.isEmpty else { return nil }
            // A larger exponent makes no difference: no text has that many digits.
            for index in digits { power = min(power * 10 + Int(text[index] &- 0x30), 1 << 40) }
            if isSmall { power = -power }
        }
        guard place == text.count else { return nil }
        var all: [UInt8] = []
        all.reserveCapacity(whole.count + fraction.count)
        for part in [whole, fraction] {
            for index in part { all.append(text[index] &- 0x30) }
        }
        var digits = all.drop { $0 == 0 }
        var exponent = power - fraction.count
        while digits.last == 0 {
            digits.removeLast()
            exponent += 1
        }
        (self.digits, self.exponent) = (digits, exponent)
    }

    private static func take(_ character: Unicode.Scalar, in text: [UInt8], at place: inout Int) -> Bool {
        guard place < text.count, text[place] == UInt8(ascii: character) else { return false }
        place += 1
        return true
    }

    private static func takeDigits(in text: [UInt8], at place: inout Int) -> Range<Int> {
        let start = place
        while place < text.count, text[place] &- 0x30 < 10 { place += 1 }
        return start..<place
    }

    /// Returns this number × 10^`power`; `nil` if that is out of range or, unless `cutsDecimals`, not an integer.
    package func integer<Value: FixedWidthInteger>(power: Int = 0, cutsDecimals: Bool = false) -> Value? {
        let zeros = exponent + power
        guard zeros >= 0 || cutsDecimals || digits.isEmpty else { return nil }
        let kept = zeros < 0 ? digits.dropLast(-zeros) : digits
        guard !kept.isEmpty else { return 0 }
        // As many digits as the largest value may have: 20 for `UInt64.max`.
        guard kept.count + max(0, zeros) <= Value.bitWidth * 3 / 10 + 1 else { return nil }
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
