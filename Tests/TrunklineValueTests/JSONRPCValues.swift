import Testing
import Trunkline
import TrunklineFoundation

extension ArgumentValueTests {
    static let jsonRPC = [
        ValueCase("JSONRPCCodec.init(maximumMessageSize: Int)", "JSONRPCCodec.setMaximumFrameSize(_: Int)") {
            let message: Bytes = "Content-Length: 37\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":[1]}\n"
            for size in Int.extremes {
                for framing in [JSONRPCCodec.Framing.lines, .contentLength] {
                    var codec = JSONRPCCodec(framing, maximumMessageSize: size)
                    codec.setMaximumFrameSize(size)
                    #expect(codec.maximumMessageSize == max(128, size))
                    var (input, frames) = (
                        ReceiveBuffer(framing == .lines ? Bytes(message.dropFirst(22)) : Bytes(message.dropLast())),
                        [Frame]()
                    )
                    try codec.decodeAll(&input, into: &frames)
                    #expect(frames.first?.body == "[1]")
                    var (request, output) = (Frame(.request, serial: 1, body: "[1]"), SendBuffer())
                    request[bytes: "method"] = "m"
                    try codec.encode(request, into: &output)
                    #expect(output.bytes.count > 40)
                }
            }
        },
        ValueCase(
            "JSONRPCCodec.ping(number: UInt64)",
            "JSONRPCCodec.cancelFrame(for: SerialNumber, type: UInt32)",
            "JSONRPCCodec.cancelKind(ofType: UInt32)"
        ) {
            for number in UInt64.extremes {
                var codec = JSONRPCCodec(.lines, dialect: .modelContext)
                let frames = [
                    codec.ping(number: number),
                    codec.cancelFrame(for: number, type: UInt32(truncatingIfNeeded: number)),
                ]
                for frame in frames.compactMap(\.self) {
                    var output = SendBuffer()
                    try codec.encode(frame, into: &output)
                    #expect(output.bytes.last == 0x0A)
                }
                #expect(codec.cancelKind(ofType: UInt32(truncatingIfNeeded: number)) == .unanswered)
            }
        },
        ValueCase("JSONRPCCodec.Dialect.errorNames: [Int : String]") {
            for number in Int.extremes {
                var dialect = JSONRPCCodec.Dialect.plain
                dialect.errorNames = [number: "NAME"]
                var codec = JSONRPCCodec(.lines, dialect: dialect)
                let error = "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":\(number),\"message\":\"m\"}}\n"
                var input = ReceiveBuffer(Bytes(error))
                let frame = try codec.decode(&input)
                #expect(frame?.reason == ServerReason("NAME", code: number, text: "m"))
            }
        },
        ValueCase("JSONRPCError.Code.init(rawValue: Int)", "JSONRPCError.Code.init(integerLiteral: Int)") {
            for number in Int.extremes {
                let code = JSONRPCError.Code(rawValue: number)
                #expect(code == JSONRPCError.Code(integerLiteral: number))
                let error = JSONRPCError(code, "m")
                #expect(JSONRPCError(parsing: error.response.body) == error)
            }
        },
        ValueCase("JSONRPCRequest.type: UInt32") {
            for number in UInt32.extremes {
                var request = JSONRPCRequest("m", [1], replyingWith: Int.self)
                request.type = number
                let untyped = try Request(request)
                #expect(untyped.type == number && untyped.body == "[1]")
            }
        },
    ]
}
