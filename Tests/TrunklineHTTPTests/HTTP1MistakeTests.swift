import Testing
import Trunkline
import TrunklineHTTP

/// Invalid values from callers and servers, and how much of them errors and descriptions show.
struct HTTP1MistakeTests {
    private func expect(
        _ words: String,
        from result: ExitTest.Result?,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let output = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(output.contains("HTTP1MistakeTests.swift:"), "\(output)", sourceLocation: sourceLocation)
        #expect(output.contains(words), "\(output)", sourceLocation: sourceLocation)
    }

    @Test(arguments: ["", "a\r\nX: y", "a b", "http://a", "a/b"])
    func aHostSetAsAPropertyIsCheckedWithEveryRequest(host: String) {
        let codec = HTTP1Codec { $0.host = host }
        let request = Frame(.request, type: HTTP1Request.Method.get.type, body: "GET / HTTP/1.1\r\n\r\n")
        var output = SendBuffer()
        #expect(throws: FrameError.self) { try codec.encode(request, into: &output) }
    }

    @Test func aHostMustNotContainALineBreak() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = HTTP1Codec(host: "a\r\nX: y")
        }
        expect("“a\\r\\nX: y” is not a valid host", from: result)
    }

    @Test func aLimitThatAllowsNothingRefusesEveryRequest() throws {
        for change: @Sendable (inout HTTP1Codec) -> Void in [{ $0.maximumHeadSize = 0 }, { $0.maximumHeadSize = .min }]
        {
            var output = SendBuffer()
            let error = try #require(throws: FrameError.self) {
                try HTTP1Codec(host: "a", change).encode(HTTP1Request(.get, "/").frame(), into: &output)
            }
            #expect(error.code == .illegalLength)
        }
    }

    /// `rejected` may come from a configuration, and may be set at any time.
    @Test func aRejectedRangeWithoutAStatusIsReportedWithEveryRequest() throws {
        for codec in [HTTP1Codec(host: "a", rejecting: 4...5), HTTP1Codec(host: "a") { $0.rejected = 4000...5000 }] {
            var output = SendBuffer()
            let error = try #require(throws: FrameError.self) {
                try codec.encode(HTTP1Request(.get, "/").frame(), into: &output)
            }
            #expect(error.message.hasSuffix("contains no status (100...999)"))
        }
    }

    @Test func descriptionsAreOneLine() {
        let text = "no\nINFO: all is well\u{2028}\u{202e}" + String(repeating: "x", count: 1_000_000)
        for description in ["\(HTTP1Request.Method(text))", "\(HTTP1Headers(dictionaryLiteral: (text, text)))"] {
            let hasLines = description.contains { $0.isNewline || $0 == "\u{202e}" }
            #expect(!hasLines && description.utf8.count < 5000, "\(description.prefix(80))")
        }
    }

    /// The target of a request may contain tokens. An invalid target used to be shown in the error unchanged.
    @Test func errorsShowNoTargetAndOnlyTheValidPartOfAName() throws {
        let requests = [
            HTTP1Request(.get, "/login?token=s3cret\n"), HTTP1Request(.get, "/", headers: ["X: s3cret\nINFO": "a"]),
            HTTP1Request("GET s3cret\n", "/"), HTTP1Request(.get, "/", headers: ["X": "s3cret\n"]),
        ]
        for request in requests {
            let error = try #require(throws: FrameError.self) { try request.frame() }
            let hasLines = error.message.contains { $0.isNewline }
            #expect(!hasLines && !error.message.contains("s3cret"), "\(error)")
        }
        let long = HTTP1Request(.get, "/", headers: [String(repeating: "x", count: 100_000) + " ": "a"])
        let error = try #require(throws: FrameError.self) { try long.frame() }
        #expect(error.message.utf8.count < 200)
    }

    @Test func aPasswordInAHostIsRedacted() throws {
        var output = SendBuffer()
        let codec = HTTP1Codec { $0.host = "ada:s3cret@host" }
        let error = try #require(throws: FrameError.self) {
            try codec.encode(HTTP1Request(.get, "/").frame(), into: &output)
        }
        #expect(error.message == "“(redacted)@host” is not a valid host")
    }
}
