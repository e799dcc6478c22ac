/// A service that is recognized by its first bytes. Only beginnings that hardly any other protocol has are recognized.
package enum KnownService: String, Sendable, CaseIterable {
    case tls = "TLS"
    case http = "HTTP"
    case http2 = "HTTP/2"
    case ssh = "SSH"
    case mail = "SMTP or FTP"
    case pop3 = "POP3"
    case imap = "IMAP"
    case redis = "Redis"
    case redisOrPOP3 = "Redis or POP3"
    case mysql = "MySQL"
    case postgres = "PostgreSQL"
    case amqp = "AMQP"
    case nats = "NATS"
    case xmpp = "XMPP"
    case vnc = "VNC"
    case rsync = "rsync"
    case socks = "SOCKS 5"

    package init?(_ buffer: borrowing ReceiveBuffer) {
        var first: [UInt8] = []
        for offset in 0..<Self.longest { if let byte = buffer.byte(at: offset) { first.append(byte) } }
        self.init(first)
    }

    package init?(_ bytes: some Collection<UInt8>) {
        let first = Array(bytes.prefix(Self.longest))
        func begins(_ text: String) -> Bool { first.starts(with: text.utf8) }
        func byte(_ index: Int) -> UInt8? { index < first.count ? first[index] : nil }
        // A record: an alert or a handshake message, the version, and a length up to about 16 KiB (RFC 8446 §5.1).
        if let kind = byte(0), kind == 0x15 || kind == 0x16, byte(1) == 3, (byte(2) ?? 5) <= 4, (byte(3) ?? 0) <= 0x48 {
            self = .tls
        } else if let (_, service) = Self.beginnings.first(where: { begins($0.text) }) {
            self = service
        } else if first.count >= 9, byte(0) == 0, byte(3) == 4, first[4..<9].allSatisfy({ $0 == 0 }) {
            // A frame SETTINGS on the stream 0 (RFC 9113, section 6.5), before which nothing may come.
            self = .http2
        } else if first.count >= 7, byte(2) == 0, byte(3) == 0, byte(4) == 10, Self.isDigit(byte(5)) {
            // The greeting: its length, the packet 0, the protocol 10, and the version as text, such as 8.0.36.
            self = .mysql
        } else if byte(0) == UInt8(ascii: "E"), byte(1) == 0, byte(2) == 0, byte(5) == UInt8(ascii: "S") {
            // An ErrorResponse: its length, and the field of the severity.
            self = .postgres
        } else if byte(0) == 5, byte(1) == 0xFF, first.count == 2 {
            self = .socks
        } else {
            return nil
        }
    }

    private static let longest = 16

    private static let beginnings: [(text: String, service: KnownService)] = [
        ("HTTP/", .http), ("SSH-", .ssh), ("220 ", .mail), ("220-", .mail), ("+OK ", .pop3), ("* OK ", .imap),
        ("* PREAUTH ", .imap), ("-ERR ", .redisOrPOP3), ("-NOAUTH ", .redis), ("-DENIED ", .redis), ("AMQP", .amqp),
        ("INFO {", .nats), ("<?xml ", .xmpp), ("<stream:", .xmpp), ("RFB 0", .vnc), ("@RSYNCD:", .rsync),
        ("<html", .http), ("<!DOCTYPE ", .http),
    ]

    private static func isDigit(_ byte: UInt8?) -> Bool { byte.map { 0x30...0x39 ~= $0 } ?? false }
}

/// What a server has sent before its first frame, apart from frames.
package enum FirstBytes: Sendable, Hashable {
    case none
    case unknown
    case service(KnownService)
}
