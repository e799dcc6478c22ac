import Trunkline

extension ParserCase {
    static let delimited: [ParserCase] = [
        delimited("a line", "\n") { Content($0, repeating: "a", "\n") },
        delimited("a line of the first byte of CR LF", "\r\n") { Content($0, repeating: "\r", "\n") },
        delimited("a line of CR and letters", "\r\n") { Content($0, repeating: "\ra", "\r\n") },
        delimited("a line of three bytes of CR LF CR LF", "\r\n\r\n") {
            Content($0, repeating: "\r\n\r\r", "\r\n\r\n")
        },
        delimited("a line of a boundary without its last byte", "\r\n--boundary") {
            Content($0, repeating: "\r\n--boundar", "\r\n--boundary")
        },
        delimited("lines of two bytes", "\n") { .messages($0, "a\n") },
        delimited("empty lines", "\r\n") { .messages($0, "\r\n") },
        delimited("two parts", "\r\n", parts: 2) { Content($0, "\r\n", repeating: "a", "\r\n") },
        ParserCase(
            parser: "DelimitedCodec",
            content: "a line that is too long",
            reading: .codec(DelimitedCodec(delimiter: "\r\n")),
            isMalformed: true
        ) {
            Content(max($0, 16_384), repeating: "\r", "\n")
        },
        ParserCase(
            parser: "DelimitedCodec",
            content: "lines like a ping",
            reading: .codec(DelimitedCodec(delimiter: "\n").heartbeat(ping: "PING", pong: "PONG"))
        ) {
            .messages($0, "PINK\n")
        },
    ]

    private static func delimited(
        _ content: String,
        _ delimiter: Bytes,
        parts: Int = 1,
        _ make: @escaping @Sendable (Int) -> Content
    ) -> ParserCase {
        let codec = DelimitedCodec(delimiter: delimiter, parts: parts, maximumFrameSize: 1 << 24)
        return ParserCase(parser: "DelimitedCodec", content: content, reading: .codec(codec), make: make)
    }

    static let counted: [ParserCase] = [
        counted("heads of 4,000 words", "\r\n", { .count(inWord: -1, of: $0) }) {
            .messages($0, times(3999, "a ") + "0\r\n\r\n")
        },
        counted("heads of one word", "\r\n", { .count(inWord: 1, of: $0) }) {
            .messages($0, times(8180, "a") + " 0\r\n\r\n")
        },
        counted("heads of blanks", "\r\n", { .count(inWord: 0, of: $0) }) {
            .messages($0, times(8180, "\t") + "0\r\n\r\n")
        },
        counted("heads of empty lines", "\r\n\r\n", { .count(inField: "length", of: $0) }) {
            .messages($0, times(2700, "a\r\n") + "length:0\r\n\r\n\r\n")
        },
        counted("heads of fields with almost the name", "\r\n\r\n", { .count(inField: "length", of: $0) }) {
            .messages($0, times(800, "lengti:\r\n") + "length:0\r\n\r\n\r\n")
        },
        counted("heads of CR", "\r\n\r\n", { .count(inField: "length", of: $0) }) {
            .messages($0, times(8000, "\r") + "a\r\nlength:0\r\n\r\n\r\n")
        },
        counted("heads of three bytes of CR LF CR LF", "\r\n\r\n", { .count(inField: "length", of: $0) }) {
            .messages($0, times(2000, "\r\n\r\r") + "a\r\nlength:0\r\n\r\n\r\n")
        },
        counted("frames of 5 bytes", "\r\n", { .count(inWord: 0, of: $0) }, limit: "") { .messages($0, "0\r\n\r\n") },
        counted("a payload", "\r\n", { .count(inWord: 0, of: $0) }, limit: "") { size in
            Content(bytes: Array("\(size)\r\n".utf8) + [UInt8](repeating: 0x0D, count: size) + [0x0D, 0x0A])
        },
    ]

    private static func counted(
        _ content: String,
        _ headEnd: Bytes,
        _ payload: @escaping @Sendable (Bytes) -> CountedPayloadCodec.Payload,
        limit: String = "8 KiB of a head",
        _ make: @escaping @Sendable (Int) -> Content
    ) -> ParserCase {
        let codec = CountedPayloadCodec(headEnd: headEnd, payloadEnd: "\r\n", payload: payload)
        return ParserCase(
            parser: "CountedPayloadCodec",
            content: content,
            limit: limit,
            reading: .codec(codec),
            make: make
        )
    }

    static let prefixed: [ParserCase] = [
        prefixed("a body", LengthPrefixedCodec(.varint)) { size in
            var length: [UInt8] = []
            var rest = size
            while rest >= 0x80 {
                length.append(UInt8(rest & 0x7F | 0x80))
                rest >>= 7
            }
            return Content(bytes: length + [UInt8(rest)] + [UInt8](repeating: 0, count: size))
        },
        prefixed("empty bodies", LengthPrefixedCodec(UInt8.self)) { .messages($0, [0]) },
        prefixed("empty bodies, lengths of ten bytes", LengthPrefixedCodec(.varint)) {
            .messages($0, [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0])
        },
        prefixed(
            "bodies of a serial and a type",
            LengthPrefixedCodec(UInt8.self).serial(at: 0, UInt64.self, order: .littleEndian).type(at: 8, UInt32.self)
        ) {
            .messages($0, [12, 7] + [UInt8](repeating: 0, count: 11))
        },
        prefixed("bodies like a ping", LengthPrefixedCodec(UInt8.self).heartbeat(ping: "PING", pong: "PONG")) {
            .messages($0, [4] + Array("PINK".utf8))
        },
    ]

    private static func prefixed(
        _ content: String,
        _ codec: LengthPrefixedCodec,
        _ make: @escaping @Sendable (Int) -> Content
    ) -> ParserCase {
        ParserCase(parser: "LengthPrefixedCodec", content: content, reading: .codec(codec), make: make)
    }
}

extension ParserCase {
    static let layouts: [ParserCase] =
        [
            layout("a body", .standard) { responses($0, .standard, 1) },
            layout("empty bodies", .standard) { responses($0, .standard) },
            layout("empty bodies, every kind of field", everyField) { responses($0, everyField) },
            layout("empty bodies, lengths of varying width", varying) { responses($0, varying) },
            layout("empty bodies, roles by bits and numbers", marked) { responses($0, marked) },
        ]
        + CodecBench.checksums.filter { $0.bytes(of: Bytes()) != nil }.map { checksum in
            let checked = checked(by: checksum)
            return layout("a body, \(checksum.name)", checked) { responses($0, checked, 1) }
        }
        + ((try? FrameLayout.extended).map { extended in
            [layout("empty bodies, extended", extended) { responses($0, extended) }]
        } ?? [])

    private static func layout(
        _ content: String,
        _ layout: FrameLayout,
        _ make: @escaping @Sendable (Int) -> Content
    ) -> ParserCase {
        ParserCase(parser: "FrameLayout", content: content, reading: .codec(layout), make: make)
    }

    private static func responses(_ size: Int, _ layout: FrameLayout, _ count: Int? = nil) -> Content {
        let body = [UInt8](repeating: 0xFF, count: count == nil ? 0 : size)
        let frame = Frame(.response, type: 0x410, serial: 50, status: 0, body: Bytes(body))
        var (server, output) = (layout.serverSide(), SendBuffer())
        do { try server.encode(frame, into: &output) } catch { fatalError("\(error)") }
        return count == nil ? .messages(size, output.bytes) : Content(bytes: output.bytes)
    }

    private static let everyField = FrameLayout {
        Field.constant(request: [0x80, 1], response: [0x81, 1])
        Field.checksum(.crc32, over: .body, order: .littleEndian)
        Field.type(UInt16.self)
        Field.length(width: 3, counting: .wholeFrame, order: .littleEndian)
        Field.serial(width: 5)
        Field.status(UInt16.self)
        Field.integer("flags", UInt16.self, default: 0x0102, order: .littleEndian)
        Field.bytes("token", 3)
        Field.contentType(UInt16.self)
        Field.reserved(2)
        Field.body
        Field.constant([0xEE])
        Field.serial(width: 5, order: .littleEndian)
        Field.checksum(.adler32, over: .headerAndBody)
    }

    private static let varying = FrameLayout {
        Field.constant([0xCA])
        Field.type(UInt16.self)
        Field.varintLength(counting: .rest)
        Field.serial(UInt16.self)
        Field.body
        Field.checksum(.fletcher16, over: .body)
    }

    private static let marked = FrameLayout {
        Field.type(UInt16.self)
        Field.serial(UInt32.self)
        Field.integer("flags", UInt8.self)
        Field.integer("source", UInt8.self)
        Field.length(UInt32.self, counting: .rest)
        Field.body
    }
    .roles {
        $0.push = .field("source", 7...9)
        $0.part = .bit(0, of: "flags")
        $0.goAway = 8
        $0.failure = .bit(3, of: "flags")
        $0.serials = 50...
    }

    private static func checked(by checksum: Checksum) -> FrameLayout {
        FrameLayout {
            Field.type(UInt16.self)
            Field.serial(UInt16.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
            Field.checksum(checksum, over: .headerAndBody)
        }
    }
}
