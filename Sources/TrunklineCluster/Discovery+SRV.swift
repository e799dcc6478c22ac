public import TrunklineCore

extension Discovery {
    /// The servers in the SRV records of a name (RFC 2782): each address of a target is a server.
    ///
    /// ```swift
    /// let cluster = Cluster(discovering: .srv("_acme._tcp.orders.example"), speaking: acme)
    /// ```
    ///
    /// - **Priority**: only the records with the lowest priority number are used, whether or not their servers can be
    ///   reached.
    /// - **Weight**: the addresses of a target share the weight of its record equally. All records of weight 0 together
    ///   have the weight 1, which is the small chance that RFC 2782 gives them.
    /// - **Port**: that of the record.
    /// - **Transport**: UDP if the label after that of the service is `_udp`, otherwise TCP.
    /// - **Metadata**: `target`, without the final dot, and `priority`.
    ///
    /// The targets are looked up like the name of ``dns(_:families:)``, and everything is asked again at the same
    /// intervals. Answers with a part of the servers are treated in the same way. The name server is given 10 s, and so
    /// are the look-ups of the targets. If the look-up of a target, or of one family of it, fails, the addresses that
    /// it found before are used, if there are any. After any failure, the question is repeated as after a failure of
    /// ``dns(_:families:)``: of one that concerns a part, if some addresses were found.
    ///
    /// If there are no records, or none of the targets has an address, the cluster keeps its list. The error is a
    /// ``TransportError`` with the code `nameResolutionFailed` or `timedOut`. The same error reports a target of ".",
    /// with which a domain says that it does not offer the service, an invalid answer, a system without `res_search`,
    /// and a simulated network, which has no SRV records.
    ///
    /// - Parameters:
    ///   - name: The name of the service: `_service._tcp.domain`. A name without a final dot is searched for in the
    ///     search domains of the system, too.
    ///   - isSecured: Whether links are secured with TLS. The certificate of a server must be valid for its target.
    ///     Default false. Must be false for `_udp`: there is no TLS over UDP.
    ///   - families: The addresses of the targets that are looked up. Default ``AddressFamilies/all``.
    public static func srv(
        _ name: String,
        isSecured: Bool = false,
        families: AddressFamilies = .all
    ) -> Discovery {
        srv(name, isSecured: isSecured, families: families) { unsafe systemSearchSRV($0) }
    }

    static func srv(
        _ name: String,
        isSecured: Bool = false,
        families: AddressFamilies = .all,
        _ search: @escaping SRVSearch.Function
    ) -> Discovery {
        Discovery(name: "the SRV records of \(name.escaped())") { receiver in
            guard receiver.loop.callbackExecutor == nil else {
                let message = "asking for the SRV records of \(name.escaped()): a simulated network has no SRV records"
                throw TransportError(.nameResolutionFailed, message)
            }
            let search = SRVSearch(name, search)
            var servers = SRVServers(of: name, isSecured: isSecured, families)
            await servers.report(to: receiver) { () throws(TransportError) in
                try await search.records(within: DiscoveryPace.timeout, on: receiver.loop)
            }
        }
    }
}

/// The servers that SRV records name.
struct SRVServers {
    typealias Records = [(record: SRVRecord, weight: Double)]

    private let kind: Endpoint
    private var known: [String: KnownAddresses] = [:]
    /// The servers of the latest answers, all with the same priority.
    private var earlier = RotatingAnswers<Endpoint, ClusterEndpoint>()
    private var priority: UInt16?
    private let families: Set<AddressFamily>

    init(of name: String, isSecured: Bool, _ families: AddressFamilies = .all) {
        self.families = families.members
        let labels = name.lowercased().split(separator: ".")
        let usesDatagrams = labels.count > 1 && labels[1] == "_udp"
        let endpoint = usesDatagrams ? Endpoint.udp(name, port: 0) : .host(name, port: 0)
        kind = isSecured ? endpoint.secured() : endpoint
    }

    nonisolated(nonsending) mutating func report(
        to receiver: DiscoveryReceiver,
        asking ask: nonisolated(nonsending) () async throws(TransportError) -> Records
    ) async {
        var pace = DiscoveryPace(receiver)
        while !Task.isCancelled {
            var (failure, hasFound): (TransportError?, Bool) = (nil, false)
            do throws(TransportError) {
                let records = try await ask()
                (failure, hasFound) = await look(up: Set(records.map(\.record.target)), on: receiver.loop)
                if Task.isCancelled { return }
                let servers = servers(of: records)
                // Servers of another priority take no part.
                let latest = exchange(&priority, with: records.first?.record.priority)
                if latest != priority { earlier = RotatingAnswers() }
                if !servers.isEmpty { receiver.found(servers, after: &earlier) }
            } catch {
                failure = error
            }
            if Task.isCancelled { return }
            if let failure { receiver.failed(failure) }
            await pace.wait(after: failure == nil ? .answered : hasFound ? .answeredInPart : .failed)
        }
    }

    /// Returns the error of one of the targets that failed, which keep their addresses.
    private nonisolated(nonsending) mutating func look(
        up targets: Set<String>,
        on loop: any EventLoop
    ) async -> (failure: TransportError?, hasFound: Bool) {
        known = known.filter { targets.contains($0.key) }
        let answers = await withTaskGroup { [families] group in
            for target in targets.sorted() {
                group.addTask {
                    // The dot keeps the system from searching in its domains: the name is complete.
                    let timeout = DiscoveryPace.timeout
                    return (target, await loop.addresses(of: target + ".", port: 0, in: families, within: timeout))
                }
            }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        var (failure, hasFound): (TransportError?, Bool) = (nil, false)
        for target in targets.sorted() {
            guard let answer = answers[target] else { continue }
            let missing = known[target, default: KnownAddresses()].take(answer)
            failure = failure ?? missing
            if answer.failure == nil { hasFound = true }
        }
        return (failure, hasFound)
    }

    private func servers(of records: Records) -> [ClusterEndpoint] {
        records.flatMap { record, weight in
            let known = known[record.target] ?? KnownAddresses()
            let (addresses, sibling) = (known.all, known.isOfOneServer ? "\(record.target):\(record.port)" : nil)
            return addresses.map { address in
                ClusterEndpoint(
                    address.with(port: record.port),
                    named: record.target,
                    like: kind,
                    weight: weight / Double(addresses.count),
                    metadata: ["target": record.target, "priority": "\(record.priority)"],
                    sibling: sibling
                )
            }
        }
    }
}
