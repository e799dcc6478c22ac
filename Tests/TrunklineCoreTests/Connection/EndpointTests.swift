import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct EndpointTests {}

extension EndpointTests {
    @Test(arguments: [
        ("10.0.0.7:7000", Endpoint.host("10.0.0.7", port: 7000)), ("db.internal:1", .host("db.internal", port: 1)),
        ("[::1]:65535", .host("::1", port: 65535)), ("unix:/run/a:b.sock", .unix(path: "/run/a:b.sock")),
    ])
    func parsingReversesTheDescription(_ text: String, _ endpoint: Endpoint) {
        #expect((try? Endpoint(parsing: text)) == endpoint)
        #expect(endpoint.description == text)
    }

    @Test(arguments: [
        "", "host", "host:", ":80", "host:0", "host:65536", "::1:80", "host:-1", "unix:", "a\0b:1", " a:1",
        "host:+80", "host:080", "host:-0", "host:8０", "vsock://+2:1", "vsock://2:-0", "vsock://02:1",
        "a\u{202e}b:1", "a\u{2028}b:1",
        "127.0.0.1\0.trusted.example:1", "unix:/run/a\0b", "user:secret@host:1", "user@host:1",
    ])
    func invalidTextIsRefused(_ text: String) {
        let error = #expect(throws: EndpointError.self) { try Endpoint(parsing: text) }
        #expect(error?.description.contains("invalid endpoint") == true)
    }

    /// An invalid URL used to be logged with its password.
    @Test(arguments: [
        "redis://ada:s3cret@host:6379", "ada:s3cret@host:1", "tls://ada:s3cret@host", "a@b:s3cret@host:1",
    ])
    func passwordsAreRedacted(_ text: String) throws {
        let error = try #require(throws: EndpointError.self) { try Endpoint(parsing: text) }
        #expect(!error.description.contains("s3cret") && !error.description.contains("ada"))
        #expect(error.description.contains("(redacted)@host"))
        #expect(!Endpoint.host("ada:s3cret@host", port: 1).description.contains("s3cret"))
    }

    @Test func thePartsOfAnEndpoint() throws {
        let host = try Endpoint(parsing: "tls://[::1]:7000")
        #expect(host.host == "::1" && host.port == 7000 && host.path == nil)
        let socket = Endpoint.unix(path: "/run/a")
        #expect(socket.host == nil && socket.port == nil && socket.path == "/run/a")
        #expect(Endpoint.host("ada:s3cret@host", port: 1).host == "(redacted)@host")
    }

    @Test func descriptionsAreOneLine() throws {
        for endpoint in [
            Endpoint.host("a\nINFO: all is well\u{202e}", port: 1), .unix(path: "/run/a\r\nb\u{2028}").secured(),
        ] {
            let hasLines = endpoint.description.contains { $0.isNewline }
            #expect(!hasLines && !endpoint.description.contains("\u{202e}"))
        }
        #expect(SocketAddress.unix(path: "/a\nb").description == #"unix:/a\nb"#)
        let error = try #require(throws: EndpointError.self) { try Endpoint(parsing: "a\nINFO: all is well") }
        #expect(error.description.hasPrefix(#"invalid endpoint "a\nINFO: all is well": "#))
    }
}
