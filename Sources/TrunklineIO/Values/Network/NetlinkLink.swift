package struct NetlinkLink: Equatable {
    package let index: UInt32
    private let flags: UInt32
    /// An `ARPHRD_` number of linux/if_arp.h.
    private let hardware: UInt16
    package private(set) var name = ""
    package private(set) var kind: String?

    /// RTM_NEWLINK; `nil` for any other message, or a malformed one.
    package init?(_ message: NetlinkMessage) {
        guard message.type == 16, let hardware = message.body.netlinkInteger(at: 2, as: UInt16.self),
            let index = message.body.netlinkInteger(at: 4, as: UInt32.self),
            let flags = message.body.netlinkInteger(at: 8, as: UInt32.self), message.body.count >= 16
        else { return nil }
        (self.hardware, self.index, self.flags) = (hardware, index, flags)
        for (type, value) in NetlinkAttributes(message.body.dropFirst(16)) {
            switch type {
            case 3: name = value.netlinkText
            case 18: kind = NetlinkAttributes(value).first { $0.type == 1 }?.value.netlinkText
            default: break
            }
        }
    }

    package var isUp: Bool { flags & InterfaceFlags.up != 0 }

    package var isLoopback: Bool { flags & InterfaceFlags.loopback != 0 }

    /// Also without a carrier, such as `dummy`. One flag is sufficient: they change in turn, or netlink sets only one.
    package var isUsable: Bool { isUp && flags & (InterfaceFlags.running | InterfaceFlags.lowerUp) != 0 }

    package var isTunnel: Bool {
        if let kind {
            if Self.tunnels.contains(kind) { return true }
            if Self.modems.contains(kind) { return false }
        }
        return flags & InterfaceFlags.pointToPoint != 0 || Self.tunnelHardware.contains(hardware)
    }

    private static let tunnels: Set<String> = [
        "tun", "wireguard", "ovpn", "ipip", "sit", "gre", "gretap", "erspan", "ip6tnl", "ip6gre", "ip6gretap",
        "ip6erspan",
        "vti", "vti6", "xfrm", "vxlan", "geneve", "gtp", "bareudp", "amt", "ppp",
    ]
    /// Point-to-point, but not tunnels.
    private static let modems: Set<String> = ["wwan", "rmnet"]
    /// PPP, TUNNEL, TUNNEL6, SIT, IPGRE, IP6GRE.
    private static let tunnelHardware: Set<UInt16> = [512, 768, 769, 776, 778, 823]
}

/// The values are the same on every system; `lowerUp` exists on Linux only.
package enum InterfaceFlags {
    package static let up: UInt32 = 0x1
    package static let loopback: UInt32 = 0x8
    package static let pointToPoint: UInt32 = 0x10
    package static let running: UInt32 = 0x40
    package static let lowerUp: UInt32 = 0x10000
}
