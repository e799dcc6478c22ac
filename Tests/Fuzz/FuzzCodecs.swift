import Trunkline

/// The codecs that are no layouts.
enum FuzzCodecs {
    static let ours: [FuzzProtocol] = [
        FuzzProtocol(DelimitedCodec(delimiter: 0xFF, maximumFrameSize: 200), limit: 200),
        FuzzProtocol(DelimitedCodec(delimiter: "\r\n", maximumFrameSize: 64), limit: 64),
        FuzzProtocol(DelimitedCodec(delimiter: "aba", parts: 2, maximumFrameSize: 40), limit: 40),
        FuzzProtocol(DelimitedCodec(delimiter: "\n").heartbeat(ping: "PING", pong: "PONG"), limit: 8192),
        FuzzProtocol(LengthPrefixedCodec(UInt8.self, maximumFrameSize: 100), limit: 100),
        FuzzProtocol(LengthPrefixedCodec(UInt64.self, maximumFrameSize: 100), limit: 100),
        FuzzProtocol(LengthPrefixedCodec(.varint, maximumFrameSize: 300), limit: 300),
        FuzzProtocol(
            LengthPrefixedCodec(.integer(width: 3, order: .littleEndian, countingItself: true), maximumFrameSize: 300)
                .serial(at: 1, UInt32.self),
            limit: 300
        ),
    ]

    /// A server that answers a HEAD request between two others.
    static let http: [FuzzProtocol] = [limited(partSize: 0), limited(partSize: 4096)]

    private static func limited(partSize: Int) -> FuzzProtocol {
        let codec = HTTP1Codec(host: "h") {
            ($0.maximumHeadSize, $0.maximumBodySize, $0.maximumFields, $0.partSize) = (200, 300, 8, partSize)
        }
        let requests = [HTTP1Request.Method.get, .head, .post].map { Frame(.request, type: $0.type) }
        // Host and Content-Length are added where they were missing, and chunks taken off.
        var http = FuzzProtocol(codec, limit: 1200, sent: requests, isReversible: false)
        http.joinsParts = true
        return http
    }

    static let redis: [FuzzProtocol] = [
        FuzzProtocol(RESPCodec(version: 3, maximumSize: 2000), limit: 70_000),
        FuzzProtocol(RESPCodec(version: 2, maximumSize: 2000), limit: 70_000),
    ]

    /// After a CONNECT, which the broker may accept.
    static let mqtt: [FuzzProtocol] = {
        var codec = MQTTCodec()
        codec.maximumLength = 300
        let connect = Frame(.request, type: 0x10, serial: 7)
        return [FuzzProtocol(codec, limit: 303, sent: [connect], isReversible: false)]
    }()
}
