/// Look-ups that continue although the attempt that began them has failed, for the next attempt at the endpoint.
///
/// An attempt whose addresses have all failed does not wait long for the other family (`AddressRace`). Without this, a
/// family whose look-ups take longer than an attempt would never be used. At most two entries per endpoint. They are
/// dropped when a link is ready, and when the network changes: addresses of one network are not used in another (RFC
/// 8305 §4).
struct LateLookups {
    private enum Entry {
        /// Runs as long as it is kept.
        case running(NameLookup, since: Instant)
        case answered([SocketAddress], at: Instant)
    }
    private var entries: [Endpoint: [AddressFamily: Entry]] = [:]

    /// How long an answer is used, and how long a look-up is preferred to later ones for the same question.
    static let lifetime = Duration.seconds(30)

    /// Unless an earlier look-up is running, which is closer to its end.
    mutating func keep(_ lookup: NameLookup, of endpoint: Endpoint, _ family: AddressFamily, since begin: Instant) {
        if case .running(_, let since)? = entries[endpoint]?[family], begin.since(since) < Self.lifetime { return }
        entries[endpoint, default: [:]][family] = .running(lookup, since: begin)
    }

    mutating func answered(_ endpoint: Endpoint, _ family: AddressFamily, _ answer: NameLookup.Answer, at now: Instant)
    {
        entries[endpoint]?[family] = nil
        guard case .success(let addresses) = answer, !addresses.isEmpty else { return }
        entries[endpoint, default: [:]][family] = .answered(addresses, at: now)
    }

    mutating func takeAnswer(_ endpoint: Endpoint, _ family: AddressFamily, at now: Instant) -> [SocketAddress]? {
        guard case .answered(let addresses, let instant)? = entries[endpoint]?[family] else { return nil }
        entries[endpoint]?[family] = nil
        return now.since(instant) < Self.lifetime ? addresses : nil
    }

    mutating func drop() { entries = [:] }

    mutating func keep(only endpoints: Set<Endpoint>) { entries = entries.filter { endpoints.contains($0.key) } }
}
