struct NetlinkRoute: Equatable {
    /// An `RTN_` number of linux/rtnetlink.h.
    private let kind: UInt8
    private let flags: UInt32
    private(set) var interface: UInt32?
    private(set) var source: [UInt8]?
    /// Its address family may differ from that of the destination.
    private(set) var gateway: [UInt8]?

    /// RTM_NEWROUTE; `nil` for any other message, or a malformed one.
    init?(_ message: NetlinkMessage) {
        guard message.type == 24, message.body.count >= 12 else { return nil }
        let body = message.body
        kind = body[body.startIndex + 7]
        flags = body.netlinkInteger(at: 8, as: UInt32.self) ?? 0
        for (type, value) in NetlinkAttributes(body.dropFirst(12)) {
            switch type {
            case 4: interface = value.netlinkInteger(at: 0, as: UInt32.self)
            case 5: gateway = Self.address(value)
            case 7: source = Self.address(value)
            case 18: gateway = Self.address(value.dropFirst(2))  // after its family
            default: break
            }
        }
    }

    private static func address(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        bytes.count == 4 || bytes.count == 16 ? Array(bytes) : nil
    }

    var isLocal: Bool { kind == 2 }

    /// Not blackhole, unreachable, prohibit or throw, and neither RTNH_F_DEAD nor RTNH_F_LINKDOWN.
    var leadsOn: Bool { !(6...9).contains(kind) && flags & (1 | 16) == 0 }
}
