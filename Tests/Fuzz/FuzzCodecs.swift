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

    static let redis: [FuzzProtocol] = [
        FuzzProtocol(RESPCodec(version: 3, maximumSize: 2000), limit: 70_000),
        FuzzProtocol(RESPCodec(version: 2, maximumSize: 2000), limit: 70_000),
    ]

    static let mqtt: [FuzzProtocol] = {
        var codec = MQTTCodec()
        codec.maximumLength = 300
        let connect = Frame(.request, type: 0x10, serial: 7)
        return [FuzzProtocol(codec, limit: 303, sent: [connect], isReversible: false)]
    }()

    static let http: [FuzzProtocol] = {
        let codec = HTTP1Codec(host: "a") { codec in
            (codec.maximumHeadSize, codec.maximumBodySize) = (300, 300)
            (codec.maximumFields, codec.partSize) = (8, 100)
        }
        // What each has asked for before: methods as `HTTP1Request` numbers them.
        let methods: [[HTTP1Request.Method]] = [[.get], [.head, .get], [.get, .get, .head, .connect]]
        return methods.map { methods in
            let sent = methods.map { Frame(.request, type: $0.type) }
            return FuzzProtocol(codec, limit: 1000, sent: sent, isReversible: false)
        }
    }()
}
