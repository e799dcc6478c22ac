import Trunkline
import TrunklineDiagnostics

extension ParserCase {
    /// Everything that reads bytes of a peer, apart from netlink, whose peer is the kernel, and what OpenSSL and
    /// Foundation read.
    static let all =
        delimited + counted + prefixed + layouts + json + http + heads + proxies + names + recordings + output

    private static let proxies: [ParserCase] = [
        connect("a header of fields", "HTTP/1.1 200 \r\n" + times(4000, "a:\r\n") + "\r\n"),
        connect("a reason of accents", "HTTP/1.1 200 " + times(5400, "e\u{301}") + "\r\n\r\n"),
        connect("a status line of words", "HTTP/1.1 200 " + times(8000, "a ") + "\r\n\r\n"),
        connect("a header of CR", "HTTP/1.1 200 \r\n" + times(16_000, "\r") + "\n"),
        connect(
            "interim responses",
            times(8, "HTTP/1.1 100 " + times(8000, "a ") + "\r\n\r\n") + "HTTP/1.1 200 \r\n\r\n"
        ),
        ParserCase(
            parser: "SOCKS5Exchange",
            content: "a name of 255 bytes",
            limit: "one answer",
            reading: .exchange { try SOCKS5Exchange(to: "a", nil, port: 1, as: nil) }
        ) { _ in
            Content(bytes: [5, 0, 5, 0, 0, 3, 255] + [UInt8](repeating: 97, count: 257))
        },
        ParserCase(
            parser: "KnownService",
            content: "16 bytes",
            limit: "16 bytes",
            reading: .function { bytes in
                guard KnownService(bytes) == nil else { throw BenchError("a known service") }
            }
        ) { _ in
            Content(bytes: [UInt8](repeating: 0x2A, count: 16))
        },
    ]

    private static func connect(_ content: String, _ answer: String) -> ParserCase {
        ParserCase(
            parser: "HTTPConnectExchange",
            content: content,
            limit: "16 KiB of a header",
            reading: .exchange { try HTTPConnectExchange(to: "a", port: 1, as: nil) }
        ) { _ in
            Content(bytes: Array(answer.utf8))
        }
    }

    private static let names: [ParserCase] = [
        srv("records") {
            // A record of another type, with an empty name, to which the names of the others point.
            let record: [UInt8] = [0xC0, 12, 0, 33, 0, 1, 0, 0, 0, 0, 0, 8, 0, 1, 0, 1, 0, 1, 0xC0, 12]
            return answers(3200, record, after: [0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0])
        },
        srv("names of 127 labels") {
            let labels = [UInt8](times(126, "\u{1}a").utf8) + [0]
            return answers(240, labels + [0, 33, 0, 1, 0, 0, 0, 0, 0, 7, 0, 1, 0, 1, 0, 1, 0])
        },
        srv("pointers to pointers") {
            // A record of another type with a chain of pointers, and records whose names are at its end.
            let start = 23
            let chain = (0..<4000).flatMap { index in
                let target = index == 0 ? 12 : start + 2 * (index - 1)
                return [UInt8(0xC0 | target >> 8), UInt8(target & 0xFF)]
            }
            let end = start + 2 * 3999
            let length = [UInt8(chain.count >> 8), UInt8(chain.count & 0xFF)]
            let other: [UInt8] = [0, 0, 1, 0, 1, 0, 0, 0, 0] + length
            let name = [UInt8(0xC0 | end >> 8), UInt8(end & 0xFF)]
            let record = name + [0, 33, 0, 1, 0, 0, 0, 0, 0, 7, 0, 1, 0, 1, 0, 1, 0]
            return answers(2900, record, after: other + chain)
        },
    ]

    private static func srv(_ content: String, _ make: @escaping @Sendable () -> [UInt8]) -> ParserCase {
        let reading: Reading = .function { bytes in
            do throws(SRVError) { _ = try SRVRecords(reading: bytes) } catch {
                guard case .malformed = error else { throw error }
            }
        }
        return ParserCase(parser: "SRVRecords", content: content, limit: "64 KiB of a message", reading: reading) { _ in
            Content(bytes: make())
        }
    }

    private static func answers(_ count: Int, _ record: [UInt8], after first: [UInt8] = []) -> [UInt8] {
        let number = count + (first.isEmpty ? 0 : 1)
        let head: [UInt8] = [0, 1, 0x80, 0, 0, 0, UInt8(number >> 8), UInt8(number & 0xFF), 0, 0, 0, 0]
        return head + first + (0..<count).flatMap { _ in record }
    }

    private static let recordings: [ParserCase] = [
        recording("bodies") {
            let frame = "{\"t\":1.0,\"received\":\"response\",\"session\":1,\"bytes\":1,\"body\":\""
            return Content($0, header + frame, repeating: "ff", "\"}\n")
        },
        recording("escapes") { Content($0, header + event, repeating: "\\n", "\"}\n") },
        recording("escapes by number") { Content($0, header + event, repeating: "\\u0041", "\"}\n") },
        recording("pairs of surrogates") { Content($0, header + event, repeating: "\\ud83d\\ude00", "\"}\n") },
        recording("letters") { Content($0, header + event, repeating: "a", "\"}\n") },
        recording("digits") { Content($0, header + "{\"t\":1.0,\"event\":\"a\",\"b\":1.", repeating: "1", "}\n") },
        recording("members") { Content($0, header + "{\"t\":1.0,\"event\":\"a\"", repeating: ",\"a\":0", "}\n") },
        recording("calls") { Content($0, header, repeating: "{\"t\":1.0,\"call\":1,\"type\":2,\"bytes\":3}\n") },
        recording("empty lines") { Content($0, header, repeating: "\n") },
    ]

    private static let header = "{\"recording\":1,\"complete\":true}\n"
    private static let event = "{\"t\":1.0,\"event\":\""

    private static func recording(_ content: String, _ make: @escaping @Sendable (Int) -> Content) -> ParserCase {
        let reading: Reading = .function { _ = try Recording(jsonLines: String(decoding: $0, as: UTF8.self)) }
        return ParserCase(parser: "Recording", content: content, limit: "not on a loop", reading: reading, make: make)
    }

    private static let output: [ParserCase] = [
        written("lines of 1 byte", "a\n"),
        written("empty lines", "\n"),
        written("lines of 1 KiB", times(1023, "a") + "\n"),
        written("lines of escaped characters", times(500, "\u{85}") + "\n"),
        written("a line", "a"),
    ]

    private static func written(_ content: String, _ unit: String) -> ParserCase {
        let reading: Reading = .function { bytes in
            var lines = OutputLines()
            let now = Instant(nanoseconds: 0)
            _ = lines.append(bytes, at: now)
            _ = lines.finish(at: now)
        }
        return ParserCase(
            parser: "OutputLines",
            content: content,
            limit: "1 KiB of a line, 20 lines a second",
            reading: reading
        ) {
            Content($0, repeating: unit)
        }
    }
}
