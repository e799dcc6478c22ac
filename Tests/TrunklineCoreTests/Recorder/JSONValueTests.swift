import Testing
import Trunkline

@testable import TrunklineIO

@Suite struct JSONValueTests {}

extension JSONValueTests {
    @Test func valuesAreRead() throws {
        let value = try #require(
            JSONValue(#" { "a" : [1, -2.5e3, true, null], "b" : {"c": "x\n\u0041\ud83d\ude00"} } "#)
        )
        #expect(value["a"] == .list([.number("1"), .number("-2.5e3"), .flag(true), .null]))
        #expect(value["b"]?["c"]?.text == "x\nA😀")
        #expect(value["c"] == nil)
        #expect(JSONValue("[]") == .list([]))
        #expect(JSONValue("{}")?.members.isEmpty == true)
        #expect(JSONValue("12")?.integer(UInt8.self) == 12)
        #expect(JSONValue("300")?.integer(UInt8.self) == nil)
    }

    @Test(arguments: [
        "", "{", "[1,]", "{\"a\"}", "{\"a\":}", "\"a", "\"\u{1}\"", "tru", "nul", "1 2", "{} {}", "+", "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"", "\"\\ud800\\u0041\"", "\"\\udc00\"", "[1", "{\"a\":1", "-",
        "+1", "-01", "00", "01.5", ".5", "-.5", "1.", "1.e3", "1e", "1e+", "1E-", "1e1.5", "1-2", "0x10", "inf", "nan",
    ])
    func malformedTextIsRejected(_ text: String) { #expect(JSONValue(text) == nil) }

    /// Other programs write integers with decimals or an exponent: 1e3 and 1000.0 are 1000.
    @Test(
        arguments: [
            ("0", 0), ("-0", 0), ("0.000", 0), ("0e400", 0), ("7", 7), ("-7", -7), ("1e3", 1000), ("1.25E+2", 125),
            ("1000e-3", 1), ("-5.0", -5), ("1e400", nil), ("1e-1", nil), ("0.5", nil), ("1e99999999999999999999", nil),
            ("1e-99999999999999999999", nil), ("9223372036854775807", .max), ("9223372036854775808", nil),
            ("922337203685477580.7e1", .max), ("-9223372036854775808", .min), ("-9223372036854775809", nil),
        ] as [(String, Int64?)]
    )
    func integersAreReadExactly(_ text: String, expected: Int64?) {
        #expect(JSONValue(text)?.number == text)
        #expect(JSONValue(text)?.integer() == expected)
        if let expected, expected < 0 { #expect(JSONValue(text)?.integer(UInt64.self) == nil) }
    }

    /// Texts of every length, so that the search for the next escape ends at every offset of a word.
    @Test func escapesAreReadAtEveryOffset() {
        let escapes = [
            ("\\n", "\n"), ("\\b\\f\\r\\t", "\u{8}\u{c}\r\t"), ("\\/\\\\\\\"", "/\\\""), ("\\u00e9", "é"),
            ("\\u00E9x\\u0000", "éx\0"), ("\\ud83d\\ude00", "😀"), ("\\uffff", "\u{ffff}"),
        ]
        for (escape, text) in escapes {
            for count in 0..<20 {
                for end in ["", "z", "\u{7f}é"] {
                    let letters = String(repeating: "a", count: count)
                    let value = JSONValue("\"\(letters)\(escape)\(end)\"")
                    #expect(value == .text(letters + text + end))
                    #expect(JSONValue("\"\(letters)\(escape)\u{1f}\"") == nil)
                    #expect(JSONValue("\"\(letters)\(escape.dropLast())") == nil)
                }
            }
        }
    }

    /// The bytes around the range are not read.
    @Test func oneLineOfALongerTextIsRead() {
        let text = Array("1\n{\"a\":\"b\"}\ntrue\n\"\\ud83d\\ude00".utf8)
        #expect(JSONValue(utf8: text, in: 0..<1) == .number("1"))
        #expect(JSONValue(utf8: text, in: 2..<11)?["a"]?.text == "b")
        #expect(JSONValue(utf8: text, in: 2..<10) == nil)
        #expect(JSONValue(utf8: text, in: 12..<16) == .flag(true))
        #expect(JSONValue(utf8: text, in: 12..<15) == nil)
        for end in 17...text.count { #expect(JSONValue(utf8: text, in: 17..<end) == nil) }
        #expect(JSONValue(utf8: text, in: 3..<3) == nil)
    }

    /// Numbers of more than 20 digits were out of range of every type.
    @Test func integersOfEveryWidthAreRead() {
        #expect(JSONNumber("170141183460469231731687303715884105727".utf8)?.integer() == Int128.max)
        #expect(JSONNumber("-170141183460469231731687303715884105728".utf8)?.integer() == Int128.min)
        #expect(JSONNumber("3.40282366920938463463374607431768211455e38".utf8)?.integer() == UInt128.max)
        #expect(JSONNumber("340282366920938463463374607431768211456".utf8)?.integer() == UInt128?.none)
        #expect(JSONNumber("18446744073709551615".utf8)?.integer() == UInt64.max)
        #expect(JSONNumber("18446744073709551616".utf8)?.integer() == UInt64?.none)
        #expect(JSONNumber("255".utf8)?.integer() == UInt8.max && JSONNumber("-128".utf8)?.integer() == Int8.min)
        #expect(JSONNumber("256".utf8)?.integer() == UInt8?.none && JSONNumber("1e3".utf8)?.integer() == Int8?.none)
    }

    @Test func deepNestingIsRejected() {
        #expect(JSONValue(String(repeating: "[", count: 10) + String(repeating: "]", count: 10)) != nil)
        #expect(JSONValue(String(repeating: "[", count: 100_000)) == nil)
    }

    @Test func quotedTextCanBeReadAgain() {
        for text in ["", "plain", "\"\\\n\r\t\u{0}\u{1f}", "grün 😀", "\u{2028}"] {
            #expect(JSONValue(JSONText.quoted(text)) == .text(text))
        }
    }

    @Test func hexadecimalDigitsCanBeReadAgain() {
        #expect(HexText.text(of: [0, 0x9f, 0xff]) == "009fff")
        #expect(HexText.bytes(of: "009fFf") == [0, 0x9f, 0xff])
        #expect(HexText.bytes(of: "0") == nil)
        #expect(HexText.bytes(of: "0g") == nil)
    }
}
