import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// A table of servers that exist only as names.
struct SampleTable: Sendable {
    struct Server {
        var weight = 1.0
        var isLocal = false
        var isReady = true
    }

    static let now = Instant(nanoseconds: 0)

    let table: PickTable
    /// The link of each server.
    let links: [MemberLink]
    let client: Client

    init(
        _ servers: [Server],
        localShare: Double? = nil,
        on loops: EventLoops,
        _ change: (inout ClusterOptions) -> Void = { _ in }
    ) {
        let client = Client(to: "nowhere:1", speaking: .standard, on: loops)
        let facts = ClusterFacts(on: client.loop)
        var options = ClusterOptions()
        change(&options)
        let links = servers.indices.map { index in
            let (id, readiness) = (UInt64(index + 1), LinkReadiness())
            readiness.set(servers[index].isReady)
            let member = ClusterMember(
                id,
                .host("s\(index)", port: 7000),
                failureLimit: .max,
                adaptiveLimit: options.adaptiveLimit,
                facts,
                at: Self.now
            )
            return MemberLink(id, of: member, client, readiness, capacity: 1000, isLarge: false)
        }
        let seats = zip(servers, links).map { server, link in
            Seat(
                link.member,
                link,
                others: [],
                large: [],
                weight: server.weight,
                isLocal: server.isLocal,
                slowStart: nil
            )
        }
        let ring = ClusterRing(zip(servers, links).map { ($1.member.hash, $0.weight) })
        table = PickTable(seats, probes: [], localShare: localShare, options, ring, options.balancing, at: Self.now)
        (self.links, self.client) = (links, client)
    }
}
