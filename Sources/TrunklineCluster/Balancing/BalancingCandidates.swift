public import TrunklineCore

/// The servers from which a ``BalancingPolicy`` chooses: those of one zone that are ready and not ejected.
///
/// A server without weight is a candidate only if no server with a weight is ready. The collection is a view: reading
/// it allocates nothing. The load of a server is read when an element is asked for it, so it may change meanwhile.
public struct BalancingCandidates: Sendable, RandomAccessCollection {
    /// A server that a ``BalancingPolicy`` may choose.
    public struct Server: Sendable {
        /// The number of the server in ``BalancingCandidates/all``. It does not change until
        /// ``BalancingPolicy/prepared(for:)`` is called with another list.
        public let position: Int
        /// Whether the server may take this request: it has a ready link, has not reached its
        /// ``ClusterOptions/adaptiveLimit``, has not failed this request, and does not have its other copy.
        public let isAvailable: Bool
        /// The share of its requests that the server should receive while it starts slowly; 1 after that. From 0.1 on.
        /// See ``ClusterOptions/slowStart``.
        public var slowStartShare: Double { seats.slowStartShare(of: seat, at: now).map(Double.init) ?? 1 }
        /// Where the server is.
        public var endpoint: Endpoint { seat.member.endpoint }
        /// The weight of the server. 0 only if that is so for all.
        public var weight: Double { seat.weight }
        /// Whether the server is in the zone of this process. True for all servers without a ``ClusterOptions/zone``.
        public var isLocal: Bool { seat.isLocal }
        /// What the discovery knows besides: see ``ClusterEndpoint/metadata``.
        public var metadata: [String: String] { seat.metadata }
        /// The number of requests in flight from this cluster, on all links of the server.
        public var inFlight: Int { seat.inFlight }
        /// The moving average of the latency; `nil` before the first response. It rises at once and falls within about
        /// 10 s, also while the server gets no requests.
        public var averageLatency: Duration? {
            let average = seat.member.average
            guard average.isKnown else { return nil }
            return .nanoseconds(Int64(average.microseconds(at: now) * 1000))
        }
        /// The share of the latest requests that failed or were answered with an error. 0 or more, less than 1.
        public var errorShare: Double { Double(seat.member.errors.share(at: now)) }

        fileprivate let seat: Seat
        fileprivate let seats: Seats
        private let now: Instant

        fileprivate init(_ position: Int, of seats: Seats, _ wish: Wish) {
            (self.position, self.seats, now) = (position, seats, wish.now)
            seat = seats.all[position]
            isAvailable = seats.isUsable(seat, wish)
        }
    }

    let seats: Seats
    let wish: Wish
    let range: Range<Int>

    init(_ seats: Seats, _ wish: Wish, in range: Range<Int>) {
        (self.seats, self.wish, self.range) = (seats, wish, range)
    }

    /// The servers of all zones that are ready and not ejected, for policies with rules of their own for zones.
    public var all: BalancingCandidates { BalancingCandidates(seats, wish, in: seats.all.indices) }

    /// The index of the first server: 0.
    public var startIndex: Int { 0 }

    /// The number of servers.
    public var endIndex: Int { range.count }

    /// Returns a server.
    public subscript(index: Int) -> Server {
        precondition(index >= 0 && index < range.count, "there is no candidate \(index): there are \(range.count)")
        return Server(range.lowerBound + index, of: seats, wish)
    }

    func server(_ seat: Seat?) -> Server? {
        guard let seat, let position = seats.all.firstIndex(where: { $0 === seat }) else { return nil }
        return Server(position, of: seats, wish)
    }

    /// `nil` for a server that may not be chosen, or that is of another list.
    func usableSeat(of server: Server) -> Seat? {
        guard server.seats === seats, seats.isUsable(server.seat, wish) else { return nil }
        return server.seat
    }
}
