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
    /// At most half of the servers are left out or not ready.
    case panicEnded
    /// The discovery failed, or found no server. The last list stays in use.
    case discoveryFailed(any Error)
    /// The discovery has a list again, this long after it began to fail.
    case discoveryRecovered(after: Duration)
    /// A subscription on one server has moved to this one, because its server had gone away. Pushes may be missing.
    case subscriptionMoved(Endpoint)
    /// A server did not accept a subscription that was to move to it. It is tried again, there or elsewhere.
    case subscriptionFailed(Endpoint, any Error)
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
        case .subscriptionMoved: "subscription.moved"
        case .subscriptionFailed: "subscription.failed"
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
        case .subscriptionMoved(let endpoint): return [("endpoint", .text("\(endpoint)"))]
        case .panicBegan(let bad, let count):
            return [("bad", .integer(Int64(bad))), ("servers", .integer(Int64(count)))]
        case .panicEnded, .unavailable: return []
        case .discoveryRecovered(let outage): return [("outage", .seconds(outage.inSeconds))]
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
