import Trunkline
import TrunklineFoundation
import TrunklineHTTP

extension ParserCase {
    static let http: [ParserCase] = [
        response("heads of 255 fields of 4 bytes", limit: "256 fields") {
            .messages($0, ok + times(255, "a:\r\n") + "Content-Length:0\r\n\r\n")
        },
        response("heads of a value of 60 KiB", limit: "64 KiB of a head") {
            .messages($0, "\(ok)a:\(times(60_000, "b"))\r\nContent-Length:0\r\n\r\n")
        },
        response("heads of a name of 60 KiB", limit: "64 KiB of a head") {
            .messages($0, "\(ok)\(times(60_000, "a")):\r\nContent-Length:0\r\n\r\n")
        },
        response("heads of blanks", limit: "64 KiB of a head") {
            .messages($0, "\(ok)a:\(times(60_000, "\t"))\r\nContent-Length:0\r\n\r\n")
        },
        response("heads of connection options", limit: "64 KiB of a head") {
            .messages($0, "\(ok)Connection:\(times(60_000, ","))\r\nContent-Length:0\r\n\r\n")
        },
        response("heads of a reason", limit: "64 KiB of a head") {
            .messages($0, "HTTP/1.1 200 \(times(60_000, "x"))\r\nContent-Length:0\r\n\r\n")
        },
        response("interim responses", limit: "64 before a response") {
            .messages($0, times(64, "HTTP/1.1 100 \r\n\r\n") + "\(ok)Content-Length:0\r\n\r\n")
        },
        response("responses") { .messages($0, "\(ok)Content-Length:0\r\n\r\n") },
        response("content") { size in
            Content(bytes: Array("\(ok)Content-Length:\(size)\r\n\r\n".utf8) + [UInt8](repeating: 0, count: size))
        },
        response("chunks of a byte") { chunks($0, repeating: "1\r\na\r\n") },
        response("chunks of a byte with extensions", limit: "256 bytes of a size line") {
            chunks($0, repeating: "1;\(times(240, "b"))\r\na\r\n")
        },
        response("chunks of a byte with zeros", limit: "256 bytes of a size line") {
            chunks($0, repeating: "\(times(240, "0"))1\r\na\r\n")
        },
        response("chunks of 64 KiB") { chunks($0, repeating: "10000\r\n\(times(65_536, "a"))\r\n") },
        response("responses with trailers", limit: "256 fields, 64 KiB") {
            .messages($0, "\(ok)\(chunked)0\r\n\(times(250, "a:\(times(200, "b"))\r\n"))\r\n")
        },
        ParserCase(
            parser: "HTTP1Codec, server",
            content: "requests in chunks of a byte",
            reading: .codec(HTTP1Codec(host: "a").serverSide())
        ) {
            Content($0, "POST / HTTP/1.1\r\nHost:a\r\n\(chunked)", repeating: "1\r\na\r\n", "0\r\n\r\n")
        },
        ParserCase(
            parser: "HTTP1Codec, server",
            content: "heads of 255 fields of 4 bytes",
            limit: "256 fields",
            reading: .codec(HTTP1Codec(host: "a").serverSide())
        ) {
            .messages($0, "GET / HTTP/1.1\r\nHost:a\r\n\(times(255, "a:\r\n"))\r\n")
        },
    ]

    private static let ok = "HTTP/1.1 200 \r\n"
    private static let chunked = "Transfer-Encoding:chunked\r\n\r\n"

    private static func response(
        _ content: String,
        limit: String = "",
        _ make: @escaping @Sendable (Int) -> Content
    ) -> ParserCase {
        ParserCase(
            parser: "HTTP1Codec",
            content: content,
            limit: limit,
            reading: .codec(HTTP1Codec(host: "a"), after: Frame(.request, type: 1, body: "GET / HTTP/1.1\r\n\r\n")),
            make: make
        )
    }

    private static func chunks(_ size: Int, repeating chunk: String) -> Content {
        Content(size, ok + chunked, repeating: chunk, "0\r\n\r\n")
    }

    static let heads: [ParserCase] = [
        head("HTTP1Response", "fields of 4 bytes", times(255, "a:\r\n")) { _ = try HTTP1Response($0) },
        head("HTTP1Response", "a value of 60 KiB", "a:\(times(60_000, "é"))\r\n") { _ = try HTTP1Response($0) },
        head("mayCache", "a Cache-Control of commas", "Cache-Control:\(times(30_000, "a,"))\r\n") {
            guard HTTP1Codec().mayCache($0) else { throw BenchError("the response may not be cached") }
        },
        head("mayCache", "a Cache-Control of UTF-8", "Cache-Control:\(times(15_000, "e\u{301},"))\r\n") {
            guard HTTP1Codec().mayCache($0) else { throw BenchError("the response may not be cached") }
        },
        head("HTTP over the link", "fields of 4 bytes", times(255, "a:\r\n")) {
            _ = try HTTP1Opening.response($0.body)
        },
        head("HTTP over the link", "connection options", "Connection:\(times(30_000, "a,"))\r\n") {
            _ = try HTTP1Response($0).headers.endToEnd
        },
        head("HTTP over the link", "connection options in UTF-8", "Connection:\(times(15_000, "e\u{301},"))\r\n") {
            _ = try HTTP1Response($0).headers.endToEnd
        },
        ParserCase(
            parser: "HTTP over the link",
            content: "a reason of the gateway",
            limit: "64 KiB of a head",
            reading: .function { bytes in
                guard GatewayVerdict(String(decoding: bytes, as: UTF8.self)) == nil else {
                    throw BenchError("a verdict")
                }
            }
        ) {
            Content(min($0, 60_000), repeating: "e\u{301}", ";")
        },
        ParserCase(
            parser: "HTTP over the link",
            content: "a code of zeros",
            reading: .function { bytes in
                let frame = Frame(.response, type: TunnelWire.abortType, body: Bytes(bytes))
                _ = TunnelWire.abortCode(in: Response(frame))
            }
        ) {
            Content($0, repeating: "0")
        },
    ]

    private static func head(
        _ parser: String,
        _ content: String,
        _ fields: String,
        _ read: @escaping @Sendable (Frame) throws -> Void
    ) -> ParserCase {
        let reading: Reading = .function { try read(Frame(.response, status: 200, body: Bytes($0))) }
        return ParserCase(parser: parser, content: content, limit: "64 KiB of a head", reading: reading) { _ in
            Content(bytes: Array("\(ok)\(fields)\r\n".utf8))
        }
    }
}
