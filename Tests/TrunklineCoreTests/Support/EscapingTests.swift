import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// Text from users and peers on its way into a log.
@Suite struct EscapingTests {}

extension EscapingTests {
    @Test func invisibleCharactersAreEscaped() {
        #expect("grüß, 日本 “a”".escaped() == "grüß, 日本 “a”")
        #expect("a\r\n\tb\u{1b}[31m\0".escaped() == #"a\r\n\tb\u{1b}[31m\u{0}"#)
        #expect(
            "\u{2028}\u{2029}\u{85}\u{202e}\u{2066}\u{feff}".escaped()
                == #"\u{2028}\u{2029}\u{85}\u{202e}\u{2066}\u{feff}"#
        )
        #expect("".escaped().isEmpty)
    }

    @Test func nothingIsEscapedTwice() {
        for text in [#"C:\new"#, "a\nb\u{202e}", #"\u{2028}"#] {
            #expect(text.escaped().escaped() == text.escaped())
        }
    }

    @Test func longTextIsTruncated() {
        let long = String(repeating: "k", count: 300)
        #expect(long.escaped() == String(repeating: "k", count: 256) + " …")
        #expect(String(repeating: "k", count: 256).escaped().count == 256)
        // Not within an escape sequence.
        #expect("ab\u{202e}c".escaped(upTo: 9) == "ab …")
        #expect(String(repeating: "\n", count: 1_000_000).asMessage.count == 2050)
    }

    @Test func credentialsAreRedacted() {
        #expect("tls://ada:pw@host:1".withoutCredentials == "tls://(redacted)@host:1")
        #expect("ada:pw@host".withoutCredentials == "(redacted)@host")
        #expect("a@b:c@host".withoutCredentials == "(redacted)@host")
        // Passwords may contain slashes.
        #expect("ada:s3cret://x@host".withoutCredentials == "(redacted)@host")
        #expect("://s3cret@host".withoutCredentials == "(redacted)@host")
        #expect("svn+ssh2.x-y://ada@host".withoutCredentials == "svn+ssh2.x-y://(redacted)@host")
        #expect("host:1".withoutCredentials == "host:1" && "".withoutCredentials.isEmpty)
    }

    /// A peer's text in an error, for example of a custom codec, used to become several lines of the log.
    @Test func messagesAreOneLine() throws {
        let text = "no\nINFO: all is well\u{2028}\u{202e}" + String(repeating: "x", count: 1_000_000)
        for message in [
            "\(FrameError(.malformed, text))", "\(TransportError(.system, text))", "\(LayoutError(text, text))",
        ] {
            let hasLines = message.contains { $0.isNewline || $0 == "\u{202e}" }
            #expect(!hasLines && message.utf8.count < 5000, "\(message.prefix(80))")
        }
    }

    /// Characters that end a literal, a comment or a line, or reverse the direction of text.
    @Test func fieldNamesCannotInjectCode() throws {
        let name = "a\"]) os.execute(\"x\n\r\\\u{202e}\u{2028}| b"
        let layout = try FrameLayout(validating: [
            .type(UInt16.self), .integer(name, UInt16.self), .length(UInt32.self, counting: .body), .body,
        ])
        let script = layout.wiresharkDissector(name: "acme\n\")os.exit()--", port: 1)
        #expect(script.contains(#"a\"]) os.execute(\"x\x0a\x0d\\\xe2\x80\xae\xe2\x80\xa8| b"#))
        let scalars = script.unicodeScalars.filter { !$0.isPrinted && $0 != "\n" }
        #expect(scalars.isEmpty && !script.contains("os.exit"))
        let table = layout.byteTable
        #expect(table.split(separator: "\n").count == 6 && !table.contains("\u{202e}") && !table.contains("\u{2028}"))
        #expect(table.contains(#"os.execute("x\n\r\\u{202e}"#))
    }
}
