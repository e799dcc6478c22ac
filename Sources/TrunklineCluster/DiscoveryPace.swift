import TrunklineCore

/// When a discovery that asks name servers asks them again.
///
/// All times count from the answer to the last question, so that a slow name server is not asked more often than it can
/// answer.
struct DiscoveryPace {
    /// The time between two questions.
    static let interval = Duration.seconds(30)
    /// The shortest time between two questions, however often a server is lost.
    static let shortestInterval = Duration.seconds(5)
    /// The waits after questions that failed. The last one is repeated.
    static let retries: [Duration] = [.seconds(1), .seconds(2), .seconds(4), .seconds(5)]
    /// The waits after answers of which a part is missing. The last one is repeated: a name server may refuse questions
    /// about one family for ever.
    static let completions: [Duration] = [.seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(16), interval]

    /// How a question has ended.
    enum Outcome {
        case answered
        /// A part of the answer is missing: that of one address family, or of one name of several.
        case answeredInPart
        case failed
    }
    /// The random part of `interval` and `retries`, so that many processes do not ask at the same time.
    static let spread = 0.2
    /// How long an answer is awaited.
    static let timeout = Duration.seconds(10)

    private let receiver: DiscoveryReceiver
    private var random: SeededGenerator
    /// The number of questions in a row that failed, or were answered only in part.
    private var failures = 0

    init(_ receiver: DiscoveryReceiver) {
        self.receiver = receiver
        random = SeededGenerator(seed: receiver.loop.randomSeed())
    }

    /// Waits until it is time for the next question, or until the task is cancelled.
    ///
    /// The alarm ends the wait, but not before `shortestInterval`. It does not make a retry earlier.
    ///
    /// - Parameter outcome: That of the last question, which has just ended.
    nonisolated(nonsending) mutating func wait(after outcome: Outcome) async {
        let waits =
            switch outcome {
            case .answered: [Self.interval]
            case .answeredInPart: Self.completions
            case .failed: Self.retries
            }
        let wait = waits[min(failures, waits.count - 1)]
        failures = outcome == .answered ? 0 : failures + 1
        let (now, factor) = (receiver.loop.now, Double.random(in: 1 - Self.spread...1 + Self.spread, using: &random))
        let due = now.advanced(by: wait * factor)
        let earliest = min(due, now.advanced(by: Self.shortestInterval))
        var isRung = false
        while !Task.isCancelled, receiver.loop.now < (isRung ? earliest : due) {
            // Rings before `earliest` are answered by the one question that follows.
            if await receiver.alarm.wait(until: isRung ? earliest : due) { isRung = true }
        }
    }
}
