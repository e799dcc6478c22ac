public import TrunklineCore

extension SimulatedNetwork {
    /// Returns the address of the host `name`, such as "10.0.0.1". Creates the host if it does not exist.
    ///
    /// A server can listen at the address, and the name resolves to it. Hosts are also created when another method
    /// first names them.
    @discardableResult
    public func host(_ name: String) -> String {
        loop.confined { loop.network.names.host(name).description }
    }

    /// Makes `name` resolve to `hosts`, in that order.
    ///
    /// - Parameters:
    ///   - name: The name that clients look up.
    ///   - hosts: Host names, which are created if they do not exist, or IP addresses. If empty, the name cannot be
    ///     resolved.
    public func setName(_ name: String, hosts: [String]) {
        loop.confined {
            loop.network.names.set(name, to: hosts.map { loop.network.names.host($0) })
        }
    }
}

extension SimulatedNetwork {
    /// Sets how lookups of `name` are answered from now on, in each address family.
    ///
    /// - Parameters:
    ///   - name: The name that clients look up.
    ///   - ipv6: The answer to lookups of IPv6 addresses. Default: ``NameAnswer/usual``.
    ///   - ipv4: The answer to lookups of IPv4 addresses. Default: ``NameAnswer/usual``.
    public func setResolution(of name: String, ipv6: NameAnswer = .usual, ipv4: NameAnswer = .usual) {
        loop.confined {
            loop.network.names.setManner(ipv6, of: name, .ipv6)
            loop.network.names.setManner(ipv4, of: name, .ipv4)
        }
    }
}

/// Faults of servers' hosts, given by name, IP address, or `unix:` and a path; `nil` stands for every host.
extension SimulatedNetwork {
    /// Holds every packet to and from `host` until ``heal(_:)``. Links freeze, and connecting does not complete.
    ///
    /// - Parameter host: A host, or `nil`, the default, for every host.
    public func partition(_ host: String? = nil) { setCut(true, host) }

    /// Ends a partition. The held packets are delivered; none is lost.
    ///
    /// - Parameter host: A host, or `nil`, the default, to end all partitions. A partition of every host ends only with
    ///   `nil`.
    public func heal(_ host: String? = nil) { setCut(false, host) }

    /// Resets every link to `host`. Both ends learn of it at once, and unread bytes are lost.
    ///
    /// - Parameter host: A host, or `nil`, the default, for every host.
    public func reset(_ host: String? = nil) {
        breakLinks(to: host, TransportError(.reset, errno: 104, "connection reset by the network"))
    }

    /// Makes every link to `host` half-open: its packets are lost from now on, in both directions, and neither end is
    /// notified.
    ///
    /// Writes succeed until the buffers are full. New links are not affected.
    ///
    /// - Parameter host: A host, or `nil`, the default, for every host.
    public func halfOpen(_ host: String? = nil) {
        forEachLink(to: host) { $0.vanish() }
    }

    /// Puts a middlebox in front of `host`, such as a NAT gateway, a firewall or a load balancer, that forgets links on
    /// which no packet was sent for longer than `duration`, in either direction. Neither end is notified.
    ///
    /// Every later packet of a forgotten link is lost, or answered with a reset to its sender. It applies to present
    /// and future links. A link that was forgotten stays so.
    ///
    /// - Parameters:
    ///   - host: A host, or `nil`, the default, for every host: this also replaces the middleboxes of single hosts.
    ///   - duration: The longest time without a packet that links survive, or `nil` to remove the middlebox. A negative
    ///     duration counts as zero.
    ///   - resets: Whether the middlebox answers packets of a forgotten link with a reset. Default false: it drops
    ///     them.
    public func forgetIdleLinks(to host: String? = nil, after duration: Duration?, resets: Bool = false) {
        let middlebox = duration.map { Middlebox(patience: max(.zero, $0), resets: resets) }
        loop.confined { loop.network.faults.setMiddlebox(middlebox, addresses(of: host)) }
        forEachLink(to: host) { $0.middlebox = middlebox }
    }

    /// Refuses new links to `host` from now on, even if a server listens there. Ends with ``acceptConnections(to:)``.
    public func refuseConnections(to host: String) {
        setRefusal(TransportError(.refused, errno: 111, "connection refused: \(host)"), host)
    }

    /// Makes connecting to `host` fail with `unreachable` from now on. Ends with ``acceptConnections(to:)``.
    public func makeUnreachable(_ host: String) {
        setRefusal(TransportError(.unreachable, errno: 113, "no route to \(host)"), host)
    }

    /// Leaves attempts to connect to `host` unanswered from now on, like a listener with a full backlog. Ends with
    /// ``acceptConnections(to:)``.
    ///
    /// Established links are not affected. ``acceptConnections(to:)`` does not answer attempts that were made before
    /// it.
    public func swallowConnections(to host: String) {
        setRefusal(nil, host, swallows: true)
    }

    /// Happens on real hosts if no server listens at a port of the client's own host and the system chooses that port
    /// for the client's end.
    func connectToThemselves(to host: String) {
        setRefusal(nil, host, reflects: true)
    }

    /// Ends ``refuseConnections(to:)``, ``makeUnreachable(_:)`` and ``swallowConnections(to:)`` for `host`.
    public func acceptConnections(to host: String) { setRefusal(nil, host) }

    /// Changes the conditions of present and future links to `host`.
    ///
    /// - Parameters:
    ///   - conditions: The new conditions.
    ///   - host: A host, or `nil`, the default, for every host: this also replaces conditions that were set for single
    ///     hosts.
    public func setConditions(_ conditions: NetworkConditions, for host: String? = nil) {
        let traits = LinkTraits(conditions)
        forEachLink(to: host) { link in
            link.traits = traits
            link.pumpBoth()
        }
        loop.confined { loop.network.faults.setTraits(traits, addresses(of: host)) }
    }

    /// Ends the child process of every link to `endpoint`, a command, with `exit`. The next attempt starts another one.
    ///
    /// - Parameters:
    ///   - endpoint: A command at which a server was started (``startServer(at:speaking:options:handler:)``).
    ///   - exit: How the process ends. Default: by signal 9 (`SIGKILL`).
    public func crash(_ endpoint: Endpoint, exit: ProcessExit = .signal(9)) {
        guard case .command(let command) = endpoint.target else { return }
        loop.confined {
            loop.network.note(.fault)
            for link in loop.network.links(to: [HostAddress(.command(command))]) where link.end(.client).phase == .open
            {
                link.crash(exit)
            }
        }
    }

    func breakLinks(to host: String?, _ error: TransportError) {
        forEachLink(to: host) { link in
            link.fail(.client, error)
            link.fail(.server, error)
        }
    }

    func scriptAttempts(at host: String, lookupFailures: [Bool], _ connects: [ScriptedConnect]) {
        loop.confined {
            loop.network.names.script(lookupFailures, of: host)
            for address in addresses(of: host) ?? [] { loop.network.faults.script(connects, address) }
        }
    }

    private func setCut(_ isCut: Bool, _ host: String?) {
        loop.confined { loop.network.faults.setCut(isCut, addresses(of: host)) }
        forEachLink(to: host) { $0.setCut(loop.network.faults.isCut($0.serverHost)) }
    }

    private func setRefusal(
        _ error: TransportError?,
        _ host: String,
        swallows: Bool = false,
        reflects: Bool = false
    ) {
        loop.confined {
            loop.network.note(.fault)
            let addresses = addresses(of: host) ?? []
            loop.network.faults.setRefusal(error, swallows: swallows, reflects: reflects, addresses)
        }
    }

    private func forEachLink(to host: String?, _ body: (SimulatedLink) -> Void) {
        loop.confined {
            loop.network.note(.fault)
            for link in loop.network.links(to: addresses(of: host)) { body(link) }
        }
    }

    func addresses(of host: String?) -> [HostAddress]? {
        guard let host else { return nil }
        loop.network.names.host(host)
        return loop.network.names.lookUp(host)
    }
}
