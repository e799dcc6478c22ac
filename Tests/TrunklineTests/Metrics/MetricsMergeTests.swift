import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// The metrics of several clients as one.
struct MetricsMergeTests {
    /// Metrics in which every value differs from that of new metrics.
    private static func sample(_ endpoint: Endpoint = "db:7000", on loop: AnyObject) -> ClientMetrics {
        var (metrics, durations) = (ClientMetrics(), LatencyHistogram())
        durations.record(.milliseconds(3))
        (metrics.requests, metrics.responses, metrics.written, metrics.failed) = (10, 4, 3, 2)
        (metrics.failures, metrics.refusals) = ([.init(.timedOut, .unknown): 2], [.overloaded: 5])
        metrics.durationsByEndpoint[endpoint] = ClientMetrics.CallDurations()
        metrics.durationsByEndpoint[endpoint]?.all = durations
        metrics.durationsByEndpoint[endpoint]?.failures = [.timedOut: durations]
        metrics.durationsByName["GET"] = metrics.durationsByEndpoint[endpoint]
        (metrics.queueDurations, metrics.tryDurations) = (durations, durations)
        (metrics.retries, metrics.retriesRefused, metrics.failedMessages) = (6, 7, 8)
        metrics.repetitions = 36
        (metrics.pending, metrics.waitingBytes) = (9, 100)
        (metrics.waiting.forLink, metrics.waiting.forTurn, metrics.waiting.forBackOff) = (1, 2, 3)
        (metrics.abandoned, metrics.heldSerials) = (11, 12)
        (metrics.parts, metrics.lateResponses, metrics.unknownResponses) = (13, 14, 15)
        metrics.rejections = ["NOT_FOUND": 14]
        (metrics.serving.received, metrics.serving.answered, metrics.serving.refused) = (40, 41, [.failed: 42])
        (metrics.serving.cancelled, metrics.serving.dropped) = (43, 44)
        (metrics.serving.running, metrics.serving.waiting) = (45, 46)
        (metrics.serving.maximumConcurrent, metrics.serving.maximumWaiting) = (47, 48)
        (metrics.pushes, metrics.pushesDelivered, metrics.pushesDroppedByStream) = (16, 17, ["all": 18])
        (metrics.limits.serials, metrics.limits.inFlight, metrics.limits.waiting) = (27, 28, 29)
        (metrics.limits.waitingBytes, metrics.limits.bytesToWrite) = (30, 31)
        var queue = ClientMetrics.EventQueueMetrics()
        (queue.waiting, queue.capacity, queue.missed) = (32, 33, 34)
        metrics.eventQueues = ["Observer": queue]
        (metrics.unexpectedFrames, metrics.undecodableResponses) = (19, 26)
        metrics.connection = connection(endpoint, durations, on: loop)
        return metrics
    }

    private static func connection(
        _ endpoint: Endpoint,
        _ durations: LatencyHistogram,
        on loop: AnyObject
    ) -> ConnectionMetrics {
        var metrics = ClientMetrics().connection
        (metrics.attempts, metrics.failedAttempts, metrics.links, metrics.pings) = (1, 2, 3, 4)
        (metrics.unencodableFrames, metrics.lastEncodingFailure) = (5, FrameError(.illegalLength, "\(endpoint)"))
        (metrics.attemptFailures, metrics.losses) = ([.refused: 6], [.reset: 7])
        (metrics.connectDurations, metrics.handshakeDurations) = (durations, durations)
        metrics.pingDurations = durations
        metrics.addressFailures = ["10.0.0.7:7000": 12]
        metrics.linkEndReasons = ["NOT_FOUND": 13]
        (metrics.bytesReceived, metrics.bytesSent) = (8, 9)
        metrics.droppedDatagrams = 14
        (metrics.framesReceived, metrics.framesSent) = (10, 11)
        let session = SessionID(1)
        var values = ConnectionMetrics.PresentValues(
            state: .ready(endpoint, session: session),
            turnDurations: [ObjectIdentifier(loop): durations],
            delays: [ObjectIdentifier(loop): durations]
        )
        values.link = Timeline.Link(endpoint, nil, session: session, nil)
        values.tcp = TCPInformation(
            smoothedRoundTripTime: .milliseconds(1),
            roundTripTimeVariation: .milliseconds(2),
            retransmissions: 3,
            unacknowledgedSegments: 4,
            congestionWindow: 5,
            unsentBytes: 6
        )
        values.bytesToWrite = 12
        values.heartbeatInterval = .seconds(14)
        let certificate = TLSCertificate(
            subject: "CN=a",
            issuer: "CN=root",
            names: [],
            notBefore: 1,
            notAfter: 2,
            fingerprint: ""
        )
        values.certificates = [CertificateExpiry(.server, certificate)]
        metrics.add(values)
        return metrics
    }

    // MARK: Every stored value

    private enum Value: Equatable {
        case count(Int)
        case durations(Int, Duration)
        case other(String)

        init?(_ value: Any) {
            switch value {
            case let count as Int: self = .count(count)
            case let histogram as LatencyHistogram: self = .durations(histogram.count, histogram.sum)
            case is ConnectionState, is Timeline.Link, is TCPInformation, is FrameError, is Duration,
                is CertificateExpiry:
                self = .other("\(value)")
            default: return nil
            }
        }

        var doubled: Value {
            switch self {
            case .count(let count): .count(2 * count)
            case .durations(let count, let sum): .durations(2 * count, sum * 2)
            case .other: self
            }
        }
    }

    /// Every value of `metrics`, also those that are private, by its path. Empty optionals and dictionaries have none.
    private static func values(of metrics: Any, at path: String = "") -> [(path: String, value: Value)] {
        if let value = Value(metrics) { return [(path, value)] }
        let mirror = Mirror(reflecting: metrics)
        return mirror.children.enumerated().flatMap { index, child in
            if mirror.displayStyle == .dictionary {
                let pair = Array(Mirror(reflecting: child.value).children)
                return values(of: pair[1].value, at: "\(path)[\(pair[0].value)]")
            }
            // The only value of an optional has the path of the optional.
            let name = mirror.displayStyle == .optional ? "" : ".\(child.label ?? "\(index)")"
            return values(of: child.value, at: path + name)
        }
    }

    private static func table(of metrics: ClientMetrics) -> [String: Value] {
        Dictionary(uniqueKeysWithValues: values(of: metrics).map { ($0.path, $0.value) })
    }

    /// The paths of all stored properties that contain no others. A dictionary is one.
    private static func properties(of value: Any, at path: String = "") -> [String] {
        if Value(value) != nil { return [path] }
        let mirror = Mirror(reflecting: value)
        switch mirror.displayStyle {
        case .dictionary: return [path]
        case .optional: return mirror.children.first.map { properties(of: $0.value, at: path) } ?? [path]
        default: return mirror.children.flatMap { properties(of: $0.value, at: "\(path).\($0.label ?? "?")") }
        }
    }

    private final class Loop {}

    /// The sample must have a value for each property, so a property that is new fails here first.
    @Test func theSampleHasAValueForEveryProperty() {
        let metrics = Self.sample(on: Loop())
        let table = Self.table(of: metrics)
        for property in Self.properties(of: metrics) {
            // The path of an element of an array ends with its number.
            let path = property.replacing("?", with: "0")
            let values = table.filter { $0.key == path || $0.key.hasPrefix("\(path)[") }.values
            #expect(
                !values.isEmpty && !values.contains(.count(0)) && !values.contains(.durations(0, .zero)),
                "\(property)"
            )
        }
        #expect(table.count > 45)
    }

    @Test func everyCountAndEveryDurationIsAdded() {
        let loop = Loop()
        let metrics = Self.sample(on: loop)
        var merged = metrics
        merged.merge(metrics)
        let (table, sums) = (Self.table(of: metrics), Self.table(of: merged))
        #expect(Set(table.keys) == Set(sums.keys))
        for (path, value) in table {
            // Both clients run on the same loop.
            let expected = path.contains(".turnDurations") || path.contains(".delays") ? value : value.doubled
            #expect(sums[path] == expected, "\(path)")
        }
    }

    @Test func newMetricsAddNothing() {
        let metrics = Self.sample(on: Loop())
        var (first, second) = (ClientMetrics(), metrics)
        first.merge(metrics)
        second.merge(ClientMetrics())
        #expect(first == metrics && second == metrics)
    }

    @Test func keysOfBothAreKept() throws {
        let (first, second) = (Loop(), Loop())
        var metrics = Self.sample(on: first)
        var other = Self.sample("other:7000", on: second)
        (other.refusals, other.connection.losses) = ([.closed: 3], [.reset: 1, .goAway: 2])
        metrics.merge(other)
        #expect(metrics.refusals == [.overloaded: 5, .closed: 3])
        #expect(metrics.connection.losses == [.reset: 8, .goAway: 2])
        #expect(metrics.durationsByEndpoint.count == 2 && metrics.callDurations.count == 2)
        #expect(metrics.connection.turnDurations.count == 2, "the loops differ")
        #expect(try #require(metrics.connection.lastEncodingFailure).message == "other:7000")
    }

    /// Present values of a link cannot be added.
    @Test func thePresentLinkIsThatOfTheFirstClientThatIsReady() {
        let loop = Loop()
        let (ready, other) = (Self.sample(on: loop), Self.sample("other:7000", on: loop))
        var waiting = ClientMetrics()
        waiting.connection.add(ConnectionMetrics.PresentValues(state: .suspended, turnDurations: [:]))
        var metrics = waiting
        metrics.merge(ready)
        metrics.merge(other)
        metrics.merge(waiting)
        #expect(metrics.connection.link?.endpoint == "db:7000" && metrics.connection.tcp?.retransmissions == 3)
        #expect(metrics.connection.state == ready.connection.state)
        #expect(metrics.connection.stateCounts == ["ready": 2, "suspended": 2])
        #expect(metrics.connection.bytesToWrite == 24)
    }

    @Test func theSumIsClamped() {
        var metrics = ClientMetrics()
        (metrics.requests, metrics.failures) = (.max, [.init(.timedOut, .unknown): .max])
        metrics.merge(metrics)
        #expect(metrics.requests == .max && metrics.failures == [.init(.timedOut, .unknown): .max])
    }

    @Test func aClosedClientHasCountsOnly() {
        let loop = Loop()
        let metrics = Self.sample(on: loop)
        var closed = metrics
        closed.removeCurrentValues()
        let table = Self.table(of: closed)
        let removed = Self.table(of: metrics).filter { table[$0.key] != $0.value }.keys.sorted()
        #expect(
            removed == [
                ".abandoned", ".connection.present.values.bytesToWrite",
                ".connection.present.values.certificates.0", ".connection.present.values.heartbeatInterval",
                ".connection.present.values.link", ".connection.present.values.state",
                ".connection.present.values.stateCounts[ready]", ".connection.present.values.tcp",
                ".eventQueues[Observer].capacity", ".eventQueues[Observer].waiting", ".heldSerials",
                ".limits.bytesToWrite", ".limits.inFlight", ".limits.serials", ".limits.waiting",
                ".limits.waitingBytes", ".pending", ".serving.maximumConcurrent", ".serving.maximumWaiting",
                ".serving.running", ".serving.waiting", ".waiting.forBackOff", ".waiting.forLink", ".waiting.forTurn",
                ".waitingBytes",
            ]
        )
        var total = closed
        total.merge(metrics)
        #expect(total.connection.state == metrics.connection.state && total.connection.stateCounts == ["ready": 1])
        #expect(total.requests == 20 && total.pending == 9)
        #expect(total.connection.turnDurations == metrics.connection.turnDurations)
    }

    /// The names may come from a server, and the metrics of a cluster add those of every link that it has had.
    @Test func namesStayBounded() {
        var sum = ClientMetrics()
        for link in 0..<10 {
            var metrics = ClientMetrics()
            for number in 0..<40 {
                let name = "\(link).\(number)"
                metrics.rejections.count(name)
                metrics.connection.linkEndReasons.count(name)
                metrics.connection.addressFailures.count(name)
                metrics.pushesDroppedByStream.count(name)
                metrics.durationsByName[name, default: .init()].all.record(.milliseconds(1))
            }
            sum.merge(metrics)
        }
        for counts in [
            sum.rejections, sum.connection.linkEndReasons, sum.connection.addressFailures, sum.pushesDroppedByStream,
            sum.durationsByName.mapValues(\.all.count),
        ] {
            #expect(counts.count == 65 && counts["others"] == 400 - 64)
            #expect(counts["0.39"] == 1 && counts["9.0"] == nil)
        }
    }
}
