import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineGateway

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Which requests a gateway refuses, and with which response.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct HTTPGatewayTests {}

extension HTTPGatewayTests {
    private func ask(_ setup: Tunnelled, _ message: String) async throws -> HTTP1Response {
        let text = message.replacingOccurrences(of: "ORIGIN", with: setup.origin.root)
            .replacingOccurrences(of: "HOST", with: "\(setup.origin.server.endpoint)")
        return try HTTP1Response(try await setup.client.send(Request(type: 0x403, body: Bytes(text))))
    }

    private static let fields = "Host: HOST\r\nTrunkline-Window: 65536\r\n"

    @Test func aValidRequestIsForwarded() async throws {
        try await Tunnelled.with({ .reply(Bytes("\($0.method) \($0.target)")) }) { setup in
            let response = try await ask(setup, "GET ORIGIN/a HTTP/1.1\r\n\(Self.fields)\r\n")
            #expect(response.status == 200 && response.body == "GET /a")
            #expect(response.headers["Trunkline-Gateway"] == nil)
        }
    }

    private static let doubtful = [
        "", "GET", "GET /a HTTP/1.1\r\n\(fields)\r\n", "GET ORIGIN/ HTTP/1.0\r\n\(fields)\r\n",
        "GET ORIGIN/ HTTP/1.1\r\nTrunkline-Window: 65536\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\nHost: other\r\nTrunkline-Window: 65536\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\nHost: HOST\r\n\(fields)\r\n",
        "GET ORIGIN/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\nHost: HOST\r\nTrunkline-Window: 12\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\nHost: HOST\r\nTrunkline-Window: +65536\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\n\(fields)X: a\nY: b\r\n\r\n", "GET ORIGIN/ HTTP/1.1\r\n\(fields)X : a\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\n\(fields) folded\r\n\r\n", "GET ORIGIN/ HTTP/1.1\n\(fields)\r\n",
        "GET ORIGIN/ HTTP/1.1\r\n\(fields)X: a\u{0}\r\n\r\n", "GET ORIGIN/ x HTTP/1.1\r\n\(fields)\r\n",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: 4\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: 2\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: 3\r\nContent-Length: 3\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: +3\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\n\(fields)\r\nGET ORIGIN/b HTTP/1.1\r\n\(fields)\r\n",
        // A URLRequest turns these into capitals.
        "get ORIGIN/ HTTP/1.1\r\n\(fields)\r\n", "head ORIGIN/ HTTP/1.1\r\n\(fields)\r\n",
        "connect ORIGIN/ HTTP/1.1\r\n\(fields)\r\n", "Trace ORIGIN/ HTTP/1.1\r\n\(fields)\r\n",
        "get ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: 3\r\n\r\ntea",
        "CONNECT ORIGIN/ HTTP/1.1\r\n\(fields)\r\n", "TRACE ORIGIN/ HTTP/1.1\r\n\(fields)\r\n",
        "GET http://a@HOST/ HTTP/1.1\r\n\(fields)\r\n", "GET ORIGIN/#a HTTP/1.1\r\n\(fields)\r\n",
        "GET ftp://HOST/ HTTP/1.1\r\n\(fields)\r\n", "GET ORIGIN\\@evil/ HTTP/1.1\r\n\(fields)\r\n",
        "GET ORIGIN/ HTTP/1.1\r\n\(fields)X: \(String(repeating: "a", count: 70_000))\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\n\(fields)\(String(repeating: "X: a\r\n", count: 300))\r\n",
        // Folded lines, and half line breaks.
        "GET ORIGIN/ HTTP/1.1\r\nHost: HOST\r\n other\r\nTrunkline-Window: 65536\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\n Host: HOST\r\n\(fields)\r\n", "GET ORIGIN/\r HTTP/1.1\r\n\(fields)\r\n",
        "GET ORIGIN/ HTTP/1.1\r\r\n\(fields)\r\n", "GET ORIGIN/ HTTP/1.1\r\n\(fields)X: a\rY: b\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\n\(fields)\n\n", "GET ORIGIN/ HTTP/1.1\r\n\(fields)X\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\n\(fields): a\r\n\r\n", "GET ORIGIN/\u{0} HTTP/1.1\r\n\(fields)\r\n",
        "GET  ORIGIN/ HTTP/1.1\r\n\(fields)\r\n", " GET ORIGIN/ HTTP/1.1\r\n\(fields)\r\n",
        "GET\tORIGIN/ HTTP/1.1\r\n\(fields)\r\n", "G(T ORIGIN/ HTTP/1.1\r\n\(fields)\r\n",
        "GET ORIGIN/ http/1.1\r\n\(fields)\r\n", "GET ORIGIN/ HTTP/2.0\r\n\(fields)\r\n", "GET ORIGIN/\r\n\r\n",
        // Two lengths.
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: 3\r\nContent-Length: 4\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: 3, 3\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: 0x3\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: -3\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length:\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: 99999999999999999999\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length : 3\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Transfer-Encoding: gzip\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Transfer-Encoding: identity\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Transfer-Encoding: \u{B}chunked\r\n\r\ntea",
        "POST ORIGIN/ HTTP/1.1\r\n\(fields)Transfer-Encoding: chunked, chunked\r\n\r\ntea",
        // Two recipients, or none.
        "GET ORIGIN/ HTTP/1.1\r\nHost:\r\nTrunkline-Window: 65536\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\nHost: HOST, HOST\r\nTrunkline-Window: 65536\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\nHost: a@HOST\r\nTrunkline-Window: 65536\r\n\r\n",
        "GET ORIGIN/ HTTP/1.1\r\nHost: HOST/\r\nTrunkline-Window: 65536\r\n\r\n",
        "GET ORIGIN@other/ HTTP/1.1\r\n\(fields)\r\n", "GET //HOST/ HTTP/1.1\r\n\(fields)\r\n",
        "GET HOST/ HTTP/1.1\r\n\(fields)\r\n", "OPTIONS * HTTP/1.1\r\n\(fields)\r\n",
        "GET http:/HOST/ HTTP/1.1\r\n\(fields)\r\n", "GET http:HOST/ HTTP/1.1\r\n\(fields)\r\n",
        "GET file://HOST/etc/passwd HTTP/1.1\r\n\(fields)\r\n",
        "GET ORIGIN/ HTTP/1.1\r\n\(fields)Trunkline-Window: 65536\r\n\r\n",
    ]

    @Test func ambiguousRequestsAreRefused() async throws {
        try await Tunnelled.with({ _ in .reply("tea") }) { setup in
            for message in Self.doubtful {
                let response = try await ask(setup, message)
                let isRefused = response.status == 400 && response.headers["Trunkline-Gateway"] == "malformed"
                #expect(isRefused, "\(message.prefix(200).debugDescription)")
            }
            #expect(await setup.origin.server.journal.requestCount == 0)
        }
    }

    @Test func onlyAllowedOriginsReceiveRequests() async throws {
        try await Tunnelled.with({ _ in .reply("tea") }, allows: false) { setup in
            let response = try await ask(setup, "GET ORIGIN/ HTTP/1.1\r\n\(Self.fields)\r\n")
            #expect(response.status == 403 && response.headers["Trunkline-Gateway"] == "forbidden")
            #expect(setup.gateway.metrics.refused == 1)
        }
    }

    @Test(arguments: [
        "127.0.0.1:80", "ftp://a", "http://", "http://a/b", "http://a?b", "http://me@a", "http://*.a", "",
    ])
    func invalidOriginsAreNotParsed(_ text: String) {
        #expect(HTTPOrigin(parsing: text) == nil)
    }

    @Test func aPrivateAddressMustBeAllowedExplicitly() async throws {
        try await Tunnelled.with({ _ in .reply("tea") }) { setup in
            let port = try #require(URL(string: setup.origin.root)?.port)
            for (isAllowed, status) in [(false, 403), (true, 200)] {
                let name = try #require(
                    HTTPOrigin(parsing: "http://localhost:\(port)", allowingPrivateAddresses: isAllowed)
                )
                let gateway = HTTPGateway(allowing: [name])
                try await withLoopbackServer(speaking: .standard, handler: gateway.handler) { server in
                    try await withClient(to: server.endpoint, speaking: .standard, options: patientOptions) { client in
                        let tunnel = HTTPTunnel(client, options: HTTPTunnel.Options { $0.policy = .linkOnly })
                        let url = try #require(URL(string: "http://localhost:\(port)/"))
                        let (_, response) = try await tunnel.data(from: url)
                        #expect((response as? HTTPURLResponse)?.statusCode == status)
                    }
                }
            }
        }
    }

    /// One address of the name refused the connection, so the gateway's URLSession reported that it could not connect.
    /// The client then repeated the request directly.
    @Test(arguments: AddressFamily.allCases)
    func aPostThatAnOriginMayHaveSeenIsNotSentAgain(live: AddressFamily) async throws {
        try await HalfDeadName.with(live: live, { _ in .close }) { origin, url in
            var name = try #require(HTTPOrigin(of: url))
            name.allowsPrivateAddresses = true
            let gateway = HTTPGateway(allowing: [name])
            try await withLoopbackServer(speaking: .standard, handler: gateway.handler) { server in
                try await withClient(to: server.endpoint, speaking: .standard, options: patientOptions) { client in
                    try await client.connect()
                    let tunnel = HTTPTunnel(
                        client,
                        options: HTTPTunnel.Options { $0.policy = .preferLink(hedgeAfter: .seconds(3600)) }
                    )
                    var request = URLRequest(url: url)
                    request.httpMethod = "POST"
                    for body in [Data(), Data("tea".utf8)] {
                        let error = await urlError { [request] in
                            _ = try await tunnel.upload(for: request, from: body)
                        }
                        #expect(error != nil)
                    }
                    #expect(await origin.journal.requestCount == 2 && tunnel.metrics.fallbacks == 0)
                }
            }
        }
    }

    // MARK: Parts

    @Test func partsOfOtherProtocolsAreNotMessages() {
        let gateway = HTTPGateway()
        let messages: [Bytes] = [
            "GET http://a/ HTTP/1.1\r\n", "POST https://a.example:1/b?c HTTP/1.1\r\n\r\n", "X-Y HTTP://a/ HTTP/1.1\r\n",
        ]
        for piece in messages { #expect(gateway.isMessage(Frame(.part, body: piece))) }
        let others: [Bytes] = [
            "", "tea", "GET", "GET ", "GET /a HTTP/1.1", " http://a/", "GET ftp://a/", "GET http:/a/",
            "\u{1}\u{2} http://a/",
            Bytes(pattern(1000)),
        ]
        for piece in others { #expect(!gateway.isMessage(Frame(.part, body: piece))) }
        #expect(gateway.isMessage(Frame(.request, type: 0x403)) && !gateway.isMessage(Frame(.request, type: 0x410)))
    }

    @Test(arguments: [
        ["GET ORIGIN/ HTTP/1.1\r\nHost: HOST\r\n", "Trunkline-Window: 65536\r\n\r\n"],
        ["", "GET ORIGIN/ HTTP/1.1\r\n\(fields)\r\n"],
        ["POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: 3\r\n\r\n", "te", "aa"],
        ["POST ORIGIN/ HTTP/1.1\r\n\(fields)Content-Length: 3\r\n\r\n", "te"],
        ["GET ORIGIN/ HTTP/1.1\r\n\(fields)\r\n", "GET ORIGIN/b HTTP/1.1\r\n\(fields)\r\n"],
    ])
    func partsThatAreNotExactlyOneMessageAreRefused(pieces: [String]) async throws {
        try await Tunnelled.with({ _ in .reply("tea") }) { setup in
            let texts = pieces.map {
                $0.replacingOccurrences(of: "ORIGIN", with: setup.origin.root)
                    .replacingOccurrences(of: "HOST", with: "\(setup.origin.server.endpoint)")
            }
            let frames = setup.client.open(Request(body: Bytes(texts[0]))).responses
            // The refusal may arrive before the last part is sent. Then the remaining parts are not sent.
            for text in texts[1...] {
                try? await frames.post(
                    Request(type: text == texts.last ? 0x403 : 0, body: Bytes(text)),
                    isPart: text != texts.last
                )
            }
            var iterator = frames.makeAsyncIterator()
            let response = try HTTP1Response(try #require(try await iterator.next()))
            #expect(response.status == 400 && response.headers["Trunkline-Gateway"] == "malformed")
            #expect(await setup.origin.server.journal.requestCount == 0)
        }
    }

    // MARK: Addresses

    @Test(arguments: [
        "127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "240.0.0.1",
    ])
    func privateAndReservedAddressesAreNotPublic(text: String) throws {
        let bytes = text.split(separator: ".").compactMap { UInt8($0) }
        let zeros = [UInt8](repeating: 0, count: 10)
        #expect(!SocketAddress.ipv4(bytes, port: 0).isPublic)
        for wrapped in [
            zeros + [0xFF, 0xFF] + bytes, [0x20, 0x02] + bytes + zeros,
            [0, 0x64, 0xFF, 0x9B] + zeros.prefix(8) + bytes,
        ] {
            #expect(!SocketAddress.ipv6(wrapped, port: 0, scope: 0).isPublic)
        }
    }

    @Test func otherAddressesArePublic() {
        for bytes: [UInt8] in [[8, 8, 8, 8], [172, 15, 0, 1], [172, 32, 0, 1], [100, 128, 0, 1], [192, 167, 1, 1]] {
            #expect(SocketAddress.ipv4(bytes, port: 0).isPublic)
        }
        func v6(_ head: [UInt8]) -> SocketAddress {
            .ipv6(head + [UInt8](repeating: 0, count: 15 - head.count) + [1], port: 0, scope: 0)
        }
        #expect(v6([0x26, 0x06, 0x47]).isPublic && v6([0x2A, 0]).isPublic)
        let local: [[UInt8]] = [
            [], [0xFE, 0x80], [0xFC], [0xFD, 1], [0xFF, 2], [0x20, 0x01, 0x0D, 0xB8], [0xFE, 0xC0],
        ]
        for head in local { #expect(!v6(head).isPublic) }
    }
}
