import TrunklineCore

/// A reaction in progress: the steps that are left for one request.
struct Program {
    enum Step {
        case react(Reaction)
        case write(Writing)
    }

    enum Writing {
        case whole
        case pieces(Int)
        /// The first half, after which the link is closed.
        case half
        /// The first half, and then nothing more.
        case halfForEver
        case flipped(Int)
    }

    let link: UInt64
    /// Of the request, in a protocol matched in order by channel; otherwise 0.
    let channel: UInt64
    let request: Frame
    /// In reverse order: the next step is last.
    var steps: [Step]
    var writing = Writing.whole
    /// Reactions to later requests must wait for the reply.
    var keepsTurn = false
    var holdsUp = false
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

    var hasReactions: Bool {
        steps.contains { if case .react = $0 { true } else { false } }
    }

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
