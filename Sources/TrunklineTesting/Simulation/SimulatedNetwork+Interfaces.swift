import Trunkline

/// Interfaces, addresses and routes of the host that all clients of this network share.
///
/// At first the host has one interface, "eth0", that is up, with metric 100 and the addresses 10.255.0.1 and fd00::1.
/// New links leave by the interface with the lowest metric that is up and has an address of the server's family, and get
/// the first such address; `options.connecting.sourceAddress` chooses another. Without such an interface connecting fails
/// with `unreachable`. Clients learn of each change within 5 ms of virtual time; changes made without a wait between them are
/// one change to them.
///
/// A link keeps its local address for life, and travels through the interface that has that address. While no interface
/// that is up has it, its packets are held; they set out again when the address is back, even on another interface, and
/// the server notices nothing. Links to loopback addresses and Unix sockets need no interface.
///
///     network.addInterface("wlan0", address: "192.168.0.7", metric: 600)
///     network.setInterface("eth0", isUp: false)        // links over eth0 are lost, new ones leave by wlan0
///
/// The name of an unknown interface, or an invalid address, is a programming error and stops the program.
/// `Snippets/PathChange.swift` shows a client in such a network.
extension SimulatedNetwork {
    /// Adds an interface that is up.
    ///
    /// - Parameters:
    ///   - name: A name that no other interface has.
    ///   - address: An IPv4 or IPv6 address that no other interface has; `addAddress(_:to:)` adds more.
    ///   - metric: The interface with the lowest metric has the default route; of equals, the one that was added first. Default
    ///     100, as "eth0" has.
    ///   - isTunnel: Whether `NetworkRoute.isTunnel` says so. It depends on no other interface.
    public func addInterface(_ name: String, address: String, metric: Int = 100, isTunnel: Bool = false) {
        let address = interfaceAddress(address)
        changeInterfaces("\(name) added with \(address)") { interfaces in
            precondition(!interfaces.hasInterface(name), "there is an interface called \(name) already")
            expectFree(address, for: name, interfaces)
            interfaces.add(.init(name: name, addresses: [address], metric: metric, isTunnel: isTunnel))
        }
    }

    /// Adds an address, which no other interface may have, to `interface`. Packets of links with this address set out again.
    public func addAddress(_ address: String, to interface: String) {
        let address = interfaceAddress(address)
        changeInterfaces("\(address) added to \(interface)", of: interface) { interfaces in
            expectFree(address, for: interface, interfaces)
            interfaces.change(interface) { if !$0.addresses.contains(address) { $0.addresses.append(address) } }
        }
    }

    /// Removes an address from `interface`, if it is there. Packets of links with this address are held.
    public func removeAddress(_ address: String, from interface: String) {
        let address = interfaceAddress(address)
        changeInterfaces("\(address) removed from \(interface)", of: interface) { interfaces in
            interfaces.change(interface) { $0.addresses.removeAll { $0 == address } }
        }
    }

    /// Takes an interface down or up. While it is down, it keeps its addresses (as Linux does with those of IPv4), but packets of
    /// their links are held, and no route leads through it.
    public func setInterface(_ interface: String, isUp: Bool) {
        changeInterfaces("\(interface) is \(isUp ? "up" : "down")", of: interface) { interfaces in
            interfaces.change(interface) { $0.isUp = isUp }
        }
    }

    /// Changes the metric of `interface`, and so perhaps the default route. Existing links stay where they are.
    public func setMetric(_ metric: Int, of interface: String) {
        changeInterfaces("\(interface) has metric \(metric)", of: interface) { interfaces in
            interfaces.change(interface) { $0.metric = metric }
        }
    }

    /// Routes new links to one host through `interface`, whatever its metric; with `nil` no route leads there, and packets
    /// of existing links are held.
    ///
    /// While the interface is down or has no address of the family, the default route counts. Ends with `removeRoute(to:)`.
    ///
    /// - Parameter host: A name, which stands for the addresses it resolves to now, or an IP address.
    public func setRoute(to host: String, through interface: String?) {
        changeInterfaces("route to \(host): \(interface ?? "none")", of: interface) { interfaces in
            for address in addresses(of: host) ?? [] {
                interfaces.setRoute(interface.map { .through($0) } ?? .unreachable, to: address)
            }
        }
    }

    /// Ends `setRoute(to:through:)`: the default route leads to `host`.
    public func removeRoute(to host: String) {
        changeInterfaces("route to \(host): default") { interfaces in
            for address in addresses(of: host) ?? [] { interfaces.setRoute(nil, to: address) }
        }
    }

    /// Holds every packet through `interface` until `heal(interface:)`. Its routes stay, and clients hear of nothing: only
    /// pings and timeouts find out.
    public func partition(interface: String) { setCut(true, of: interface) }

    /// Ends `partition(interface:)`. Packets that were held set out again, none is lost.
    public func heal(interface: String) { setCut(false, of: interface) }

    /// Whether clients cannot monitor the network, as on a system that does not allow it: every path but `.local` is `.unknown`,
    /// and clients hear of no change. Default false. To be set before clients connect for the first time.
    public var hidesPaths: Bool {
        get { loop.confined { loop.network.hidesPaths } }
        set { loop.confined { loop.network.hidesPaths = newValue } }
    }

    /// How long it takes at most until clients hear of a change, at least 0. On a real host up to 60 ms pass, in which other
    /// changes may follow. Default 5 ms.
    package var longestNewsDelay: Duration {
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
                precondition(loop.network.interfaces.hasInterface(interface), "no interface is called \(interface)")
            }
            loop.network.changeInterfaces(description, isVisible: isVisible, change)
        }
    }

    /// Reads an address that an interface may have.
    private func interfaceAddress(_ text: String) -> HostAddress {
        guard let address = HostAddress(text), !address.isUnix, !address.isLoopback, address != address.wildcard else {
            preconditionFailure("\(text) is no IP address that an interface can have")
        }
        return address
    }

    private func expectFree(_ address: HostAddress, for name: String, _ interfaces: HostInterfaces) {
        guard let owner = interfaces.owner(of: address), owner.name != name else { return }
        preconditionFailure("\(owner.name) has \(address): remove it there before \(name) gets it")
    }
}
