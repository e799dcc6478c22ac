import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLogging

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
            #expect(
                summary.map(\.event) == [name]
                    && summary.map(\.message) == [
                        "9 more lines in 30 s, each for less than 1 s; the latest, 16.5 s ago: \(ClusterLogRules.line(of: begin).1)"
                    ]
            )
        }
    }

    /// A line that was held back had the time of the summary, up to 30 s after what it told.
    @Test func aLineThatWasHeldBackHasTheTimeAtWhichItHappened() {
        var rules = Self.rules()
        let error = ClientError(.unavailable, .notSent, "no answer")
        for time in [0, 4000] {
            rules.note(.discoveryFailed(error), at: Self.at(time))
            rules.callFailed(error, at: Self.at(time))
            rules.flush(at: Self.at(time))
        }
        rules.note(.subscriptionFailed("a:1", error), at: Self.at(100))
        for time in [5000, 6000, 7000] {
            rules.note(.subscriptionFailed("a:1", error), at: Self.at(time))
        }
        _ = rules.takeRecords()
        rules.flush(at: Self.at(31_000))
        let records = rules.takeRecords()
        #expect(records.map(\.event) == ["discovery.failed", "subscription.failed", "requests.failed"])
        #expect(records.map(\.time) == [.seconds(4), .seconds(31), .seconds(4)])
        let summary = "3 more lines in 30.9 s of 1 server: a:1 (3); the latest, 24 s ago: a:1 did not accept"
        #expect(records[1].message.hasPrefix(summary), "\(records[1])")
    }

    /// It looked as if no server took requests any more: the line that ends an outage was held back with the one that begins it.
    @Test func aShortOutageThatWasHeldBackSaysThatItIsOver() {
        var rules = Self.rules()
        rules.note(.unavailable, at: Self.at(0))
        rules.note(.available("a:7000", after: .milliseconds(20)), at: Self.at(20))
        rules.note(.unavailable, at: Self.at(5000))
        rules.note(.available("a:7000", after: .milliseconds(20)), at: Self.at(5020))
        _ = rules.takeRecords()
        rules.flush(at: Self.at(30_000))
        let records = rules.takeRecords()
        #expect(records.map(\.message) == ["no server takes requests; for less than 1 s"])
        #expect(records.map(\.time) == [.seconds(5)])
        // One that has just begun is no short one.
        rules.note(.unavailable, at: Self.at(59_800))
        rules.flush(at: Self.at(60_000))
        #expect(rules.takeRecords().isEmpty && rules.nextFlush == Self.at(60_800))
        rules.flush(at: Self.at(60_800))
        let last = rules.takeRecords()
        #expect(last.map(\.message) == ["no server takes requests"] && last.map(\.time) == [.milliseconds(59_800)])
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

    /// A discovery that failed had a line every 30 s for as long as it did. None said that it worked again.
    @Test func aDiscoveryThatFailsHasFewerAndFewerLines() {
        var rules = Self.rules()
        func note(_ change: ClusterChange, at second: Int) -> [String] {
            rules.note(change, at: Self.at(second * 1000))
            rules.flush(at: Self.at(second * 1000))
            return rules.takeRecords().map(\.event)
        }
        let failure = ClusterChange.discoveryFailed(EndedDiscovery())
        var times: [Int] = []
        for second in stride(from: 0, to: 3600, by: 5) where note(failure, at: second) == ["discovery.failed"] {
            times.append(second)
        }
        #expect(times == [0, 30, 90, 210, 450, 930, 1530, 2130, 2730, 3330])
        // What was only counted comes before the recovery.
        let end = note(.discoveryRecovered(after: .seconds(3600)), at: 3600)
        #expect(end == ["discovery.failed", "discovery.recovered"])
        // The next outage has its first line at once, and a short one does not have further lines.
        #expect(note(failure, at: 3605) == ["discovery.failed"])
        #expect(note(.discoveryRecovered(after: .seconds(5)), at: 3610) == ["discovery.recovered"])
        #expect(note(failure, at: 3615).isEmpty)
        #expect(note(.discoveryRecovered(after: .seconds(5)), at: 3620).isEmpty)
        #expect(rules.nextFlush == Self.at(3_635_000))
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
