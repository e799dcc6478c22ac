/// What the rules about a shortage need to know of a ready link besides its machine.
struct LinkUse: Sendable {
    /// The requests that count towards the maximum.
    var inFlight: Int
    /// `ClientOptions.Requests.maximumInFlight`, or what the server has said instead.
    var maximumInFlight: Int
    /// So few requests may be in flight that abandoned ones count, too, until they are answered.
    var isStrict = false
    var isByChannel = false
    /// A request waits that must go out alone.
    var awaitsAlone = false
    var isBelowWatermark = true
    /// A cancellation request runs beside the link.
    var isCancelling = false
}

/// Why requests wait although a link is ready.
enum LinkShortage: Sendable {
    case held
    case places
    /// All places are taken, and the request that is to be answered next, or one of some channel, is abandoned.
    case oldest
    case alone
    case channel
    case serials

    /// Returns what keeps requests from going out, and whether another link would help.
    static func find(
        on machine: inout LinkMachine,
        _ use: LinkUse,
        at now: Instant
    ) -> (LinkReplacement.Obstacle, LinkShortage) {
        func unanswered(until: Instant?, _ shortage: LinkShortage) -> (LinkReplacement.Obstacle, LinkShortage) {
            (until.map { $0 <= now ? .unanswered : .unansweredUntil($0) } ?? .other, shortage)
        }
        if let until = machine.heldUntil { return unanswered(until: until, .held) }
        guard use.inFlight < use.maximumInFlight else {
            let abandoned = machine.requests.abandonedCount
            if !use.isStrict, abandoned >= use.maximumInFlight / 2 { return (.exhausted, .places) }
            // In order, no later request can be answered before the oldest one.
            return unanswered(
                until: use.isByChannel ? machine.requests.abandonedUntil : machine.oldestAbandonedUntil(),
                .oldest
            )
        }
        // Only abandoned requests keep an exclusive one, or those of a channel, from going out.
        if use.awaitsAlone, machine.count == 0 {
            return unanswered(until: machine.requests.abandonedUntil, .alone)
        }
        if use.isByChannel { return unanswered(until: machine.awaitedChannelsUntil(), .channel) }
        guard let (count, abandoned, _) = machine.exhaustion, !machine.isHeld, use.isBelowWatermark else {
            return (.other, .serials)
        }
        return (abandoned * 2 >= count ? .exhausted : .other, .serials)
    }

    func text(_ machine: LinkMachine, _ use: LinkUse) -> String {
        let count = machine.requests.abandonedCount
        let abandoned = Quantity.count(count, "abandoned request")
        let verb = count == 1 ? "holds" : "hold"
        let places = "\(abandoned) \(verb) places of requests.maximumInFlight (\(use.maximumInFlight))"
        switch self {
        case .held:
            return machine.isHeldByCancellation && !use.isCancelling
                ? "a request could not be cancelled on the server, so no other may follow it (requests.cancelling)"
                : "a request that no other may follow timed out or was cancelled, and its response has not come in time"
        case .places: return places
        case .oldest:
            return use.isByChannel
                ? "the response to an abandoned request has not come in time; \(places)"
                : "the response that is due is that of an abandoned request, and has not come in time; \(places)"
        case .alone:
            let late = count == 1 ? "which was not" : "one of which was not"
            return "a request that must go out alone waits for \(abandoned), \(late) answered in time"
        case .channel: return "requests wait for an abandoned one on their channel, whose response has not come in time"
        case .serials:
            guard let (count, abandoned, holders) = machine.exhaustion else { return "no serial number is free" }
            let verb = abandoned == 1 ? "is" : "are"
            return "\(abandoned) of \(Quantity.count(count, "serial number")) \(verb) held by \(holders)"
        }
    }
}

extension LinkMachine.Spent {
    func text(maximumStalls: Int?) -> String {
        switch self {
        case .heldByAbandoned:
            return
                "a request that no other may follow timed out or was cancelled before it was answered, and the next one"
                + " would have to wait for its response"
        case .stalled(let count, let isInChannel):
            let times = count == 1 ? "" : "\(count) times in a row, "
            let place = isInChannel ? "on its channel" : "on the link"
            let limit = maximumStalls.map { "\($0)" } ?? "nil"
            return
                "\(times)a request timed out while no other response was awaited \(place): the server answers too late,"
                + " or has left out a response (liveness.maximumStalls is \(limit))"
        }
    }
}
