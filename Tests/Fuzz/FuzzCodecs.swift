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
}
