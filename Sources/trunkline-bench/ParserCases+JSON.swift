import Trunkline
import TrunklineFoundation

extension ParserCase {
    static let json: [ParserCase] =
        [
            line("letters in a string", "\"", "a", "\""),
            line("escapes", "\"", "\\n", "\""),
            line("escapes by number", "\"", "\\u0041", "\""),
            line("pairs of surrogates", "\"", "\\ud83d\\ude00", "\""),
            line("UTF-8 of four bytes", "\"", "😀", "\""),
            line("digits of one number", "", "1", ""),
            line("numbers of one digit", "", "0,", "0"),
            line("literals", "", "null,", "null"),
            line("empty strings", "", "\"\",", "0"),
            line("empty arrays", "", "[],", "0"),
            line("empty objects", "", "{},", "0"),
            line("nesting, 500 levels", "", times(500, "[") + times(500, "]") + ",", "0"),
            line("nested objects", "", times(500, "{\"\":") + "0" + times(500, "}") + ",", "0"),
            line("members of 5 bytes", "{", "\"\":0,", "\"\":0}"),
            line("white space", "", "\t", "0"),
            jsonLines("outermost members of 5 bytes") {
                Content($0, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":0", repeating: ",\"\":0", "}\n")
            },
            jsonLines("outermost names with an escape") {
                Content($0, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":0", repeating: ",\"\\n\":0", "}\n")
            },
            jsonLines("outermost names in escapes") {
                Content(
                    $0,
                    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":0",
                    repeating: ",\"\(escaped("jsonrpx"))\":0",
                    "}\n"
                )
            },
            jsonLines("white space between members") {
                Content($0, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":0", repeating: " ", "}\n")
            },
            method("letters in the method", "a"),
            method("escapes in the method", "\\n"),
            method("escapes by number in the method", "\\u0001"),
            method("pairs of surrogates in the method", "\\ud83d\\ude00"),
            method("UTF-8 of two bytes in the method", "é"),
            error("letters in the message of an error", ",\"message\":\"", "a", "\"}"),
            error("escapes in the message of an error", ",\"message\":\"", "\\n", "\"}"),
            error("escapes in the data of an error", ",\"data\":\"", "\\u0041", "\"}"),
            error("members of an error", "", ",\"\":0", "}"),
            error("names in escapes in an error", "", ",\"\(escaped("messagf"))\":0", "}"),
            error("codes of 512 digits", "", ",\"code\":\(times(512, "1"))", ",\"code\":1}"),
            jsonLines("parameters of cancellations", dialect: .languageServer) {
                Content(
                    $0,
                    "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":1",
                    repeating: ",\"\":0",
                    "}}\n"
                )
            },
            jsonLines("a batch of 10,000 responses", limit: "10,000 messages") {
                let message = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":0}"
                let count = min(10_000, $0 / (message.utf8.count + 1))
                var content = Content(1, "[", repeating: times(count - 1, message + ",") + message, "]\n")
                content.messages = count
                return content
            },
            jsonLines("a batch of 10,000 numbers", limit: "10,000 messages", isMalformed: true) {
                var content = Content(min($0, 20_000), "[", repeating: "0,", "0]\n")
                content.messages = content.bytes.count / 2 - 1
                return content
            },
            jsonLines("responses") { .messages($0, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":0}\n") },
            jsonLines("ids of 512 digits") {
                .messages($0, "{\"jsonrpc\":\"2.0\",\"id\":\(times(512, "1")),\"result\":0}\n")
            },
            jsonLines("ids in escapes") {
                .messages($0, "{\"jsonrpc\":\"2.0\",\"id\":\"\(times(85, "\\u0031"))\",\"result\":0}\n")
            },
            jsonLines("empty lines") { .messages($0, "\n") },
            jsonLines("lines of no JSON", isMalformed: true) { .messages($0, "x\n") },
            jsonLines("half pairs of surrogates in the method", isMalformed: true) {
                Content($0, "{\"jsonrpc\":\"2.0\",\"method\":\"", repeating: "\\ud83d", "\"}\n")
            },
        ] + headers + errors

    private static func line(_ content: String, _ head: String, _ unit: String, _ tail: String) -> ParserCase {
        jsonLines(content) {
            Content($0, "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[" + head, repeating: unit, tail + "]}\n")
        }
    }

    private static func method(_ content: String, _ unit: String) -> ParserCase {
        jsonLines(content) { Content($0, "{\"jsonrpc\":\"2.0\",\"method\":\"", repeating: unit, "\"}\n") }
    }

    private static func error(_ content: String, _ head: String, _ unit: String, _ tail: String) -> ParserCase {
        jsonLines(content) {
            let start = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1"
            return Content($0, start + head, repeating: unit, tail + "}\n")
        }
    }

    private static func jsonLines(
        _ content: String,
        limit: String = "",
        dialect: JSONRPCCodec.Dialect = .modelContext,
        isMalformed: Bool = false,
        _ make: @escaping @Sendable (Int) -> Content
    ) -> ParserCase {
        ParserCase(
            parser: "JSON-RPC in lines",
            content: content,
            limit: limit,
            reading: .codec(JSONRPCCodec(.lines, dialect: dialect)),
            isMalformed: isMalformed,
            make: make
        )
    }

    private static let headers: [ParserCase] = [
        withHeader("messages with fields of two bytes", times(1300, "a:\n")),
        withHeader("messages with a field of 4,000 bytes", "a:" + times(4000, " ") + "\r\n"),
        withHeader("messages with parameters of the type", "Content-Type:" + times(4000, ";") + "\r\n"),
        withHeader("messages", ""),
        ParserCase(
            parser: "JSON-RPC with headers",
            content: "escapes by number",
            reading: .codec(JSONRPCCodec(.contentLength))
        ) { size in
            let text = Content(
                size,
                "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[\"",
                repeating: "\\u0041",
                "\"]}"
            )
            return Content(bytes: Array("Content-Length: \(text.bytes.count)\r\n\r\n".utf8) + text.bytes)
        },
    ]

    private static func withHeader(_ content: String, _ fields: String) -> ParserCase {
        ParserCase(
            parser: "JSON-RPC with headers",
            content: content,
            limit: fields.isEmpty ? "" : "4,096 bytes of a header",
            reading: .codec(JSONRPCCodec(.contentLength))
        ) {
            let message = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":0}"
            return .messages($0, "\(fields)Content-Length: \(message.utf8.count)\r\n\r\n\(message)")
        }
    }

    private static let errors: [ParserCase] = [
        caught("letters", "a"), caught("escapes", "\\n"), caught("escapes by number", "\\u0041"),
        caught("pairs of surrogates", "\\ud83d\\ude00"), caught("UTF-8 of two bytes", "é"),
    ]

    private static func caught(_ content: String, _ unit: String) -> ParserCase {
        let reading: Reading = .function { bytes in
            guard JSONRPCError(parsing: Bytes(bytes)) != nil else { throw BenchError("no error of JSON-RPC") }
        }
        return ParserCase(parser: "JSONRPCError", content: content + " in the message", reading: reading) {
            Content($0, "{\"code\":1,\"message\":\"", repeating: unit, "\"}")
        }
    }

    private static func escaped(_ text: String) -> String {
        text.utf8.map { "\\u00" + String($0, radix: 16) }.joined()
    }
}
