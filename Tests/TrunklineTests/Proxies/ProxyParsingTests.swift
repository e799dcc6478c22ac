import Testing

@testable import TrunklineCore

/// Proxies as text, in the environment, and the servers that are reached without them.
@Suite struct ProxyParsingTests {}

extension ProxyParsingTests {
    @Test(arguments: [
        ("socks5://proxy:1081", Proxy.socks5("proxy", port: 1081)), ("socks5h://proxy", .socks5("proxy")),
        ("SOCKS://[2001:db8::1]:9", .socks5("2001:db8::1", port: 9)), ("http://proxy/", .http("proxy", port: 80)),
        ("proxy:3128", .http("proxy", port: 3128)), ("http://[::1]", .http("::1", port: 80)),
        ("socks5://a%3Ab:c%40%25@p", .socks5("p", username: "a:b", password: "c@%")),
        ("http://user@p:1", .http("p", port: 1, username: "user")),
    ]) func urls(_ url: String, expected: Proxy) throws {
        #expect(try Proxy(parsing: url) == expected)
    }

    @Test(arguments: [
        "", "https://secret@p:1", "ftp://secret@p", "socks5://secret@", "p:0", "p:99999", "p:x",
        "http://secret:%zz@p:1",
        "http://secret:%4@p:1", "http://p/path", "http://user:secret:proxy:3128", "socks5:host:1080",
        "2001:db8::1:3128",
        "p:+80", "p:080", "p:-0", "http://secret:%+4@p:1", "http://secret:%-0@p:1",
        "http://[secret]:1", "http://a b:1", "socks5://secret:%FF@p",
    ]) func invalidURLs(_ url: String) {
        let error = #expect(throws: ProxyError.self) { try Proxy(parsing: url) }
        #expect(error.map { "\($0)" }?.contains("secret") == false)
    }

    @Test func theEnvironmentNamesAProxy() throws {
        func proxy(_ variables: [String: String]) throws(ProxyError) -> Proxy? { try Proxy.from { variables[$0] } }
        #expect(try proxy([:]) == nil)
        #expect(try proxy(["HTTP_PROXY": "p:1", "http_proxy": "p:1", "ALL_PROXY": ""]) == nil)
        var expected = Proxy.socks5("p")
        expected.exceptions = [".internal", "10.0.0.0/8", "localhost", "127.0.0.0/8", "::1"]
        let both = ["ALL_PROXY": "socks5://p", "HTTPS_PROXY": "http://q:1", "NO_PROXY": ".internal, 10.0.0.0/8"]
        #expect(try proxy(both) == expected)
        #expect(try proxy(["https_proxy": "http://q:1", "HTTPS_PROXY": "r:2"])?.host == "q")
        let error = #expect(throws: ProxyError.self) { try proxy(["ALL_PROXY": "ftp://secret@p"]) }
        #expect(error?.description.hasPrefix("invalid proxy: ALL_PROXY: ") == true)
    }

    @Test(arguments: [
        ("*", "db", 1, true), ("db", "db", 1, true), ("db", "DB.", 1, true), ("db", "mydb", 1, false),
        ("example.com", "a.example.com", 1, true), (".example.com", "a.example.com", 1, true),
        ("*.example.com", "a.b.example.com", 1, true), (".example.com", "example.com", 1, true),
        ("example.com", "example.com.org", 1, false), ("db:7000", "db", 7000, true), ("db:7000", "db", 7001, false),
        ("10.0.0.7", "10.0.0.7", 1, true), ("10.0.0.7:5", "10.0.0.7", 5, true), ("10.0.0.0/8", "10.9.9.9", 1, true),
        ("10.0.0.0/8", "11.0.0.0", 1, false), ("10.0.0.128/25", "10.0.0.127", 1, false),
        ("0.0.0.0/0", "8.8.8.8", 1, true),
        ("10.0.0.0/8", "db", 1, false), ("::1", "::1", 1, true), ("[::1]:5", "::1", 5, true),
        ("[::1]:5", "::1", 6, false),
        ("2001:db8::/33", "2001:db8:7fff::1", 1, true), ("2001:db8::/33", "2001:db8:8000::1", 1, false),
        // Regression: a port after a network or an asterisk matched nothing.
        ("127.0.0.0/8:7000", "127.0.0.9", 7000, true), ("127.0.0.0/8:7000", "127.0.0.9", 7001, false),
        ("*:7000", "db", 7000, true), ("*:7000", "10.0.0.7", 7000, true), ("*:7000", "db", 7001, false),
        ("2001:db8::/33:5", "2001:db8::1", 5, true), ("[2001:db8::]/33:5", "2001:db8::1", 5, true),
        ("[2001:db8::]/33", "2001:db8::1", 6, true), ("2001:db8::/33:5", "2001:db8::1", 6, false),
        ("127.0.0.0/8:", "127.0.0.9", 1, false), ("*:", "db", 1, false), ("10.0.0.0/8/8", "10.0.0.1", 1, false),
        ("::/0", "2001:db8::1", 1, true), ("127.0.0.0/8", "127.0.0.9", 80, true),
        // Regression: `/-0` was every address, and `+80` the port 80.
        ("10.0.0.0/-0", "8.8.8.8", 1, false), ("10.0.0.0/+8", "10.0.0.1", 1, false),
        ("10.0.0.0/08", "10.0.0.1", 1, false), ("10.0.0.0/", "10.0.0.1", 1, false),
        ("db:+80", "db", 80, false), ("db:080", "db", 80, false), ("*:+80", "db", 80, false),
        ("10.0.0.0/33", "10.0.0.0", 1, false), ("10.0.0.0/x", "10.0.0.0", 1, false), ("", "db", 1, false),
        (".", "db", 1, false), ("db:x", "db", 1, false), ("0.0.7", "10.0.0.7", 1, false),
    ]) func exceptions(_ exception: String, host: String, port: UInt16, matches: Bool) {
        var proxy = Proxy.http("p", port: 1)
        proxy.exceptions = ["nothing", exception]
        #expect(proxy.isUsed(for: host, port: port) == !matches)
    }

    @Test func descriptionsHaveNoCredentials() {
        for proxy in [
            Proxy.socks5("p", username: "hidden", password: "secret"),
            .http("::1", port: 3, username: "hidden", password: "secret"),
        ] {
            var (dumped, options) = ("", ClientOptions())
            options.connecting.proxy = proxy
            dump(options, to: &dumped)
            for text in ["\(proxy)", String(reflecting: proxy), dumped, "\(options)"] {
                #expect(!text.contains("secret") && !text.contains("hidden"), "\(text)")
            }
        }
        #expect("\(Proxy.http("::1", port: 3))" == "http://[::1]:3")
        let mistaken = Proxy.http("edge:secret@proxy", port: 1)
        var dumped = mistaken.host
        dump(mistaken, to: &dumped)
        #expect(!"\(mistaken)".contains("secret") && !dumped.contains("secret"))
    }
}
