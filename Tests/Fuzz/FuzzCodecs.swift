import SampleLayouts
import Trunkline
import TrunklineHTTP

/// The codecs other than layouts.
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
        FuzzProtocol(
            LengthPrefixedCodec(UInt16.self, maximumFrameSize: 300)
                .type(at: 1, UInt16.self, order: .littleEndian).serial(at: 3, UInt16.self, numbers: 50...).reading(
                    read
                ),
            limit: 300
        ),
        FuzzProtocol(
            LengthPrefixedCodec(.varint, maximumFrameSize: 300)
                .serial(at: 0, UInt8.self).type(at: 1, UInt32.self).heartbeat(ping: "", pong: "!")
                .reading(readBesidePongs),
            limit: 300
        ),
        FuzzProtocol(
            LengthPrefixedCodec(UInt8.self, maximumFrameSize: 100).type(at: 0, UInt8.self).reading(read),
            limit: 100
        ),
        FuzzProtocol(
            DelimitedCodec(delimiter: "\n", maximumFrameSize: 100).heartbeat(ping: "PING", pong: "PONG").reading {
                frame in
                frame.type = frame.body.first.map { UInt32($0) } ?? 0
                readBesidePongs(&frame)
            },
            limit: 100
        ),
        counted(CountedProtocols.memcached), counted(CountedProtocols.nats), counted(CountedProtocols.lsp),
    ]

    private static func counted(_ codec: CountedPayloadCodec) -> FuzzProtocol {
        // Some codecs make the head when they encode a frame.
        FuzzProtocol(codec, limit: codec.maximumFrameSize, marked: ["head"])
    }

    /// In codecs with heartbeats, a frame that the rule marks as a pong would be encoded as the configured heartbeat.
    @Sendable
    private static func readBesidePongs(_ frame: inout Frame) {
        if frame.type != 6 { read(&frame) }
    }

    /// The meaning of types in protocols that leave it to the reading rule.
    @Sendable
    private static func read(_ frame: inout Frame) {
        switch frame.type {
        case 1: frame.kind = .part
        case 2: frame.kind = .push
        case 3: frame.kind = .goAway
        case 4: frame.isErrorResponse = true
        case 5: (frame.isErrorResponse, frame.status) = (true, 404)
        case 6: frame.kind = .pong
        case 7: frame.markMalformed(.unknownType)
        default: break
        }
    }

    /// A server that answers a HEAD request between two other requests.
    static let http: [FuzzProtocol] = [limited(partSize: 0), limited(partSize: 4096)]

    private static func limited(partSize: Int) -> FuzzProtocol {
        let codec = HTTP1Codec(host: "h") {
            ($0.maximumHeadSize, $0.maximumBodySize, $0.maximumFields, $0.partSize) = (200, 300, 8, partSize)
        }
        let requests = [HTTP1Request.Method.get, .head, .post].map { Frame(.request, type: $0.type) }
        // The codec adds missing Host and Content-Length fields, and removes chunks.
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
