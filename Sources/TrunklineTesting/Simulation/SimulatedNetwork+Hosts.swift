import Trunkline

/// Hosts and names.
extension SimulatedNetwork {
    /// The address of the host called `name`, such as "10.0.0.1": for a server to listen at. The name resolves to it.
    @discardableResult
    public func host(_ name: String) -> String {
        loop.confined { loop.network.names.host(name).description }
    }

    /// Lets `name` resolve to `hosts` (names or IP addresses), in that order; to nothing when there are none.
    public func setName(_ name: String, hosts: [String]) {
        loop.confined {
            loop.network.names.set(name, to: hosts.map { loop.network.names.host($0) })
        }
    }
}

/// Names that answer in their own time.
extension SimulatedNetwork {
    /// How `name` is answered from now on, in each family.
    public func setResolution(of name: String, ipv6: NameAnswer = .usual, ipv4: NameAnswer = .usual) {
        loop.confined {
            loop.network.names.setManner(ipv6, of: name, .ipv6)
            loop.network.names.setManner(ipv4, of: name, .ipv4)
        }
    }
}

/// Faults. A host is named by its name, its IP address, or `unix:` and a path; `nil` stands for every host. What
/// happens to a host happens to every link to a server there; what happens to the host that all clients share is said by
/// its interfaces, from `addInterface(_:address:metric:isTunnel:)` on.
extension SimulatedNetwork {
    /// Holds every packet to and from `host` until `heal`: links freeze, connecting takes for ever.
    public func partition(_ host: String? = nil) { setCut(true, host) }

    /// Ends a partition. Packets that were held set out again, none is lost.
    public func heal(_ host: String? = nil) { setCut(false, host) }

    /// Resets every link to `host`: both ends learn it now, and unread bytes are lost.
    public func reset(_ host: String? = nil) {
        forEachLink(to: host) { link in
            let error = TransportError(.reset, errno: 104, "connection reset by the network")
            link.fail(.client, error)
            link.fail(.server, error)
        }
    }

    /// Lets the far end of every link to `host` vanish without a word: packets get lost for ever in both directions,
    /// writes succeed until the buffers are full. Links made later work.
    public func halfOpen(_ host: String? = nil) {
        forEachLink(to: host) { $0.vanish() }
    }

    /// Refuses links to `host` from now on, whoever listens there.
    public func refuseConnections(to host: String) {
        setRefusal(TransportError(.refused, errno: 111, "connection refused: \(host)"), host)
    }

    /// Answers connecting to `host` with "unreachable" from now on.
    public func makeUnreachable(_ host: String) {
        setRefusal(TransportError(.unreachable, errno: 113, "no route to \(host)"), host)
    }

    /// Answers connecting to `host` with nothing at all from now on, as a listener with a full backlog does. Links there
    /// are go on; what began to connect meanwhile never does.
    public func swallowConnections(to host: String) {
        setRefusal(nil, host, swallows: true)
    }

    /// Ends `refuseConnections(to:)` and `swallowConnections(to:)`.
    public func acceptConnections(to host: String) { setRefusal(nil, host) }

    /// Changes the conditions of links to `host`, of those there are and of those to come; with `nil` of all links.
    public func setConditions(_ conditions: NetworkConditions, for host: String? = nil) {
        let traits = LinkTraits(conditions)
        forEachLink(to: host) { link in
            link.traits = traits
            link.pumpBoth()
        }
        loop.confined { loop.network.faults.setTraits(traits, addresses(of: host)) }
    }

    private func setCut(_ isCut: Bool, _ host: String?) {
        loop.confined { loop.network.faults.setCut(isCut, addresses(of: host)) }
        forEachLink(to: host) { $0.setCut(loop.network.faults.isCut($0.serverHost)) }
    }

    private func setRefusal(_ error: TransportError?, _ host: String, swallows: Bool = false) {
        loop.confined {
            loop.network.note(.fault)
            loop.network.faults.setRefusal(error, swallows: swallows, addresses(of: host) ?? [])
        }
    }

    private func forEachLink(to host: String?, _ body: (SimulatedLink) -> Void) {
        loop.confined {
            loop.network.note(.fault)
            for link in loop.network.links(to: addresses(of: host)) { body(link) }
        }
    }

    /// The addresses of `host`, which is made if there is none; `nil` for `nil`.
    func addresses(of host: String?) -> [HostAddress]? {
        guard let host else { return nil }
        loop.network.names.host(host)
        return loop.network.names.lookUp(host)
    }
}
