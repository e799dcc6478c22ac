import Testing
import Trunkline

@Suite struct JSONValueTests {
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
    ])
    func malformedTextIsRejected(_ text: String) { #expect(JSONValue(text) == nil) }

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
