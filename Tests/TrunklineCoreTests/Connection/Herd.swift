@testable import TrunklineCore
@testable import TrunklineIO

/// Many clients of one server that crashes and restarts: only their reconnect machines, in virtual time.
struct Herd {
    /// The number of clients that have a link when the server crashes, at second 0.
    var count = 100_000
    /// How long the server refuses connections.
    var outage: Duration = .seconds(5)
    /// The number of connections that the server accepts per second.
    var capacity = 2_000
    /// The number of connections that may wait to be accepted. The kernel discards any more, and those attempts time
    /// out.
    var backlog = 4_096
    /// The connect timeout.
    var timeout: Duration = .seconds(3)
    /// Whether the server closed all links cleanly before the outage, and every client has a request waiting.
    var isOrderly = false

    /// What the server saw, second by second since the crash.
    struct Curve {
        var arrivals: [Int] = []
        var accepted: [Int] = []
        /// When the last client had reconnected; `nil` if some clients did not.
        var allBack: Duration?

        /// The most connections requested within one second, from `second` on.
        func peak(from second: Int) -> Int { arrivals.dropFirst(second).max() ?? 0 }

        /// One line per second: the connections that arrived (`#`), and how many of them were accepted.
        func text(title: String, perMark: Int) -> String {
            var lines = [title, "  second  arrivals  accepted"]
            for (second, count) in arrivals.enumerated() {
                // A stretch without arrivals and accepted connections takes one line.
                let isQuiet = count == 0 && accepted[second] == 0
                if isQuiet, lines.last == "       …" { continue }
                let bar = String(repeating: "#", count: min(100, (count + perMark - 1) / perMark))
                let line = padded(second, to: 8) + padded(count, to: 10) + padded(accepted[second], to: 10) + "  " + bar
                lines.append(isQuiet ? "       …" : line)
            }
            return lines.joined(separator: "\n")
        }

        private func padded(_ number: Int, to width: Int) -> String {
            let digits = String(number)
            return String(repeating: " ", count: max(0, width - digits.count)) + digits
        }
    }

    /// The outcome of an attempt, or a timer.
    private enum Event {
        case lost, timer
        case ready(SessionID)
        case failed(SessionID, DisconnectCause)
    }

    /// Lets the clients reconnect under `policy`, for at most `limit` seconds.
    func run(_ policy: any ReconnectPolicy, seed: UInt64, limit: Int = 300) -> Curve {
        var options = ReconnectMachine.Policy()
        options.reconnect = policy
        var random = SeededGenerator(seed: seed)
        var calendar = Calendar(milliseconds: limit * 1000)
        let long = Instant(nanoseconds: -3_600_000_000_000)
        var machines: [ReconnectMachine] = []
        machines.reserveCapacity(count)
        for index in 0..<count {
            var machine = ReconnectMachine(endpoints: ["service:1"], policy: options, seed: random.next())
            if case .connect(let attempt) = machine.linkNeeded(at: long) { _ = machine.linkReady(attempt.id, at: long) }
            machines.append(machine)
            // The resets of one crash arrive within a few milliseconds.
            calendar.add(index, .lost, at: Instant(nanoseconds: Int64(random.nextUnit() * 1e7)))
        }
        var curve = Curve(arrivals: [0], accepted: [0])
        var back = 0
        let restart = Instant(nanoseconds: outage.clampedNanoseconds)
        let interval = Int64(1_000_000_000 / capacity)
        /// When the server has accepted all connections in its backlog.
        var idle = restart.nanoseconds
        while back < count, let (index, event, now) = calendar.next() {
            let second = Int(now.nanoseconds / 1_000_000_000)
            while curve.arrivals.count <= second {
                curve.arrivals.append(0)
                curve.accepted.append(0)
            }
            let action: ReconnectMachine.Action
            switch event {
            case .lost:
                action = machines[index].linkLost(
                    1,
                    isOrderly ? .closedByServer : .reset,
                    isOrderly: isOrderly,
                    at: now
                )
            case .timer: action = machines[index].timerFired(at: now)
            case .failed(let id, let cause): action = machines[index].attemptFailed(id, cause, at: now)
            case .ready(let id):
                _ = machines[index].linkReady(id, at: now)
                back += 1
                curve.accepted[second] += 1
                curve.allBack = back == count ? now.since(Instant(nanoseconds: 0)) : nil
                continue
            }
            switch action {
            case .wait(let until): calendar.add(index, .timer, at: until)
            case .connect(let attempt):
                curve.arrivals[second] += 1
                if now < restart {
                    calendar.add(index, .failed(attempt.id, .refused), at: now.advanced(by: .milliseconds(1)))
                } else if (idle - now.nanoseconds) / interval >= Int64(backlog) {
                    calendar.add(index, .failed(attempt.id, .timedOut), at: now.advanced(by: timeout))
                } else {
                    idle = max(idle, now.nanoseconds) + interval
                    calendar.add(index, .ready(attempt.id), at: Instant(nanoseconds: idle))
                }
            default: break
            }
        }
        return curve
    }

    /// Events by the millisecond in which they are due, in the order in which they were added.
    private struct Calendar {
        private var days: [[(Int, Event)]]
        private var today = 0
        private var position = 0

        init(milliseconds: Int) { days = Array(repeating: [], count: milliseconds) }

        /// Adds an event at its instant, rounded up to a millisecond. An event beyond the end is ignored.
        mutating func add(_ index: Int, _ event: Event, at instant: Instant) {
            let day = max(today, Int((max(0, instant.nanoseconds) + 999_999) / 1_000_000))
            if day < days.count { days[day].append((index, event)) }
        }

        mutating func next() -> (Int, Event, Instant)? {
            while today < days.count {
                if position < days[today].count {
                    let (index, event) = days[today][position]
                    position += 1
                    return (index, event, Instant(nanoseconds: Int64(today) * 1_000_000))
                }
                days[today] = []
                today += 1
                position = 0
            }
            return nil
        }
    }
}
