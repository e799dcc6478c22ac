import TrunklineCore

/// The network of the host that all clients share; the article `SimulatingNetworks` describes it.
///
/// Clients learn of a change within 5 ms of virtual time, and of changes with no wait between them as one. A link keeps
/// its local address: while no interface that is up has it, packets are held, and later delivered.
extension SimulatedNetwork {
    /// Adds an interface that is up.
    ///
    /// - Parameters:
    ///   - name: A name that no other interface has.
    ///   - address: An IPv4 or IPv6 address that no other interface has. ``addAddress(_:to:)`` adds more.
    ///   - metric: The interface with the lowest metric has the default route. If several have the same metric, the one
    ///     that was added first has it. Default 100, the metric of "eth0".
    ///   - isTunnel: The value of `NetworkRoute.isTunnel` for paths through it. Default `false`. A simulated tunnel
    ///     does not depend on another interface.
    public func addInterface(_ name: String, address: String, metric: Int = 100, isTunnel: Bool = false) {
        let address = interfaceAddress(address)
        changeInterfaces("\(name) added with \(address)") { interfaces in
            precondition(!interfaces.hasInterface(name), "an interface named \(name) already exists")
            expectFree(address, for: name, interfaces)
            interfaces.add(.init(name: name, addresses: [address], metric: metric, isTunnel: isTunnel))
        }
    }

    /// Adds an address to `interface`. Packets that were held for links with this address are delivered.
    ///
    /// - Parameters:
    ///   - address: An IPv4 or IPv6 address that no other interface has.
    ///   - interface: The name of an interface.
    public func addAddress(_ address: String, to interface: String) {
        let address = interfaceAddress(address)
        changeInterfaces("\(address) added to \(interface)", of: interface) { interfaces in
            expectFree(address, for: interface, interfaces)
            interfaces.change(interface) { if !$0.addresses.contains(address) { $0.addresses.append(address) } }
        }
    }

    /// Removes an address from `interface`, if the interface has it. Packets of links with this address are held from
    /// now on.
    public func removeAddress(_ address: String, from interface: String) {
        let address = interfaceAddress(address)
        changeInterfaces("\(address) removed from \(interface)", of: interface) { interfaces in
            interfaces.change(interface) { $0.addresses.removeAll { $0 == address } }
        }
    }

    /// Takes an interface down or up.
    ///
    /// An interface that is down keeps its addresses, as on Linux with IPv4. Packets of links with these
    /// addresses are held, and no route leads through the interface.
    public func setInterface(_ interface: String, isUp: Bool) {
        changeInterfaces("\(interface) is \(isUp ? "up" : "down")", of: interface) { interfaces in
            interfaces.change(interface) { $0.isUp = isUp }
        }
    }

    /// Changes the metric of `interface`, which may change the default route. Existing links keep their interface.
    public func setMetric(_ metric: Int, of interface: String) {
        changeInterfaces("\(interface) has metric \(metric)", of: interface) { interfaces in
            interfaces.change(interface) { $0.metric = metric }
        }
    }

    /// Routes new links to one host through `interface`, regardless of its metric.
    ///
    /// While the interface is down or has no address of the host's family, the default route is used.
    /// ``removeRoute(to:)`` removes the route.
    ///
    /// - Parameters:
    ///   - host: A name, which stands for the addresses that it resolves to now, or an IP address.
    ///   - interface: The name of an interface. With `nil` no route leads to the host, and packets of existing links
    ///     are held.
    public func setRoute(to host: String, through interface: String?) {
        changeInterfaces("route to \(host): \(interface ?? "none")", of: interface) { interfaces in
            for address in addresses(of: host) ?? [] {
                interfaces.setRoute(interface.map { .through($0) } ?? .unreachable, to: address)
            }
        }
    }

    /// Ends ``setRoute(to:through:)``: the default route leads to `host` again.
    public func removeRoute(to host: String) {
        changeInterfaces("route to \(host): default") { interfaces in
            for address in addresses(of: host) ?? [] { interfaces.setRoute(nil, to: address) }
        }
    }

    /// Holds every packet through `interface` until ``heal(interface:)``.
    ///
    /// Routes do not change, and clients are not notified. They detect the partition only by pings and timeouts.
    public func partition(interface: String) { setCut(true, of: interface) }

    /// Ends ``partition(interface:)``. The held packets are delivered; none is lost.
    public func heal(interface: String) { setCut(false, of: interface) }

    /// Whether clients are prevented from monitoring the network, as on a system that does not allow it. Default
    /// `false`.
    ///
    /// If `true`, every path except `.local` is `.unknown`, and clients receive no changes. Set it before clients
    /// connect for the first time.
    public var hidesPaths: Bool {
        get { loop.confined { loop.network.hidesPaths } }
        set { loop.confined { loop.network.hidesPaths = newValue } }
    }

    /// On a real host it can take 60 ms, and other changes may follow in that time.
    var longestNewsDelay: Duration {
        get { loop.confined { .nanoseconds(loop.network.newsDelay.upperBound) } }
        set { loop.confined { loop.network.newsDelay = 0...max(0, newValue.clampedNanoseconds) } }
    }

    private func setCut(_ isCut: Bool, of interface: String) {
        changeInterfaces("\(interface) \(isCut ? "partitioned" : "healed")", of: interface, isVisible: false) {
            $0.change(interface) { $0.isCut = isCut }
        }
    }

    private func changeInterfaces(
        _ description: String,
        of interface: String? = nil,
        isVisible: Bool = true,
        _ change: (inout HostInterfaces) -> Void
    ) {
        loop.confined {
            if let interface {
                precondition(loop.network.interfaces.hasInterface(interface), "no interface is named \(interface)")
            }
            loop.network.changeInterfaces(description, isVisible: isVisible, change)
        }
    }

    private func interfaceAddress(_ text: String) -> HostAddress {
        guard let address = HostAddress(text), !address.isLocal, !address.isLoopback, address != address.wildcard else {
            preconditionFailure("\(text) is not a valid address of an interface")
        }
        return address
    }

    private func expectFree(_ address: HostAddress, for name: String, _ interfaces: HostInterfaces) {
        guard let owner = interfaces.owner(of: address), owner.name != name else { return }
        preconditionFailure("interface \(owner.name) has \(address): remove it there before adding it to \(name)")
    }
}
