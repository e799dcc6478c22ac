import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// The bytes of the exchanges with proxies.
@Suite struct OpeningExchangeTests {}

extension OpeningExchangeTests {
    @Test func aNameIsSentToASOCKSProxy() throws {
        var exchange = try SOCKS5Exchange(to: "db", nil, port: 7000, as: nil)
        #expect(exchange.begin(from: nil, to: nil) == [5, 1, 0])
        var input: ArraySlice<UInt8> = [5, 0]
        #expect(try exchange.receive(&input) == .send([5, 1, 0, 3, 2, 0x64, 0x62, 0x1B, 0x58]))
        input = [5, 0, 0, 3, 1, 0x61, 0, 1, 0xAA]
        #expect(try exchange.receive(&input) == .done)
        #expect(input == [0xAA])
    }

    @Test func addressesAreSentToASOCKSProxy() throws {
        for (ip, type) in [([10, 0, 0, 7] as [UInt8], 1 as UInt8), ([UInt8](repeating: 9, count: 16), 4)] {
            var exchange = try SOCKS5Exchange(to: "any", ip, port: 1, as: nil)
            _ = exchange.begin(from: nil, to: nil)
            var input: ArraySlice<UInt8> = [5, 0]
            #expect(try exchange.receive(&input) == .send([5, 1, 0, type] + ip + [0, 1]))
        }
    }

    /// RFC 1929, section 2.
    @Test func aSOCKSProxyReceivesTheCredentials() throws {
        let credentials = ProxyCredentials(username: "ab", password: "c")
        var exchange = try SOCKS5Exchange(to: "db", nil, port: 1, as: credentials)
        #expect(exchange.begin(from: nil, to: nil) == [5, 2, 0, 2])
        var input: ArraySlice<UInt8> = [5, 2]
        #expect(try exchange.receive(&input) == .send([1, 2, 0x61, 0x62, 1, 0x63]))
        input = [1]
        #expect(try exchange.receive(&input) == .wait)
        input = [1, 0]
        guard case .send = try exchange.receive(&input) else {
            Issue.record("it has not asked for the connection")
            return
        }
        for (user, password) in [
            ("", "a"), ("a", String(repeating: "a", count: 256)), (String(repeating: "a", count: 256), "a"),
        ] {
            let error = #expect(throws: TransportError.self) {
                try SOCKS5Exchange(to: "db", nil, port: 1, as: ProxyCredentials(username: user, password: password))
            }
            #expect(error?.code == .proxy(.credentialsRefused))
        }
    }

    @Test func aRequestToAnHTTPProxy() throws {
        let credentials = ProxyCredentials(username: "Aladdin", password: "open sesame")  // RFC 7617, section 2
        var exchange = try HTTPConnectExchange(to: "2001:db8::1", port: 443, as: credentials)
        let text = String(decoding: exchange.begin(from: nil, to: nil), as: UTF8.self)
        #expect(
            text == "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n"
                + "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"
        )
        for (password, encoded) in [("", "YTo="), ("b", "YTpi"), ("bc", "YTpiYw==")] {
            let credentials = ProxyCredentials(username: "a", password: password)
            var exchange = try HTTPConnectExchange(to: "b", port: 1, as: credentials)
            #expect(String(decoding: exchange.begin(from: nil, to: nil), as: UTF8.self).contains(" \(encoded)\r\n"))
        }
        let error = #expect(throws: TransportError.self) {
            try HTTPConnectExchange(to: "b", port: 1, as: ProxyCredentials(username: "a:b", password: ""))
        }
        #expect(error?.code == .proxy(.credentialsRefused))
        #expect(throws: TransportError.self) { try HTTPConnectExchange(to: "a\r\nb", port: 1, as: nil) }
    }

    @Test(arguments: [
        "HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200\r\n\r\n", "HTTP/1.1 204 x\nA: b\n\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nVia: p\r\n\r\n",
    ]) func answersOfAnHTTPProxy(_ text: String) throws {
        // In pieces of every size: what follows the answer is left.
        for size in 1...text.utf8.count + 1 {
            var exchange = try HTTPConnectExchange(to: "b", port: 1, as: nil)
            var (rest, input, step) = (Array(text.utf8)[...] + [0x7A], ArraySlice<UInt8>(), OpeningStep.wait)
            while step == .wait, !rest.isEmpty {
                input += rest.prefix(size)
                rest = rest.dropFirst(size)
                step = try exchange.receive(&input)
            }
            #expect(step == .done, "\(size)")
            #expect(input + rest == [0x7A], "\(size)")
        }
    }

    /// Regression: a proxy that chose a way to authenticate that it was not offered was taken for one that does not
    /// speak SOCKS, so it was asked again and again.
    @Test func aWayToAuthenticateThatWasNotOfferedIsARefusal() throws {
        let account = ProxyCredentials(username: "a", password: "b")
        let choices: [(ProxyCredentials?, UInt8)] = [
            (nil, 2), (nil, 1), (account, 1), (nil, 3), (account, 3), (nil, 0x80), (account, 0x80), (nil, 0xFE),
            (account, 0xFE), (nil, 0xFF), (account, 0xFF),
        ]
        for (credentials, method) in choices {
            var exchange = try SOCKS5Exchange(to: "db", nil, port: 1, as: credentials)
            _ = exchange.begin(from: nil, to: nil)
            var input: ArraySlice<UInt8> = [5, method]
            let error = #expect(throws: TransportError.self) { try exchange.receive(&input) }
            #expect(error?.code == .proxy(.authenticationRequired), "\(method)")
            #expect(error?.isPermanent == true)
        }
        var exchange = try SOCKS5Exchange(to: "db", nil, port: 1, as: nil)
        var input: ArraySlice<UInt8> = [5, 2]
        let error = #expect(throws: TransportError.self) { try exchange.receive(&input) }
        #expect(error?.message.contains("wants a user name and a password") == true)
    }

    @Test(arguments: ["HTTP/1.1 200 OK", "HTTP/1.0   200", "HTTP/1.1 200 ", "HTTP/1.1  299  a b\u{301}"])
    func wordsOfAnAnswerAreSeparatedBySpaces(_ line: String) throws {
        var exchange = try HTTPConnectExchange(to: "b", port: 1, as: nil)
        var input = Array("\(line)\r\n\r\nx".utf8)[...]
        #expect(try exchange.receive(&input) == .done)
        #expect(input == [UInt8(ascii: "x")])
    }

    @Test(arguments: [("404", ""), ("404 ", ""), ("404  Not  Found", "Not  Found")])
    func aRefusalQuotesTheProxy(_ words: String, _ phrase: String) throws {
        var exchange = try HTTPConnectExchange(to: "b", port: 1, as: nil)
        var input = Array("HTTP/1.1 \(words)\r\n\r\n".utf8)[...]
        let error = #expect(throws: TransportError.self) { try exchange.receive(&input) }
        #expect(error?.message == "the HTTP proxy answered 404 \(phrase)")
    }

    /// The status of a proxy is three digits.
    @Test(arguments: ["+20", "-00", "099", "2 0", "２00", "20", "2000", "0x2"])
    func aStatusThatIsNoNumberIsRefused(_ status: String) throws {
        var exchange = try HTTPConnectExchange(to: "b", port: 1, as: nil)
        var input = Array("HTTP/1.1 \(status) OK\r\n\r\n".utf8)[...]
        let error = #expect(throws: TransportError.self) { try exchange.receive(&input) }
        #expect(error?.code == .proxy(.protocolViolation))
    }

    /// Every answer that is cut off, or of which a byte is changed, ends with a result: no exchange traps or asks for
    /// ever.
    @Test func changedAnswersAreRefused() throws {
        for seed in seeds(500) {
            var random = SeededGenerator(seed: seed)
            let isSOCKS = Bool.random(using: &random)
            var exchange: any OpeningExchange =
                isSOCKS
                ? try SOCKS5Exchange(to: "db", nil, port: 1, as: nil)
                : try HTTPConnectExchange(to: "db", port: 1, as: nil)
            _ = exchange.begin(from: nil, to: nil)
            var answer = isSOCKS ? [5, 0, 5, 0, 0, 1, 1, 2, 3, 4, 5, 6] : Array("HTTP/1.1 200 OK\r\nA: b\r\n\r\n".utf8)
            for _ in 0..<2 {
                answer[.random(in: 0..<answer.count, using: &random)] = .random(in: 0...255, using: &random)
            }
            // A changed answer is over, is refused, or may still be the beginning of one: nothing else is sent for it.
            var (input, step, sent) = (answer[...], OpeningStep.send([]), 0)
            do throws(TransportError) {
                while case .send = step {
                    step = try exchange.receive(&input)
                    sent += 1
                }
                #expect(step == .done || step == .wait, "seed \(seed)")
                #expect(sent <= 3, "seed \(seed)")
            } catch {
                guard case .proxy = error.code else {
                    Issue.record("seed \(seed): \(error)")
                    continue
                }
            }
        }
    }

    // MARK: The PROXY protocol

    private static let (ipv4, other) = (
        SocketAddress.ipv4([192, 0, 2, 1], port: 56324), SocketAddress.ipv4([198, 51, 100, 7], port: 443)
    )
    private static let ipv6 = SocketAddress.ipv6(
        [0x20, 1, 0xD, 0xB8] + [UInt8](repeating: 0, count: 11) + [1],
        port: 1,
        scope: 3
    )
    private static let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 0x51, 0x55, 0x49, 0x54, 10]

    @Test func headersOfVersion1() {
        func line(_ local: SocketAddress?, _ remote: SocketAddress?, isProxied: Bool = false) -> String {
            var exchange = ProxyHeaderExchange(.v1, isProxied: isProxied)
            return String(decoding: exchange.begin(from: local, to: remote), as: UTF8.self)
        }
        #expect(line(Self.ipv4, Self.other) == "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n")
        #expect(line(Self.ipv6, Self.ipv6) == "PROXY TCP6 2001:db8::1 2001:db8::1 1 1\r\n")
        for (local, remote) in [(nil, nil), (Self.ipv4, Self.ipv6), (.unix(path: "/a"), .unix(path: "/b"))] {
            #expect(line(local, remote) == "PROXY UNKNOWN\r\n")
        }
        #expect(line(Self.ipv4, Self.other, isProxied: true) == "PROXY UNKNOWN\r\n")
    }

    @Test func headersOfVersion2() {
        func bytes(_ local: SocketAddress?, _ remote: SocketAddress?) -> [UInt8] {
            var exchange = ProxyHeaderExchange(.v2, isProxied: false)
            return exchange.begin(from: local, to: remote)
        }
        let addresses: [UInt8] = [192, 0, 2, 1, 198, 51, 100, 7, 0xDC, 0x04, 0x01, 0xBB]
        #expect(bytes(Self.ipv4, Self.other) == Self.signature + [0x21, 0x11, 0, 12] + addresses)
        let ip = Self.ipv6.ipBytes ?? []
        #expect(bytes(Self.ipv6, Self.ipv6) == Self.signature + [0x21, 0x21, 0, 36] + ip + ip + [0, 1, 0, 1])
        #expect(bytes(nil, nil) == Self.signature + [0x20, 0, 0, 0])
    }
}
