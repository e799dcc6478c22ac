import Foundation
import Testing
import Trunkline

@testable import TrunklineFoundation

/// The ends of JSON values.
struct JSONScannerTests {
    private func isAccepted(_ text: Bytes) -> Bool {
        text.withSpan { span in
            do throws(FrameError) {
                _ = try JSONScanner.onlyValue(in: span)
                return true
            } catch {
                return false
            }
        }
    }

    @Test(arguments: [
        "0", "-0", "10", "1.5", "1e5", "1E+05", "-1.25e-7", "true", "false", "null", "\"\"", "\"a\\\"b\"",
        "\"\\u00e9\\/\"",
        "{}", "[]", " [ 1 , { \"a\" : [ ] } , \"]}\" ] ", "{\"a\":{\"b\":[{},[[]]]},\"c\":null}", "\t\n\r1",
    ])
    func jsonIsAccepted(_ text: String) { #expect(isAccepted(Bytes(text))) }

    /// RFC 8259: what some parsers accept, too.
    @Test(arguments: [
        "", " ", "01", "-", "+1", ".5", "1.", "1e", "1e+", "0x1", "NaN", "Infinity", "nul", "nullx", "True", "\"",
        "\"\\\"",
        "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"a\nb\"", "\"\u{0}\"", "'a'", "{", "}", "[", "]", "[1,]", "[,1]",
        "[1 2]",
        "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{1:2}", "{\"a\":1 \"b\":2}", "[}", "{]", "[1}", "{\"a\":1]",
        "1 2",
        "[]]", "{}{}", "//\n1", "\u{feff}1", "[1,\u{b}2]",
    ])
    func anythingElseIsRejected(_ text: String) { #expect(!isAccepted(Bytes(text))) }

    @Test(arguments: [1, 63, 64, 65, 127, 128, 129, 511, 512])
    func valuesMayBeNested512LevelsDeep(_ depth: Int) {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = String(repeating: open, count: depth) + "1" + String(repeating: close, count: depth)
            #expect(isAccepted(Bytes(text)))
            // A bracket of the other kind, at any level.
            let other = close == "]" ? "}" : "]"
            #expect(!isAccepted(Bytes(String(text.dropLast()) + other)))
        }
        let mixed = (0..<depth).map { $0 % 3 == 0 ? "[" : "{\"a\":" }
        let ends = mixed.reversed().map { $0 == "[" ? "]" : "}" }
        #expect(isAccepted(Bytes(mixed.joined() + "1" + ends.joined())))
    }

    @Test(arguments: ["[", "{\"a\":"]) func deeperValuesAreRejected(_ open: String) {
        #expect(!isAccepted(Bytes(String(repeating: open, count: 513))))
        #expect(!isAccepted(Bytes(String(repeating: open, count: 1_000_000))))
    }

    /// The scanner and Foundation agree about random text of the parts of JSON.
    @Test func theScannerAgreesWithFoundation() {
        let parts = [
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\\n\"", "\"\\u0041\"", "1", "-0", "2.5", "1e3 ", "true", "false",
            "null",
            " ", "\n", "[]", "{}", "\"a\":", "0", "-", "\"",
        ]
        var random = SeededGenerator(seed: 7)
        var accepted = 0
        for _ in 0..<20_000 {
            let text = (0..<Int.random(in: 1...7, using: &random)).map { _ in
                parts[Int.random(in: 0..<parts.count, using: &random)]
            }.joined()
            let isJSON: Bool
            do {
                _ = try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)
                isJSON = true
            } catch {
                isJSON = false
            }
            let isValue = isAccepted(Bytes(text))
            #expect(isValue == isJSON, "\(text)")
            if isValue { accepted += 1 }
        }
        #expect(accepted > 500)
    }
}
