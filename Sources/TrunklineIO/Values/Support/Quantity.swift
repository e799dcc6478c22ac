package enum Quantity {
    package static func count(_ number: Int, _ noun: String, _ plural: String? = nil) -> String {
        number == 1 ? "1 \(noun)" : "\(grouped(number)) \(plural ?? noun + "s")"
    }

    package static func grouped(_ number: Int) -> String {
        var digits = "\(number.magnitude)"
        var groups: [String] = []
        while digits.count > 3 {
            groups.insert(String(digits.suffix(3)), at: 0)
            digits.removeLast(3)
        }
        return (number < 0 ? "-" : "") + ([digits] + groups).joined(separator: ",")
    }

    package static func time(_ duration: Duration) -> String {
        let seconds = duration.inSeconds
        if seconds < 120 { return duration.text }
        let (value, unit) =
            switch seconds {
            case ..<7200: (seconds / 60, "min")
            case ..<172_800: (seconds / 3600, "h")
            default: (seconds / 86_400, "days")
            }
        let rounded = (value * 10).rounded() / 10
        return (rounded == rounded.rounded() ? "\(Int(rounded))" : "\(rounded)") + " " + unit
    }
}

extension Duration {
    /// `8 s`, `7.92 s`, `0.31 ms`, `12 µs`.
    package var text: String {
        let nanoseconds = clampedNanoseconds
        let (unit, name) =
            switch nanoseconds.magnitude {
            case 1_000_000_000...: (1_000_000_000.0, "s")
            case 100_000...: (1_000_000.0, "ms")
            default: (1_000.0, "µs")
            }
        let value = Double(nanoseconds) / unit
        let factor: Double = value.magnitude >= 100 ? 1 : value.magnitude >= 10 ? 10 : 100
        let rounded = (value * factor).rounded() / factor
        return (rounded == rounded.rounded() ? "\(Int64(rounded))" : "\(rounded)") + " " + name
    }

    package var inSeconds: Double { Double(clampedNanoseconds) / 1e9 }
}

package func hexadecimal(_ number: some BinaryInteger) -> String { "0x" + String(number, radix: 16) }

package func twoDigits(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16) }

package func byteSize(_ count: Int) -> String { count == 1 ? "1 byte" : "\(count) bytes" }
