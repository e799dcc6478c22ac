struct NetlinkLink: Equatable {
    let index: UInt32
    private let flags: UInt32
    /// An `ARPHRD_` number of linux/if_arp.h.
    private let hardware: UInt16
    private(set) var name = ""
    private(set) var kind: String?

    /// RTM_NEWLINK; `nil` for any other message, or a malformed one.
    init?(_ message: NetlinkMessage) {
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

    var isUp: Bool { flags & InterfaceFlags.up != 0 }

    var isLoopback: Bool { flags & InterfaceFlags.loopback != 0 }

    /// Also without a carrier, such as `dummy`. One flag is sufficient: they change in turn, or netlink sets only one.
    var isUsable: Bool { isUp && flags & (InterfaceFlags.running | InterfaceFlags.lowerUp) != 0 }

    var isTunnel: Bool {
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
enum InterfaceFlags {
    static let up: UInt32 = 0x1
    static let loopback: UInt32 = 0x8
    static let pointToPoint: UInt32 = 0x10
    static let running: UInt32 = 0x40
    static let lowerUp: UInt32 = 0x10000
}
