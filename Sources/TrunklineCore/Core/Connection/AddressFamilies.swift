/// Which addresses of a name are looked up and used.
@nonexhaustive
public enum AddressFamilies: Sendable, Hashable {
    /// The IPv6 and the IPv4 addresses.
    case all
    /// The IPv6 addresses only.
    case ipv6
    /// The IPv4 addresses only.
    case ipv4

    package var members: Set<AddressFamily> {
        switch self {
        case .all: Set(AddressFamily.allCases)
        case .ipv6: [.ipv6]
        case .ipv4: [.ipv4]
        }
    }
}
