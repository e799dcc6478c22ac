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
    public var description: String { ClusterLogRules.line(of: self).1 }
}

extension ClusterChange {
    /// The name of the event, which does not change between versions.
    var name: String {
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

    var fields: [(name: String, value: ClientEvent.Value)] {
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
        case .discoveryFailed(let error): return [("error", .text(LogText.of(error).asMessage))]
        case .subscriptionFailed(let endpoint, let error):
            return [("endpoint", .text("\(endpoint)")), ("error", .text(LogText.of(error).asMessage))]
        case .available(let endpoint, let outage):
            return [("endpoint", .text("\(endpoint)"))] + (outage.map { [("outage", .seconds($0.inSeconds))] } ?? [])
        }
    }
}

extension OutlierRules.Reason {
    /// The reason, for people.
    var text: String {
        switch self {
        case .failuresInARow(let count): "\(LogText.count(count, "failure")) in a row"
        case .successRate(let rate, let limit):
            "\(Self.percent(rate)) of its requests succeeded; the limit is \(Self.percent(limit))"
        case .errorRate(let rate, let median):
            "\(Self.percent(rate)) of its requests failed or had an error response; the median of the servers is "
                + Self.percent(median)
        case .latency(let mean, let median):
            "its mean latency is \(mean.text); the median of the servers is \(median.text)"
        case .probeFailed: "its probe failed"
        }
    }

    private static func percent(_ share: Double) -> String {
        let tenths = Int((share * 1000).rounded())
        return "\(tenths / 10).\(tenths % 10) %"
    }
}
