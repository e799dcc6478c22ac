import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// IPv6 addresses with a zone, and IPv4 addresses in the short notation, in plaintext and over TLS.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct LiteralAddressLoopbackTests {}

extension LiteralAddressLoopbackTests {
    /// A link-local address of this machine, with the name of its interface; `nil` if it has none.
    private static let linkLocal: (bytes: [UInt8], interface: String)? = {
        guard case .success(let text) = contents(ofFile: "/proc/net/if_inet6", limit: 1 << 16) else { return nil }
        for line in String(decoding: text, as: UTF8.self).split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields.count == 6, fields[0].hasPrefix("fe80") else { continue }
            let digits = Array(fields[0])
            let bytes = (0..<16).compactMap { UInt8(String(digits[2 * $0..<2 * $0 + 2]), radix: 16) }
            return (bytes, String(fields[5]))
        }
        return nil
    }()

    /// Connects to `host`, where a server with a certificate for `name` listens at `address`, with and without TLS.
    private func expectAnswers(
        from host: String,
        at address: SocketAddress,
        named name: String,
        source: String? = nil
    ) async throws {
        let authority = try TestAuthority()
        for isSecured in [false, true] {
            let identity = try authority.identity(for: name)
            let server = try await LoopbackServer.start(
                at: address,
                speaking: .standard,
                options: LoopbackServer.Options { $0.tls = isSecured ? .init(identity) : nil }
            )
            let endpoint = Endpoint.host(host, port: try #require(server.endpoint.port))
            let options = quickOptions {
                $0.tls.roots = .only(authority.root)
                $0.tls.serverName = nil
                $0.connecting.sourceAddress = source
                $0.reconnecting.maximumAttempts = 1
            }
            let client = Client(to: isSecured ? endpoint.secured() : endpoint, speaking: .standard, options: options)
            try await client.connect()
            await client.close()
            await server.stop()
        }
    }

    @Test func anAbbreviatedAddressIsTheAddressThatItStandsFor() async throws {
        try await expectAnswers(from: "127.1", at: .loopback(port: 0), named: "127.0.0.1")
        try await expectAnswers(from: "0x7f000001", at: .loopback(port: 0), named: "127.0.0.1")
    }

    @Test func anAddressWithAZoneIsVerifiedWithoutIt() async throws {
        guard let (bytes, interface) = Self.linkLocal else {
            return print("anAddressWithAZoneIsVerifiedWithoutIt is skipped: this machine has no link-local address")
        }
        let address = SocketAddress.ipv6(bytes, port: 0, scope: 0)
        let host = "\(address.host)%\(interface)"
        let scoped = try #require(literalAddress(host, port: 0))
        try await expectAnswers(from: host, at: scoped, named: address.host)
        // As the source, and with the index of the interface.
        try await expectAnswers(from: host, at: scoped, named: address.host, source: host)
        try await expectAnswers(from: scoped.host, at: scoped, named: address.host, source: scoped.host)
    }

    @Test func anAddressIsWrittenWithItsZone() {
        let address = SocketAddress.ipv6([0xfe, 0x80] + [UInt8](repeating: 0, count: 13) + [1], port: 7, scope: 3)
        #expect(address.host == "fe80::1%3" && address.description == "[fe80:0:0:0:0:0:0:1%3]:7")
        #expect(Endpoint.host("fe80::1%eth0", port: 7).description == "[fe80::1%eth0]:7")
    }

    @Test func anUnknownZoneIsNamed() async throws {
        for (endpoint, source) in [
            (Endpoint.host("fe80::1%nowhere9", port: 1), nil),
            (Endpoint.host("::1", port: 1), "fe80::1%nowhere9"),
        ] as [(Endpoint, String?)] {
            for endpoint in [endpoint, endpoint.secured()] {
                let options = quickOptions {
                    $0.connecting.sourceAddress = source
                    $0.reconnecting.maximumAttempts = 1
                }
                try await withClient(to: endpoint, speaking: .standard, options: options) { client in
                    let error = await failure { () throws(ClientError) in try await client.connect() }
                    let cause = try #require(error?.cause as? TransportError)
                    #expect(cause.code == .invalidAddress && cause.errno != 0)
                    #expect(cause.message.hasSuffix(": no network interface is named nowhere9"), "\(cause)")
                }
            }
        }
    }

    @Test func aLinkLocalAddressWithoutAZoneSaysSo() async throws {
        guard Self.linkLocal != nil else {
            return print("aLinkLocalAddressWithoutAZoneSaysSo is skipped: this machine has no link-local address")
        }
        let options = quickOptions { $0.reconnecting.maximumAttempts = 1 }
        try await withClient(to: .host("fe80::1", port: 1), speaking: .standard, options: options) { client in
            let error = await failure { () throws(ClientError) in try await client.connect() }
            let cause = try #require(error?.cause as? TransportError)
            #expect(cause.message.contains("(without a zone, such as %eth0)"), "\(cause)")
        }
    }

    @Test func everyNotationOfIPv4IsReadAsTheSystemReadsIt() {
        let cases: [(String, [UInt8]?)] = [
            ("127.1", [127, 0, 0, 1]), ("1.2.3", [1, 2, 0, 3]), ("1.2.772", [1, 2, 3, 4]), ("0x7f.1", [127, 0, 0, 1]),
            ("010.0.0.1", [8, 0, 0, 1]), ("16909060", [1, 2, 3, 4]), ("0", [0, 0, 0, 0]), ("1.2.3.4", [1, 2, 3, 4]),
            ("4294967295", [255, 255, 255, 255]), ("4294967296", nil), ("256.1", nil), ("1.2.3.4.5", nil),
            ("1..2", nil),
            ("", nil), ("1.2.3.", nil), ("08.1", nil), ("+1.2", nil), ("-1", nil), ("0x-1", nil), ("1.2.3.four", nil),
            ("db", nil), ("0x", nil), ("1 ", nil), ("1%lo", nil),
        ]
        for (text, bytes) in cases { #expect(SocketAddress.abbreviatedIPv4(text) == bytes, "\(text)") }
        for (text, bytes) in cases where bytes != nil {
            let found = systemLookUp(text, .ipv4)
            #expect((try? found.get())?.first?.ipBytes == bytes, "\(text)")
        }
    }
}
