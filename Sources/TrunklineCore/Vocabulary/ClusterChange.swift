/// What happened to the servers of a cluster. Delivered to the observers as the content of a ``ClientEvent``.
@nonexhaustive
public enum ClusterChange: Sendable {
    /// The list of servers that the cluster uses changed.
    case servers(added: [Endpoint], removed: [Endpoint], count: Int)
    /// A server is left out for this time, because of `reason`.
    case ejected(Endpoint, for: Duration, reason: String)
    /// A server is used again, this long after it was ejected.
    case returned(Endpoint, after: Duration)
    /// More than half of the servers are left out or not ready, so all ready servers are used.
    case panicBegan(bad: Int, of: Int)
    /// Enough servers are ready and not left out again.
    case panicEnded
    /// The discovery failed, or found no server. The last list stays in use.
    case discoveryFailed(any Error)
    /// The discovery has a list again, this long after it began to fail.
    case discoveryRecovered(after: Duration)
    /// The list is larger than ``ClusterOptions/subset``: this number of its servers is used. Reported once.
    case subsetUsed(Int, of: Int)
    /// The name server answers with a part of the servers, another one each time: the latest answer had this number of
    /// those that are known so far. From now on, a server that works stays in use for a while after the answers have
    /// left it out. Reported once. See ``Discovery/dns(_:families:)``.
    case answersRotate(Int, of: Int)
    /// A subscription on one server has moved to this one, because its server had gone away. Pushes may be missing.
    case subscriptionMoved(Endpoint)
    /// A server did not accept a subscription that was to move to it, or did not answer one on all servers in time. It
    /// is tried again, in the first case there or elsewhere.
    case subscriptionFailed(Endpoint, any Error)
    /// A server has accepted a subscription on all servers that it had not answered in time.
    case subscriptionAccepted(Endpoint)
    /// No server takes requests any more.
    case unavailable
    /// A server takes requests, for the first time (`nil`) or again after this time.
    case available(Endpoint, after: Duration?)
}

extension ClusterChange: CustomStringConvertible {
    /// What happened, in one line, as in the log. An error that your own code threw appears only with its type.
    public var description: String {
        func list(_ verb: String, _ endpoints: [Endpoint]) -> String? {
            if endpoints.isEmpty { return nil }
            let first = endpoints.prefix(8).map(\.description).joined(separator: ", ")
            return "\(verb) \(first)\(endpoints.count > 8 ? ", … (\(endpoints.count))" : "")"
        }
        switch self {
        case .servers(let added, let removed, let count):
            let changes = [list("added", added), list("removed", removed)].compactMap { $0 }.joined(separator: "; ")
            return "\(changes); \(Quantity.count(count, "server"))"
        case .ejected(let endpoint, let time, let reason):
            return "\(endpoint) is left out for \(Quantity.time(time)): \(reason)"
        case .returned(let endpoint, let time):
            return "\(endpoint) is used again, after \(Quantity.time(time))"
        case .subscriptionMoved(let endpoint):
            return "a subscription has moved to \(endpoint), because its server went away; pushes may be missing"
        case .panicBegan(let bad, let count):
            return
                "\(bad) of \(Quantity.count(count, "server")) are left out or not ready: all ready servers are used, and "
                + "no further one is left out"
        case .panicEnded: return "enough servers are ready and not left out again"
        case .discoveryFailed(let error):
            return "the discovery failed, which changes nothing about the servers in use: \(ErrorText.of(error))"
        case .discoveryRecovered(let outage):
            return "the discovery works again, \(Quantity.time(outage)) after it began to fail"
        case .subsetUsed(let count, let found):
            return
                "the list has \(Quantity.count(found, "server")), of which \(Quantity.grouped(count)) are used (ClusterOptions.subset)"
        case .answersRotate(let count, let known):
            return
                "the name server answers with a part of the servers, \(Quantity.grouped(count)) of at least \(Quantity.grouped(known)): "
                + "from now on, one that works stays in use for at least 5 min after the answers have left it out"
        case .subscriptionFailed(let endpoint, let error):
            return "\(endpoint) did not accept a subscription, which is tried again: \(ErrorText.of(error))"
        case .subscriptionAccepted(let endpoint):
            return "\(endpoint) has accepted a subscription that it had not answered in time; pushes may be missing"
        case .unavailable: return "no server takes requests"
        case .available(let endpoint, let outage):
            let gap = outage.map { "; there was none for \(Quantity.time($0))" } ?? ""
            return "\(endpoint) takes requests\(gap)"
        }
    }
}

extension ClusterChange {
    package var name: String {
        switch self {
        case .servers: "servers.changed"
        case .ejected: "server.ejected"
        case .returned: "server.returned"
        case .panicBegan: "cluster.panic"
        case .panicEnded: "cluster.panic_ended"
        case .discoveryFailed: "discovery.failed"
        case .discoveryRecovered: "discovery.recovered"
        case .subsetUsed: "servers.subset"
        case .answersRotate: "discovery.rotating"
        case .subscriptionMoved: "subscription.moved"
        case .subscriptionFailed: "subscription.failed"
        case .subscriptionAccepted: "subscription.accepted"
        case .unavailable: "cluster.unavailable"
        case .available: "cluster.ready"
        }
    }

    package var fields: [(name: String, value: ClientEvent.Value)] {
        func list(_ endpoints: [Endpoint]) -> ClientEvent.Value {
            .text(endpoints.map(\.description).joined(separator: " "))
        }
        switch self {
        case .servers(let added, let removed, let count):
            return [("added", list(added)), ("removed", list(removed)), ("servers", .integer(Int64(count)))]
        case .ejected(let endpoint, let time, let reason):
            return [
                ("endpoint", .text("\(endpoint)")), ("duration", .seconds(time.inSeconds)), ("reason", .text(reason)),
            ]
        case .returned(let endpoint, let time):
            return [("endpoint", .text("\(endpoint)")), ("duration", .seconds(time.inSeconds))]
        case .subscriptionMoved(let endpoint), .subscriptionAccepted(let endpoint):
            return [("endpoint", .text("\(endpoint)"))]
        case .panicBegan(let bad, let count):
            return [("bad", .integer(Int64(bad))), ("servers", .integer(Int64(count)))]
        case .panicEnded, .unavailable: return []
        case .discoveryRecovered(let outage): return [("outage", .seconds(outage.inSeconds))]
        case .subsetUsed(let count, let found):
            return [("servers", .integer(Int64(count))), ("found", .integer(Int64(found)))]
        case .answersRotate(let count, let known):
            return [("answered", .integer(Int64(count))), ("known", .integer(Int64(known)))]
        case .discoveryFailed(let error): return [("error", .text(ErrorText.of(error).asMessage))]
        case .subscriptionFailed(let endpoint, let error):
            return [("endpoint", .text("\(endpoint)")), ("error", .text(ErrorText.of(error).asMessage))]
        case .available(let endpoint, let outage):
            return [("endpoint", .text("\(endpoint)"))] + (outage.map { [("outage", .seconds($0.inSeconds))] } ?? [])
        }
    }
}
