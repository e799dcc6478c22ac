import TrunklineCore

/// The names of members. The raw value is the bytes of the name, the first one lowest: `id` is 0x69 0x64.
enum JSONRPCName: UInt64 {
    case jsonrpc = 0x63_7072_6e6f_736a
    case id = 0x6469
    case method = 0x646f_6874_656d
    case params = 0x736d_6172_6170
    case result = 0x746c_7573_6572
    case error = 0x72_6f72_7265
    case code = 0x6564_6f63
    case message = 0x65_6761_7373_656d
    case data = 0x6174_6164

    init?(_ text: Span<UInt8>, _ range: Range<Int>) {
        guard let name = text.shortJSONString(in: range) else { return nil }
        self.init(rawValue: name)
    }
}
