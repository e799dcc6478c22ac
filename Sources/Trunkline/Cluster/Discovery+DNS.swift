extension Discovery {
    /// The addresses of a name: each address is a server.
    ///
    /// The list has the IPv6 and the IPv4 addresses of `host`, in the order of the answers. A server with an address of
    /// each family therefore counts as two servers: give such servers a name with addresses of one family.
    ///
    /// The system's resolver (`getaddrinfo`) does not report how long an answer is valid. The name is looked up:
    /// - every 30 s,
    /// - at once when a link was lost or an attempt to connect failed, but at least 5 s after the last answer,
    /// - after a failure, 1 s, 2 s, 4 s and then every 5 s later.
    ///
    /// A random part of up to 20 % is added to these intervals or taken away. An answer is awaited for 10 s. If the
    /// look-up of one family fails, the addresses of the other are the list. If both fail, or there are no addresses,
    /// the cluster keeps its list, and the error is a ``TransportError`` with the code `nameResolutionFailed` or
    /// `timedOut`.
    ///
    /// - Parameters:
    ///   - host: The name, for example that of a headless service in Kubernetes. An IP address gives that address.
    ///   - port: The port of every server.
    ///   - isSecured: Whether links are secured with TLS. Each server's certificate must be valid for `host`. Default
    ///     false.
    public static func dns(_ host: String, port: UInt16, isSecured: Bool = false) -> Discovery {
        // Without brackets around an IPv6 address.
        let endpoint = Endpoint.host(host, port: port)
        guard case .host(let name, _) = endpoint.target else { return .static([ClusterEndpoint(endpoint)]) }
        return Discovery(name: "the addresses of \(name.withoutCredentials.escaped())") { receiver in
            var pace = DiscoveryPace(receiver)
            while !Task.isCancelled {
                let answer = await receiver.loop.addresses(of: name, port: port, within: DiscoveryPace.timeout)
                if Task.isCancelled { return }
                switch answer {
                case .success(let addresses):
                    receiver.found(addresses.map { ClusterEndpoint($0, named: name, isSecured: isSecured) })
                case .failure(let error): receiver.failed(error)
                }
                await pace.wait(succeeded: answer.isSuccess)
            }
        }
    }
}

extension Result {
    var isSuccess: Bool { if case .success = self { true } else { false } }
}

extension ClusterEndpoint {
    /// A server at one address of the host `name`.
    init(
        _ address: SocketAddress,
        named name: String,
        isSecured: Bool,
        weight: Double = 1,
        metadata: [String: String] = [:]
    ) {
        let endpoint = Endpoint.host(address.host, port: address.port ?? 0)
        self.init(
            isSecured ? endpoint.secured() : endpoint,
            weight: weight,
            // An address is verified as it is.
            serverName: literalBytes(name) == nil ? name : nil,
            metadata: metadata
        )
    }
}
