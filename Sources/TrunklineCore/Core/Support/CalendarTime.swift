/// A time in UTC as people and logs write it: `2026-11-25T22:40:00.123Z` (RFC 3339).
package struct CalendarTime: Sendable {
    private let (second, fraction): (Int64, Int64)

    /// At most 292 years; other times are clamped.
    package init(_ timeSince1970: Duration) {
        (second, fraction) = timeSince1970.clampedNanoseconds.dividedDown(by: 1_000_000_000)
    }

    /// Clamped to the years 0 to 9999.
    package init(seconds: Int64) { (second, fraction) = (min(max(seconds, -62_167_219_200), 253_402_300_799), 0) }

    package var timeSince1970: Duration { .seconds(second) + .nanoseconds(fraction) }

    package func text(decimals: Int = 3) -> String {
        let (day, seconds) = second.dividedDown(by: 86_400)
        let date = Self.date(ofDay: day)
        func padded(_ number: Int64, _ count: Int) -> String {
            let text = "\(number)"
            return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
        }
        let decimals = decimals > 0 ? ".\(padded(fraction, 9).prefix(decimals))" : ""
        return "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))"
            + "T\(padded(seconds / 3600, 2)):\(padded(seconds / 60 % 60, 2)):\(padded(seconds % 60, 2))\(decimals)Z"
    }

    /// Takes any number of decimals, and other offsets than `Z`. `nil` for times that are not within 292 years of 1970.
    package init?(_ text: String) {
        var bytes = text.utf8[...]
        func number(_ count: Int, in range: ClosedRange<Int64>) -> Int64? {
            let digits = bytes.prefix(count)
            guard digits.count == count, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            bytes = bytes.dropFirst(count)
            let value = digits.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
            return range.contains(value) ? value : nil
        }
        func skip(_ characters: StaticString) -> Bool {
            guard let first = bytes.first, "\(characters)".utf8.contains(first) else { return false }
            bytes = bytes.dropFirst()
            return true
        }
        guard let year = number(4, in: 1600...2400), skip("-"), let month = number(2, in: 1...12), skip("-"),
            let day = number(2, in: 1...31), skip("Tt "), let hour = number(2, in: 0...23), skip(":"),
            let minute = number(2, in: 0...59), skip(":"), let second = number(2, in: 0...60)
        else { return nil }
        var fraction: Int64 = 0
        if skip(".") {
            let digits = bytes.prefix { (0x30...0x39).contains($0) }
            guard !digits.isEmpty else { return nil }
            bytes = bytes.dropFirst(digits.count)
            for index in 0..<9 {
                let digit = digits.dropFirst(index).first.map { Int64($0 - 0x30) } ?? 0
                fraction = fraction * 10 + digit
            }
        }
        var offset: Int64 = 0
        if !skip("Zz") {
            let sign: Int64 = bytes.first == UInt8(ascii: "-") ? -1 : 1
            guard skip("+-"), let hours = number(2, in: 0...23), skip(":"), let minutes = number(2, in: 0...59) else {
                return nil
            }
            offset = sign * (hours * 60 + minutes) * 60
        }
        guard bytes.isEmpty else { return nil }
        let seconds = Self.day(of: (year, month, day)) * 86_400 + hour * 3600 + minute * 60 + second - offset
        guard Int64(exactly: Int128(seconds) * 1_000_000_000 + Int128(fraction)) != nil else { return nil }
        (self.second, self.fraction) = (seconds, fraction)
    }

    // Hinnant, "chrono-compatible low-level date algorithms": years begin in March, so that a leap day is the last.

    private static func date(ofDay day: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let (era, dayOfEra) = (day + 719_468).dividedDown(by: 146_097)
        let year = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * year + year / 4 - year / 100)
        let month = (5 * dayOfYear + 2) / 153
        let isEarly = month >= 10
        return (
            year + era * 400 + (isEarly ? 1 : 0), isEarly ? month - 9 : month + 3, dayOfYear - (153 * month + 2) / 5 + 1
        )
    }

    private static func day(of date: (year: Int64, month: Int64, day: Int64)) -> Int64 {
        let (era, year) = (date.month <= 2 ? date.year - 1 : date.year).dividedDown(by: 400)
        let dayOfYear = (153 * (date.month > 2 ? date.month - 3 : date.month + 9) + 2) / 5 + date.day - 1
        return era * 146_097 + year * 365 + year / 4 - year / 100 + dayOfYear - 719_468
    }
}

extension Int64 {
    fileprivate func dividedDown(by divisor: Int64) -> (quotient: Int64, rest: Int64) {
        let (quotient, rest) = quotientAndRemainder(dividingBy: divisor)
        return rest < 0 ? (quotient - 1, rest + divisor) : (quotient, rest)
    }
}
