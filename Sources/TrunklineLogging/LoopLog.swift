package import TrunklineCore

/// The lines about delays of the client's event loop, once they last a second in all.
package struct LoopLog: Sendable {
    private var pace: LogPace
    private var count = 0
    private var sum = Duration.zero
    private var longest: LoopDelay?
    private var firstAt = Instant.distantPast

    private static let shortest = Duration.seconds(1)

    package init(every interval: Duration) { pace = LogPace(from: interval) }

    package mutating func late(_ delay: LoopDelay) {
        if count == 0 { firstAt = delay.begin }
        count += 1
        sum += delay.duration
        if longest.map({ $0.duration < delay.duration }) ?? true { longest = delay }
    }

    package var nextFlush: Instant? { sum >= Self.shortest ? pace.next : nil }

    package mutating func flush(at now: Instant, isLast: Bool = false, into sheet: inout LogSheet) {
        guard let longest, sum >= Self.shortest, isLast || pace.isDue(at: now) else { return }
        let fields: LogSheet.Fields = [
            ("reason", .text(longest.reason.rawValue)), ("duration", .seconds(sum.inSeconds)),
            ("count", .integer(Int64(count))), ("longest", .seconds(longest.duration.inSeconds)),
        ]
        let place = longest.endpoint.map { [("endpoint", ClientEvent.Value.text("\($0)"))] } ?? []
        // One that was held back has the time at which it was over.
        let time = count == 1 ? min(now, longest.end) : now
        sheet.add(.warning, "loop.late", at: time, text(longest, at: now), fields + place)
        (count, sum, self.longest) = (0, .zero, nil)
        pace.wrote(at: now)
    }

    private func text(_ longest: LoopDelay, at now: Instant) -> String {
        let meaning = "\(longest.meaning). What a server did not do meanwhile is not held against it"
        if count == 1 { return "\(longest): \(meaning)" }
        let span = Quantity.time(now.since(firstAt))
        return "the event loop was late \(Quantity.count(count, "time")) in \(span), for \(Quantity.time(sum)) in all;"
            + " the longest: \(longest): \(meaning)"
    }
}

extension LoopDelay {
    fileprivate var meaning: String {
        switch reason {
        case .stopped where isInTurn:
            "it was stopped, no processor was free, or code on the executor of the client or an observer on the event"
                + " loop waited for something"
        case .stopped: "it was stopped, the machine slept, or no processor was free"
        case .busy:
            "code on the executor of the client, a codec or an observer on the event loop took that long, or no processor"
                + " was free"
        case .blocked:
            "code on the executor of the client or an observer on the event loop waited for something, or no processor"
                + " was free"
        case .decoding:
            "the server sends what is expensive to decode, or the codec is slow; to do: lower the limit of its frames, or"
                + " measure the codec"
        }
    }
}
