/// A route, as reported by the kernel.
package struct NetlinkRoute: Equatable {
    /// The type of the route: an `RTN_` number of linux/rtnetlink.h.
    private let kind: UInt8
    private let flags: UInt32
    /// The number of the interface.
    package private(set) var interface: UInt32?
    /// The local address that a new socket gets; `nil` if the kernel does not report it.
    package private(set) var source: [UInt8]?
    /// The next router. Its address family may differ from that of the destination.
    package private(set) var gateway: [UInt8]?

    /// Decodes a message of type RTM_NEWROUTE. `nil` for any other message, or a malformed one.
    package init?(_ message: NetlinkMessage) {
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

    /// Whether the route leads to this host itself.
    package var isLocal: Bool { kind == 2 }

    /// Whether the route forwards packets: it does not drop them (blackhole, unreachable, prohibit, throw), and neither
    /// the route (RTNH_F_DEAD) nor the carrier of its interface (RTNH_F_LINKDOWN) is down.
    package var leadsOn: Bool { !(6...9).contains(kind) && flags & (1 | 16) == 0 }
}
