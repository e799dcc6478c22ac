public import TrunklineCore

extension Discovery {
    /// The addresses of a name: each address is a server.
    ///
    /// The list has the IPv6 and the IPv4 addresses of the host, in the order of the answers. A server with an address
    /// of each family is therefore in the list twice, unless `families` chooses one of them. If the host has exactly
    /// one address of each family, both count as one server where the cluster counts servers that fail
    /// (``ClusterOptions/Ejection``).
    ///
    /// The system's resolver (`getaddrinfo`) does not report how long an answer is valid. The name is looked up:
    /// - every 30 s,
    /// - at once when a link was lost or an attempt to connect failed, but at least 5 s after the last answer,
    /// - after a failure, 1 s, 2 s, 4 s and then every 5 s later.
    ///
    /// A random part of up to 20 % is added to these intervals or taken away. An answer is awaited for 10 s.
    ///
    /// If the look-up of one family fails, the addresses that it found before stay in the list. The failure is reported
    /// (`discovery.failed`), and the name is looked up again 1 s, 2 s, 4 s, 8 s, 16 s and then every 30 s later. A name
    /// that has no address of a family is no failure. If both look-ups fail, or there are no addresses, the cluster
    /// keeps its list, and the error is a ``TransportError`` with the code `nameResolutionFailed` or `timedOut`.
    ///
    /// Some name servers answer with a part of the addresses, another one each time. If answers of the same length
    /// leave out an address for the second time within 5 min and bring back another, a server stays in use after the
    /// answers have left it out: for at least 5 min after the latest answer that had it, and longer if each answer has
    /// a small part, at most 30 min; but only until an attempt to connect to it fails. The event `discovery.rotating`
    /// says so once. Ten minutes after the last such answer, each answer is the whole list again.
    ///
    /// - Parameters:
    ///   - endpoint: The name, for example that of a headless service in Kubernetes, and the port of every server:
    ///     `"orders.svc:7000"`. With `tls://`, each server's certificate must be valid for the name. An endpoint that
    ///     is not a host and port is the only server.
    ///   - families: The addresses that are looked up. Default ``AddressFamilies/all``. No effect on an endpoint that
    ///     is an address.
    public static func dns(_ endpoint: Endpoint, families: AddressFamilies = .all) -> Discovery {
        guard case .host(let name, let port) = endpoint.target else { return .static([ClusterEndpoint(endpoint)]) }
        return Discovery(name: "the addresses of \(name.withoutCredentials.escaped())") { receiver in
            var (pace, known) = (DiscoveryPace(receiver), KnownAddresses())
            var earlier = RotatingAnswers<Endpoint, ClusterEndpoint>()
            // An address has one family, which is then not a matter of choice.
            let families = literalBytes(name) == nil ? families.members : AddressFamilies.all.members
            while !Task.isCancelled {
                let answer = await receiver.loop.addresses(
                    of: name,
                    port: port,
                    in: families,
                    within: DiscoveryPace.timeout
                )
                if Task.isCancelled { return }
                let failure = known.take(answer)
                if answer.failure == nil {
                    let sibling = known.isOfOneServer ? name : nil
                    let servers = known.all.map { ClusterEndpoint($0, named: name, like: endpoint, sibling: sibling) }
                    receiver.found(servers, after: &earlier)
                }
                if let failure { receiver.failed(failure) }
                await pace.wait(
                    after: failure == nil ? .answered : answer.failure == nil ? .answeredInPart : .failed
                )
            }
        }
    }
}

extension ClusterEndpoint {
    init(
        _ address: SocketAddress,
        named name: String,
        like named: Endpoint,
        weight: Double = 1,
        metadata: [String: String] = [:],
        sibling: String? = nil
    ) {
        self.init(
            named.at(address),
            weight: weight,
            // An address is verified as it is.
            serverName: literalBytes(name) == nil ? name : nil,
            metadata: metadata
        )
        self.sibling = sibling
    }
}

extension Endpoint {
    fileprivate func at(_ address: SocketAddress) -> Endpoint {
        let (host, port) = (address.host, address.port ?? 0)
        let endpoint = usesDatagrams ? Endpoint.udp(host, port: port) : .host(host, port: port)
        return isSecured ? endpoint.secured() : endpoint
    }
}
