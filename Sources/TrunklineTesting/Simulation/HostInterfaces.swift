import TrunklineCore

/// The network of the host that all clients of a simulated network share.
struct HostInterfaces: Equatable {
    struct Interface: Equatable {
        let name: String
        /// In the order in which they were added. A new socket gets the first one of its family.
        var addresses: [HostAddress]
        var metric = 100
        var isTunnel = false
        var isUp = true
        /// Packets are held although routes still lead through the interface.
        var isCut = false

        func source(for host: HostAddress) -> HostAddress? {
            isUp ? addresses.first { $0.isSameFamily(as: host) } : nil
        }
    }

    /// Takes precedence over the default route.
    enum HostRoute: Equatable {
        case unreachable
        case through(String)
    }

    private(set) var interfaces = [
        Interface(
            name: "eth0",
            addresses: [.ip([10, 255, 0, 1]), .ip([0xfd] + [UInt8](repeating: 0, count: 14) + [1])]
        )
    ]
    /// Accessed by key only, never iterated.
    private var routes: [HostAddress: HostRoute] = [:]

    func hasInterface(_ name: String) -> Bool { interfaces.contains { $0.name == name } }

    func owner(of address: HostAddress) -> Interface? { interfaces.first { $0.addresses.contains(address) } }

    mutating func add(_ interface: Interface) { interfaces.append(interface) }

    mutating func change(_ name: String, _ body: (inout Interface) -> Void) {
        guard let index = interfaces.firstIndex(where: { $0.name == name }) else { return }
        body(&interfaces[index])
    }

    mutating func setRoute(_ route: HostRoute?, to host: HostAddress) { routes[host] = route }

    var hasNetwork: Bool { interfaces.contains { $0.isUp && !$0.addresses.isEmpty } }

    func isUsable(_ address: HostAddress) -> Bool { address.isLoopback || owner(of: address)?.isUp == true }

    /// `nil` if no route leads to `host`. With `source`, packets leave by the interface that has it.
    func route(to host: HostAddress, from source: HostAddress? = nil) -> (interface: Interface, source: HostAddress)? {
        if let source {
            guard routes[host] != .unreachable, source.isSameFamily(as: host), let owner = owner(of: source), owner.isUp
            else { return nil }
            return (owner, source)
        }
        switch routes[host] {
        case .unreachable?: return nil
        case .through(let name)?:
            if let interface = interfaces.first(where: { $0.name == name }), let source = interface.source(for: host) {
                return (interface, source)
            }
        case nil: break
        }
        var best: (interface: Interface, source: HostAddress)?
        for interface in interfaces where best.map({ interface.metric < $0.interface.metric }) ?? true {
            if let source = interface.source(for: host) { best = (interface, source) }
        }
        return best
    }

    func carries(_ local: HostAddress, to host: HostAddress) -> Bool {
        if host.isLoopback { return true }
        guard let (interface, _) = route(to: host, from: local) else { return false }
        return !interface.isCut
    }

    func localAddress(to host: HostAddress, from source: HostAddress?) -> Result<HostAddress, TransportError> {
        guard !host.isLocal else { return .success(.unix(path: "")) }
        let source = source == host.wildcard ? nil : source
        if let source {
            guard source.isSameFamily(as: host) else {
                return .failure(
                    TransportError(
                        .invalidAddress,
                        errno: 97,
                        "the source address \(source) is not of the same address family as \(host)"
                    )
                )
            }
            guard source.isLoopback || owner(of: source) != nil else {
                return .failure(TransportError(.invalidAddress, errno: 99, "cannot assign requested address \(source)"))
            }
        }
        if host.isLoopback { return .success(source ?? host.loopback) }
        if let source, source.isLoopback {
            return .failure(
                TransportError(
                    .invalidAddress,
                    errno: 22,
                    "the source address \(source) is a loopback address, but \(host) is not"
                )
            )
        }
        guard let route = route(to: host, from: source) else {
            return .failure(TransportError(.unreachable, errno: 101, "network is unreachable"))
        }
        return .success(route.source)
    }
}
