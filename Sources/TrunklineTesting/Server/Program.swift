import Trunkline

/// A reaction that is being performed: what is left of it to do about one request.
struct Program {
    enum Step {
        case react(Reaction)
        /// Ends the scope of a way of writing.
        case write(Writing)
    }

    /// How bytes are written.
    enum Writing {
        case whole
        case pieces(Int)
        /// The first half, and then the link is closed.
        case half
        /// The first half, and then nothing more.
        case halfForEver
        /// With this bit wrong.
        case flipped(Int)
    }

    let link: UInt64
    let request: Frame
    /// The last one is next.
    var steps: [Step]
    var writing = Writing.whole
    /// Whether the reactions to later requests wait for the reply.
    var keepsTurn = false
    /// Whether they do wait.
    var holdsUp = false
    /// Where further frames of the client go, if a body is run.
    var exchange: OpenExchange?

    init(
        _ reaction: Reaction,
        for request: Frame,
        on link: UInt64,
        keepsTurn: Bool = false,
        exchange: OpenExchange? = nil
    ) {
        self.link = link
        self.exchange = exchange
        self.request = request
        steps = [.react(reaction)]
        self.keepsTurn = keepsTurn
    }

    /// Whether there is more to do than to end a way of writing.
    var hasReactions: Bool {
        steps.contains { if case .react = $0 { true } else { false } }
    }

    /// Does `reaction` next, writing its bytes as `writing` says.
    mutating func enter(_ writing: Writing, _ reaction: Reaction) {
        steps.append(.write(self.writing))
        steps.append(.react(reaction))
        self.writing = writing
    }
}

/// A program that waits for its time.
struct Delayed {
    var program: Program
    var deadline: Instant
}
