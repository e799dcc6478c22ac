import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Which service a server's first bytes show.
@Suite struct KnownServiceTests {}

extension KnownServiceTests {
    private static let greetings: [(String, KnownService)] = [
        ("HTTP/1.1 400 Bad Request\r\n", .http), ("<!DOCTYPE HTML>\n<html>", .http), ("SSH-2.0-OpenSSH_9.6\r\n", .ssh),
        ("220 mail.example ESMTP\r\n", .mail), ("220-FTP server\r\n", .mail), ("+OK POP3 ready\r\n", .pop3),
        ("* OK IMAP4rev1 ready\r\n", .imap), ("-ERR unknown command\r\n", .redisOrPOP3),
        ("-NOAUTH Authentication", .redis),
        ("AMQP\u{0}\u{0}\u{9}\u{1}", .amqp), ("INFO {\"server_id\":\"a\"}\r\n", .nats),
        ("<?xml version='1.0'?>", .xmpp),
        ("<stream:error>", .xmpp), ("RFB 003.008\n", .vnc), ("@RSYNCD: 31.0\n", .rsync),
    ]

    private static let binary: [([UInt8], KnownService)] = [
        // An alert (protocol version), and a ServerHello.
        ([0x15, 3, 3, 0, 2, 2, 70], .tls), ([0x15, 3, 1, 0, 2, 2, 10], .tls), ([0x16, 3, 3, 0, 122, 2], .tls),
        ([0, 0, 18, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100], .http2),
        ([74, 0, 0, 0, 10, 0x38, 0x2E, 0x30, 0x2E, 0x33, 0x36, 0], .mysql),
        ([0x45, 0, 0, 0, 100, 0x53, 0x46, 0x41, 0x54, 0x41, 0x4C, 0], .postgres), ([5, 0xFF], .socks),
    ]

    @Test func greetingsAreRecognized() {
        for (text, service) in Self.greetings { #expect(KnownService(text.utf8) == service, "\(text)") }
        for (bytes, service) in Self.binary { #expect(KnownService(bytes) == service, "\(bytes)") }
        let found = Set((Self.greetings.map(\.1) + Self.binary.map(\.1)))
        #expect(found == Set(KnownService.allCases))
        var buffer = ReceiveBuffer("SSH-2.0".utf8)
        #expect(KnownService(buffer) == .ssh)
        _ = buffer.discard(1)
        #expect(KnownService(buffer) == nil)
    }

    /// Parts of a greeting, a version of TLS that does not exist, and bytes of other protocols.
    @Test func otherBytesShowNothing() {
        let others: [[UInt8]] = [
            [], [0x15], [0x15, 3, 9], [0x15, 4, 0], Array("HTTP".utf8), Array("2200 a".utf8), Array("+OKAY".utf8),
            [5, 0xFF, 0], [0xCA, 0xFE, 0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 5, 0, 0, 0, 0, 0], Array("E1000S".utf8),
        ]
        for bytes in others { #expect(KnownService(bytes) == nil, "\(bytes)") }
        // Whatever comes, nothing traps.
        var generator = SeededGenerator(seed: 1)
        for _ in 0..<10_000 {
            let count = Int.random(in: 0...20, using: &generator)
            _ = KnownService((0..<count).map { _ in UInt8.random(in: 0...22, using: &generator) })
        }
    }
}
