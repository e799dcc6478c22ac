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

    // MARK: Strings

    private static let names: [(JSONRPCName, String)] = [
        (.jsonrpc, "jsonrpc"), (.id, "id"), (.method, "method"), (.params, "params"), (.result, "result"),
        (.error, "error"), (.code, "code"), (.message, "message"), (.data, "data"),
    ]

    /// The name in a JSON string, which is given without quotation marks.
    private func name(_ text: String) -> JSONRPCName? {
        Bytes("\"\(text)\"").withSpan { JSONRPCName($0, 1..<$0.count - 1) }
    }

    @Test func namesAreFoundHoweverTheyAreWritten() {
        for (expected, text) in Self.names {
            #expect(name(text) == expected)
            let escapes = text.utf8.map { "\\u00" + String($0, radix: 16) }
            #expect(name(escapes.joined()) == expected)
            #expect(name(escapes.map { $0.uppercased().replacing("\\U", with: "\\u") }.joined()) == expected)
            #expect(name(escapes[0] + text.dropFirst()) == expected)
            #expect(name(text.dropLast() + escapes[escapes.count - 1]) == expected)
            for other in ["", " ", "\\u0000", "x", "\\n", "\\u0100", "\\ud83d", "\\ud83d\\ude00", "é"] {
                #expect(name(other + text) == (other.isEmpty ? expected : nil))
                #expect(name(text + other) == (other.isEmpty ? expected : nil))
                #expect(name(String(repeating: text + other, count: 100)) == nil)
            }
            #expect(name(text.uppercased()) == nil)
            #expect(name(String(text.dropLast())) == nil)
        }
        #expect(name("") == nil)
    }

    /// Escapes at every offset, so that the search for the next one ends at every offset of a word.
    @Test func stringsAreReadAsFoundationReadsThem() throws {
        var random = SeededGenerator(seed: 11)
        let pieces = [
            "a", "bc", "defghijklm", "é", "😀", "\u{7f}", "\\n", "\\b", "\\f", "\\r", "\\t", "\\/", "\\\\", "\\\"",
            "\\u0041",
            "\\u00e9", "\\u20AC", "\\ud83d\\ude00", "\\u0000",
        ]
        for _ in 0..<3000 {
            let text = (0..<Int.random(in: 0...9, using: &random)).map { _ in
                pieces[Int.random(in: 0..<pieces.count, using: &random)]
            }.joined()
            let json = "\"\(text)\""
            let read = try JSONSerialization.jsonObject(with: Data(json.utf8), options: .fragmentsAllowed)
            let expected = Array(try #require(read as? String).utf8)
            #expect(isAccepted(Bytes(json)))
            let limit = Int.random(in: 1...20, using: &random)
            let (whole, beginning, isSame) = Bytes(json).withSpan { span in
                let range = 1..<span.count - 1
                return (
                    span.bytes(ofJSONString: range), span.bytes(ofJSONString: range, upTo: limit),
                    span.isJSONString(expected, in: range) && !span.isJSONString(expected + [97], in: range)
                        && (expected.isEmpty || !span.isJSONString(expected.dropLast(), in: range))
                )
            }
            #expect(whole == expected, "\(text)")
            let start = try #require(beginning)
            #expect(
                expected.starts(with: start) && start.count >= min(limit, expected.count) && start.count < limit + 4
            )
            #expect(isSame, "\(text)")
            for (mark, cut) in [("\u{1f}", 0), ("\\x", 0), ("\\u00g0", 0), ("", 1)] {
                #expect(!isAccepted(Bytes("\"\(text)\(mark)\"".utf8.dropLast(cut))))
            }
        }
    }

    @Test(arguments: ["\\ud83d", "\\ude00", "\\ud83d\\u0041", "\\ud83dx", "a\\ude00\\ud83d"])
    func halfPairsOfSurrogatesAreNoText(_ text: String) {
        let bytes = Bytes("\"\(text)\"").withSpan { $0.bytes(ofJSONString: 1..<$0.count - 1) }
        #expect(bytes == nil)
        #expect(isAccepted(Bytes("\"\(text)\"")))
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
