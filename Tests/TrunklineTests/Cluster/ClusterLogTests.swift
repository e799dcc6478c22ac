import Testing

@testable import Trunkline

/// The log of a cluster whose servers come and go.
struct ClusterLogTests {
    private static let start = Instant(nanoseconds: 0)

    /// A log without its first line.
    private static func rules(level: LogRecord.Level = .info) -> ClusterLogRules {
        var rules = ClusterLogRules(ClientLogging(level: level) { _ in }, "a fixed list", at: start)
        _ = rules.takeRecords()
        return rules
    }

    private static func at(_ milliseconds: Int) -> Instant { start.advanced(by: .milliseconds(milliseconds)) }

    private static let outages: [(name: String, begin: ClusterChange, end: ClusterChange)] = [
        ("cluster.unavailable", .unavailable, .available("a:7000", after: .milliseconds(20))),
        ("cluster.panic", .panicBegan(bad: 3, of: 3), .panicEnded),
    ]

    /// Each outage had two lines. Behind a proxy that closes idle links, all links end together, again and again.
    @Test func shortOutagesAreCounted() {
        for (name, begin, end) in Self.outages {
            var rules = Self.rules()
            for number in 0..<10 {
                rules.note(begin, at: Self.at(number * 1500))
                rules.note(end, at: Self.at(number * 1500 + 20))
                rules.flush(at: Self.at(number * 1500 + 1100))
            }
            #expect(rules.takeRecords().map(\.event) == [name, end.name])
            #expect(rules.nextFlush == Self.at(30_000))
            rules.flush(at: Self.at(30_000))
            let summary = rules.takeRecords()
            #expect(summary.map(\.event) == [name] && summary.map(\.message) == ["9 more lines; the latest: \(begin)"])
        }
    }

    @Test func anOutageThatLastsHasItsLines() {
        for (name, begin, end) in Self.outages {
            var rules = Self.rules()
            rules.note(begin, at: Self.at(0))
            rules.note(end, at: Self.at(20))
            rules.note(begin, at: Self.at(100))
            #expect(rules.takeRecords().map(\.event) == [name, end.name])
            #expect(rules.nextFlush == Self.at(1100))
            rules.flush(at: Self.at(1100))
            #expect(rules.takeRecords().map(\.event) == [name])
            rules.note(end, at: Self.at(5000))
            #expect(rules.takeRecords().map(\.event) == [end.name])
            // It is not counted in addition.
            rules.flush(at: Self.at(30_000))
            #expect(rules.takeRecords().isEmpty)
        }
    }

    @Test func anOutageAtTheEndHasItsLine() {
        for (name, begin, end) in Self.outages {
            var rules = Self.rules()
            rules.note(begin, at: Self.at(0))
            rules.note(end, at: Self.at(20))
            rules.note(begin, at: Self.at(100))
            rules.close(Cluster.Metrics(), at: Self.at(200))
            #expect(rules.takeRecords().map(\.event) == [name, end.name, name, "cluster.closed"])
        }
    }

    @Test func everyOutageHasItsLinesAtTheLevelDebug() {
        for (name, begin, end) in Self.outages {
            var rules = Self.rules(level: .debug)
            for _ in 0..<3 {
                rules.note(begin, at: Self.at(0))
                rules.note(end, at: Self.at(20))
            }
            #expect(rules.takeRecords().map(\.event) == [name, end.name, name, end.name, name, end.name])
        }
    }
}
