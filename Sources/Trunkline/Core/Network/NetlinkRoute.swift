/// A route, as the kernel answers a request for one.
package struct NetlinkRoute: Equatable {
    /// What becomes of a packet, by its number in linux/rtnetlink.h.
    private let kind: UInt8
    private let flags: UInt32
    /// The number of the interface.
    package private(set) var interface: UInt32?
    /// The address that a new socket gets; `nil` if the kernel does not tell.
    package private(set) var source: [UInt8]?
    /// The next router, perhaps of the other family than the destination.
    package private(set) var gateway: [UInt8]?

    /// Reads a message of type RTM_NEWROUTE; `nil` for any other, or a malformed one.
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

    /// Whether it leads to this host itself.
    package var isLocal: Bool { kind == 2 }

    /// Whether it leads somewhere: packets are not dropped (blackhole, unreachable, prohibit, throw), and neither the route
    /// (RTNH_F_DEAD) nor the carrier of its interface (RTNH_F_LINKDOWN) is gone.
    package var leadsOn: Bool { !(6...9).contains(kind) && flags & (1 | 16) == 0 }
}
