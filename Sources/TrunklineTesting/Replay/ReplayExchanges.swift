import TrunklineCore
import TrunklineDiagnostics

/// The exchanges of one server, which it repeats.
final class ReplayExchanges: Sendable {
    /// Requests that look the same have the exchanges of the recording in turn.
    private struct Likeness: Hashable {
        /// `nil` for any type: many codecs have none, although the requests of a client may have.
        let type: UInt32?
        /// `nil` for any size.
        let bodyCount: Int?
    }

    private struct State {
        /// The places of the exchanges that are left; some may have been used.
        var places: [Likeness: Deque<Int>] = [:]
        var isUsed: [Bool]
        /// The exchange that was taken last, and the latest one of each type that had a reply.
        var lastTaken: Int?
        var lastAnswered: [UInt32: Int] = [:]
        /// When the reply is due that was ordered last.
        var lastReply = Duration.zero

        mutating func add(_ place: Int, type: UInt32, bodyCount: Int?) {
            places[Likeness(type: type, bodyCount: bodyCount), default: Deque()].append(place)
            if type != 0 { places[Likeness(type: nil, bodyCount: bodyCount), default: Deque()].append(place) }
        }

        mutating func take(_ likeness: Likeness) -> Int? {
            while let place = places[likeness]?.popFirst() {
                if !exchange(&isUsed[place], with: true) { return place }
            }
            return nil
        }
    }

    private let exchanges: [Recording.Exchange]
    private let isInOrder: Bool
    private let state: Lock<State>

    /// - Parameter isInOrder: Whether responses are matched in order.
    init(_ exchanges: [Recording.Exchange], isInOrder: Bool) {
        self.exchanges = exchanges
        self.isInOrder = isInOrder
        var state = State(isUsed: Array(repeating: false, count: exchanges.count))
        for (place, exchange) in exchanges.enumerated() {
            let (type, bodyCount) = (exchange.request.type, exchange.request.bodyCount)
            state.add(place, type: type, bodyCount: bodyCount)
            // The closure of a handshake makes its requests anew, perhaps of another size.
            let isOfHandshake = exchange.request.id == nil && !exchange.isOfBeginning
            if isOfHandshake { state.add(place, type: type, bodyCount: nil) }
        }
        self.state = Lock(state)
    }

    /// The exchange of a request that was received.
    ///
    /// With other options, the client may send more requests than were recorded, for example with other retries. While
    /// the server answers, such a request is answered like the latest one of its type.
    func next(for request: Frame) -> Recording.Exchange? {
        let place = state.withLock { state -> Int? in
            let types: [UInt32?] = request.type == 0 ? [0, nil] : [request.type]
            for bodyCount in [request.body.count, nil] {
                for type in types {
                    guard let place = state.take(Likeness(type: type, bodyCount: bodyCount)) else { continue }
                    state.lastTaken = place
                    if !exchanges[place].replies.isEmpty { state.lastAnswered[request.type] = place }
                    return place
                }
            }
            guard let last = state.lastTaken, !exchanges[last].replies.isEmpty else { return nil }
            return state.lastAnswered[request.type]
        }
        return place.map { exchanges[$0] }
    }

    /// The replies to a request that is received now, at their times.
    func reactions(
        _ exchange: Recording.Exchange,
        _ time: ReplayTime,
        _ padding: inout RecordingPadding
    ) -> [Reaction] {
        let now = time.elapsed
        // In order, the server begins with this reply after the one before.
        var begin = isInOrder ? max(now, state.withLock(\.lastReply)) : now
        var reactions: [Reaction] = []
        for reply in exchange.replies {
            var frame = reply.header.frame(&padding)
            let reaction: Reaction
            switch reply.header.answers {
            case .all, .serials: reaction = .frame(frame)
            default:
                frame.serial = 0
                reaction = frame.kind == .part ? .part(frame) : .reply(frame)
            }
            let due = max(begin, now + time.delay(until: reply.time, since: exchange.time))
            reactions.append(.after(due - begin, reaction))
            begin = due
        }
        if isInOrder, !reactions.isEmpty { state.withLock { [begin] in $0.lastReply = begin } }
        return reactions
    }
}
