import TrunklineCore

/// When a discovery that asks name servers asks them again. All times count from the answer to the last question, so
/// that a slow name server is not asked more often than it can answer.
struct DiscoveryPace {
    static let interval = Duration.seconds(30)
    static let shortestInterval = Duration.seconds(5)
    static let retries: [Duration] = [.seconds(1), .seconds(2), .seconds(4), .seconds(5)]
    /// The waits after partial answers. The last one is repeated: a name server may refuse one family for ever.
    static let completions: [Duration] = [.seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(16), interval]

    enum Outcome {
        case answered
        case answeredInPart
        case failed
    }
    /// The random part of all waits, so that many processes do not ask at the same time.
    static let spread = 0.2
    static let timeout = Duration.seconds(10)

    private let receiver: DiscoveryReceiver
    private var random: SeededGenerator
    private var failures = 0

    init(_ receiver: DiscoveryReceiver) {
        self.receiver = receiver
        random = SeededGenerator(seed: receiver.loop.randomSeed())
    }

    /// The alarm ends the wait, but not before `shortestInterval`. It does not make a retry earlier.
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
