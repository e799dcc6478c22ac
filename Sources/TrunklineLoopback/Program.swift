import TrunklineCore

/// A reaction in progress: the steps that are left for one request.
struct Program {
    enum Step {
        case react(Reaction)
        /// Restores the way of writing that was in effect before the previous reaction.
        case write(Writing)
    }

    /// The way in which bytes are written.
    enum Writing {
        case whole
        case pieces(Int)
        /// The first half, after which the link is closed.
        case half
        /// The first half, and then nothing more.
        case halfForEver
        /// With this bit inverted.
        case flipped(Int)
    }

    let link: UInt64
    /// The channel of the request, in a protocol matched in order by channel; otherwise 0.
    let channel: UInt64
    let request: Frame
    /// The remaining steps in reverse order: the next one is last.
    var steps: [Step]
    var writing = Writing.whole
    /// Whether the reactions to later requests must wait for the reply.
    var keepsTurn = false
    /// Whether such reactions are waiting.
    var holdsUp = false
    /// The exchange that receives further frames of the client, if a body runs.
    var exchange: OpenExchange?

    init(
        _ reaction: Reaction,
        for request: Frame,
        on link: UInt64,
        channel: UInt64 = 0,
        keepsTurn: Bool = false,
        exchange: OpenExchange? = nil
    ) {
        self.link = link
        self.channel = channel
        self.exchange = exchange
        self.request = request
        steps = [.react(reaction)]
        self.keepsTurn = keepsTurn
    }

    /// Whether the remaining steps include a reaction.
    var hasReactions: Bool {
        steps.contains { if case .react = $0 { true } else { false } }
    }

    /// Performs `reaction` next, with `writing` as the way of writing.
    mutating func enter(_ writing: Writing, _ reaction: Reaction) {
        steps.append(.write(self.writing))
        steps.append(.react(reaction))
        self.writing = writing
    }
}

/// A program that waits for its deadline.
struct Delayed {
    var program: Program
    var deadline: Instant
}
