import TrunklineCore
import TrunklineDiagnostics

/// The exchanges of one server, which it repeats.
final class ReplayExchanges: Sendable {
    /// Requests that look the same have the exchanges of the recording in turn.
    private struct Likeness: Hashable {
        /// `nil` for any type: many codecs have none, although the requests of a client may.
        let type: UInt32?
        let bodyCount: Int?
    }

    private struct State {
        var places: [Likeness: Deque<Int>] = [:]
        var isUsed: [Bool]
        var lastTaken: Int?
        var lastAnswered: [UInt32: Int] = [:]
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

    /// A client with other options may send more requests than were recorded: while the server answers, they are
    /// answered like the latest one of their type.
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
