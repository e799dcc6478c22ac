import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Numbers that are read from text.
///
/// Regression: they were read by the initializers of the standard library, which accept signs, so that `+80` was a port, `/-0`
/// a network of all addresses, and `%-0` a NUL byte in a password.
@Suite struct StrictNumbersTests {}

extension StrictNumbersTests {
    static let refused = [
        "", " ", "+", "-", "+80", "-0", "-1", " 1", "1 ", "1\n", "\t1", "1_000", "1,0", "1.", "0x10", "0b1", "1e3", "²",
        "١",
        "１", "a", "\0", "1\0", "--1", "+-1",
    ]

    @Test(arguments: [
        ("0", 0), ("1", 1), ("9", 9), ("10", 10), ("255", 255), ("65535", 65_535), ("9223372036854775807", Int.max),
    ])
    func digitsAreANumber(_ text: String, _ number: Int) {
        #expect(Int(strict: text) == number)
        #expect(UInt64(strict: text) == UInt64(number))
        #expect(Int(strict: "x\(text)y".dropFirst().dropLast()) == number)
        #expect(UInt8(strict: text) == UInt8(exactly: number))
        #expect(UInt16(strict: text) == UInt16(exactly: number))
        #expect(Int8(strict: text) == Int8(exactly: number))
        #expect(Double(strict: text) == Double(number))
        #expect(Int(strictSigned: text) == number)
        if number > 0 {
            #expect(Int(strictSigned: "-\(text)") == -number)
            #expect(Int(strict: "0\(text)") == nil)
            #expect(Int(strict: "0\(text)", allowingZeros: true) == number)
        }
    }

    @Test(arguments: refused)
    func everythingElseIsRefused(_ text: String) {
        #expect(Int(strict: text) == nil)
        #expect(Int(strict: text, allowingZeros: true) == nil)
        #expect(UInt8(strict: text) == nil)
        #expect(Double(strict: text) == nil)
        if text != "-1" { #expect(Int(strictSigned: text) == nil) }
    }

    @Test func numbersThatDoNotFitAreRefused() {
        #expect(UInt8(strict: "256") == nil)
        #expect(UInt16(strict: "65536") == nil)
        #expect(Int(strict: "9223372036854775808") == nil)
        #expect(Int(strict: String(repeating: "9", count: 1000)) == nil)
        #expect(Int(strict: String(repeating: "0", count: 1000) + "7", allowingZeros: true) == 7)
        #expect(Double(strict: String(repeating: "9", count: 400)) == nil)
        #expect(Int(strictSigned: "-9223372036854775808") == .min)
        #expect(Int(strictSigned: "-9223372036854775809") == nil)
        #expect(Int8(strictSigned: "-128") == -128)
        #expect(Int8(strictSigned: "-129") == nil)
        #expect(UInt8(strictSigned: "-1") == nil)
        #expect(Int(strict: "00") == nil)
    }

    @Test func digitsDependOnTheRadix() {
        #expect(UInt8(strict: "fF", radix: 16) == 255)
        #expect(UInt8(strict: "0a", radix: 16, allowingZeros: true) == 10)
        #expect(UInt8(strict: "fg", radix: 16) == nil)
        #expect(UInt8(strict: "100", radix: 16) == nil)
        #expect(UInt8(strict: "+f", radix: 16) == nil)
        #expect(UInt8(strict: "-0", radix: 16) == nil)
        #expect(UInt8(strict: "17", radix: 8) == 15)
        #expect(UInt8(strict: "8", radix: 8) == nil)
        #expect(UInt8(strict: "101", radix: 2) == 5)
    }

    @Test func decimals() {
        #expect(Double(strict: "2.5") == 2.5)
        #expect(Double(strict: "00.50") == 0.5)
        for text in [".5", "5.", "1.2.3", "1.-2", "1.e3", "inf", "nan", "infinity", "0x1p3", "1e3", "+1.5", "-1.5"] {
            #expect(Double(strict: text) == nil, "\(text)")
        }
    }
}
