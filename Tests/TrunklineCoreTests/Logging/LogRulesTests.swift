import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLogging

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Which lines the events of a client become, in virtual time.
@Suite struct LogRulesTests {}

extension LogRulesTests {
    private struct Log {
        var rules: LogRules
        var now = Instant(nanoseconds: 0)
        private(set) var records: [LogRecord] = []

        init(_ level: LogRecord.Level = .info, to endpoints: [Endpoint] = ["a:1", "b:2"]) {
            rules = LogRules(ClientLogging(level: level, name: "gateway") { _ in }, of: endpoints, at: now)
            flush()
            records = []
        }

        mutating func flush(_ load: ClientLoad? = nil) {
            rules.flush(at: now, load)
            records += rules.takeRecords()
        }

        /// Adds events of one step.
        mutating func add(_ contents: ClientEvent.Content..., load: ClientLoad? = nil) {
            for content in contents { rules.note(ClientEvent(content, at: now)) }
            flush(load)
        }

        /// Lets time pass. Timers fire.
        mutating func pass(_ duration: Duration, load: ClientLoad? = nil) {
            let end = now.advanced(by: duration)
            while let next = rules.nextFlush, next <= end {
                now = max(now, next)
                let count = records.count
                flush(load)
                #expect(rules.nextFlush.map { $0 > now } ?? true, "a timer that fires for ever")
                if records.count == count, rules.nextFlush == next { break }
            }
            now = end
        }

        mutating func becomesReady(
            _ session: SessionID,
            at endpoint: Endpoint = "a:1",
            tls: String? = nil,
            through proxy: String? = nil
        ) {
            let link = ClientEvent.ReadyLink(
                endpoint: endpoint,
                address: "10.0.0.8:1",
                session: session,
                attempt: 1,
                duration: .milliseconds(12),
                tlsVersion: tls,
                proxy: proxy
            )
            add(.linkReady(link), .stateChanged(.ready(endpoint, session: session)))
        }

        /// An attempt fails, and the next one follows after `delay`.
        mutating func fails(_ number: Int, _ error: TransportError, delay: Duration = .milliseconds(120)) {
            let cause = DisconnectCause(error)
            add(
                .linkEnded(report(.connecting, cause, error, attempt: number)),
                .attemptPlanned("b:2"),
                .stateChanged(.waiting(delay: delay, attempt: number + 1, cause: cause))
            )
        }

        func report(
            _ phase: DisconnectReport.Phase,
            _ cause: DisconnectCause,
            _ error: (any Error)? = nil,
            attempt: Int = 1,
            lifetime: Duration = .zero,
            lost: Int = 0,
            unsent: Int = 0
        ) -> DisconnectReport {
            DisconnectReport(
                endpoint: "a:1",
                phase: phase,
                endedBy: cause.party,
                cause: cause,
                error: error,
                session: 4,
                attempt: attempt,
                lifetime: lifetime,
                requestsLost: lost,
                bytesUnsent: unsent,
                pathBefore: .unknown,
                pathAfter: .unknown
            )
        }

        mutating func takeAll() -> [LogRecord] { exchange(&records, with: []) }
        mutating func takeLines() -> [String] { takeAll().map(\.description) }
        mutating func takeEvents() -> [String] { takeAll().map(\.event) }
    }

    private static let refused = TransportError(.refused, errno: 111, "a:1 refused the connection")

    // MARK: Descriptors

    /// It said "Too many open files", and not what to do.
    @Test func aProcessWithoutDescriptorsIsToldWhatToDo() {
        var log = Log()
        log.fails(1, transportError(EMFILE, "connecting to a:1"))
        let line = log.takeLines().first ?? ""
        #expect(
            line.hasPrefix("error") && line.contains("file descriptors that this process may have are open"),
            "\(line)"
        )
        #expect(
            line.contains("to do: raise the limit of this process (ulimit -n, or LimitNOFILE= of systemd)"),
            "\(line)"
        )
        log = Log()
        log.fails(1, transportError(ENFILE, "connecting to a:1"))
        #expect(log.takeLines().first?.contains("to do: raise fs.file-max of this host") == true)
    }

    // MARK: Child processes

    /// A process that cannot start wrote its lines at each attempt, and nothing summarised them.
    @Test func processesThatSayTheSameAreQuotedOnce() {
        var log = Log()
        let exit = TransportError.exited(.status(3))
        for number in 1...20 {
            for line in ["\(1000 + number): starting", "no license"] {
                log.add(.processOutput("a:1", session: 4, line: line, omitted: 0))
            }
            if number == 20 { log.add(.processOutput("a:1", session: 4, line: "no disk", omitted: 2)) }
            log.fails(number, exit)
            log.pass(.seconds(1))
        }
        log.pass(.seconds(30))
        let records = log.takeAll()
        let lines = records.filter { $0.event == "process.output" }.map(\.message)
        #expect(
            lines.count == 3 && lines[1].hasSuffix("no license") && lines[2].contains("2 lines left out"),
            "\(lines)"
        )
        let summaries = records.filter { $0.event == "links.unstable" }
        #expect(summaries.count == 2)
        #expect(summaries.first?.message.contains("18 lines of standard error left out") == true, "\(summaries)")
        #expect(summaries.last?.message.contains("20 lines of standard error left out") == true, "\(summaries)")
        // A link that has lasted, and the usual lines of its process.
        log.becomesReady(5)
        log.pass(.seconds(61))
        _ = log.takeAll()
        for _ in 0..<3 { log.add(.processOutput("a:1", session: 5, line: "no license", omitted: 0)) }
        #expect(log.takeEvents() == ["process.output", "process.output", "process.output"])
    }

    /// Lines that were left out, and that no summary counted, were in the first summary of the next episode, days later.
    @Test func linesThatAreLeftOutCountInTheirEpisode() {
        var log = Log()
        let exit = TransportError.exited(.status(3))
        for _ in 0..<2 { log.add(.processOutput("a:1", session: 4, line: "no license", omitted: 0)) }
        log.fails(1, exit)
        for _ in 0..<7 { log.add(.processOutput("a:1", session: 4, line: "no license", omitted: 0)) }
        log.becomesReady(4)
        log.pass(.seconds(61))
        _ = log.takeAll()
        log.add(
            .stateChanged(.waiting(delay: .milliseconds(120), attempt: 1, cause: .reset)),
            .linkEnded(log.report(.ready, .reset, TransportError(.reset, "reset"), lifetime: .seconds(61)))
        )
        for number in 1...5 {
            log.pass(.seconds(1))
            log.fails(number, exit)
        }
        log.pass(.seconds(30))
        let summaries = log.takeAll().filter { $0.event == "links.unstable" }
        #expect(!summaries.isEmpty)
        #expect(summaries.allSatisfy { !$0.message.contains("left out") }, "\(summaries)")
    }

    // MARK: Healthy lives

    @Test func aHealthyLifeIsThreeLines() {
        var rules = LogRules(ClientLogging(name: "gateway") { _ in }, of: ["a:1"], at: Instant(nanoseconds: 0))
        var records = rules.takeRecords()
        let ready = ClientEvent.ReadyLink(
            endpoint: "a:1",
            address: "10.0.0.8:1",
            session: 1,
            attempt: 1,
            duration: .milliseconds(12),
            tlsVersion: "TLSv1.3"
        )
        let now = Instant(nanoseconds: 5_000_000_000)
        rules.note(ClientEvent(.linkReady(ready), at: now))
        for state in [ConnectionState.connecting("a:1", attempt: 1), .ready("a:1", session: 1)] {
            rules.note(ClientEvent(.stateChanged(state), at: now))
        }
        rules.flush(at: now)
        records += rules.takeRecords()
        #expect(rules.nextFlush == nil)
        var metrics = ClientMetrics()
        (metrics.requests, metrics.responses) = (12_345, 12_345)
        metrics.connection.links = 1
        rules.note(ClientEvent(.clientClosed(metrics), at: Instant(nanoseconds: 7_200_000_000_000)))
        records += rules.takeRecords()
        #expect(
            records.map(\.description) == [
                "info gateway client.created: created for a:1",
                "info gateway client.ready: ready on a:1 (10.0.0.8:1, session 1) after 12 ms; TLSv1.3",
                "info gateway client.closed: closed after 2 h; 12,345 requests: 12,345 answered; 1 link",
            ]
        )
        #expect(records[1].fields.map(\.name).contains("tls") && records[1].time == .seconds(5))
    }

    @Test func aPlannedChangeIsOneLine() {
        var log = Log()
        log.becomesReady(1)
        _ = log.takeAll()
        let next = ClientEvent.ReadyLink(
            endpoint: "b:2",
            address: nil,
            session: 2,
            attempt: 1,
            duration: .milliseconds(3),
            tlsVersion: nil
        )
        log.add(
            .linkDraining("a:1", session: 1, .goAway, reason: nil),
            .linkReady(next),
            .stateChanged(.ready("b:2", session: 2))
        )
        log.add(.linkEnded(log.report(.draining, .goAway)))
        #expect(
            log.takeLines() == [
                "info gateway link.replaced: b:2 (session 2) replaces session 1 to a:1 (goAway: the server announced its shutdown)"
            ]
        )
    }

    // MARK: Losses

    @Test func aLossIsOneLineWithCausePhaseLossesAndTheNextAttempt() throws {
        var log = Log()
        log.becomesReady(4)
        _ = log.takeAll()
        log.pass(.seconds(720))
        let error = TransportError(.halfOpen, "no complete frame from a:1 within 10.0 seconds of a ping")
        log.add(
            .linkEnded(log.report(.ready, .halfOpen, error, lifetime: .seconds(720), lost: 3, unsent: 120)),
            .attemptPlanned("b:2"),
            .stateChanged(.waiting(delay: .milliseconds(120), attempt: 2, cause: .halfOpen))
        )
        let record = try #require(log.takeAll().first)
        #expect(record.level == .warning && record.event == "link.lost")
        let parts = [
            "lost the link to a:1 (10.0.0.8:1, session 4) after 12 min", "not even the answer to a ping",
            "within 10.0 seconds of a ping",
            "3 requests lost, 120 bytes unsent", "next attempt in 120 ms at b:2",
        ]
        for part in parts { #expect(record.message.contains(part)) }
        let names = ["cause", "phase", "requests_lost", "bytes_unsent", "next_delay", "next_endpoint"]
        for name in names { #expect(record.fields.contains { $0.name == name }) }
        log.pass(.seconds(1))
        log.becomesReady(5, at: "b:2")
        #expect(
            log.takeLines() == [
                "info gateway link.ready: ready again on b:2 (10.0.0.8:1, session 5); there was no link for 1 s"
            ]
        )
    }

    @Test func anHourWithoutAServerIsAboutTwelveLines() {
        var log = Log()
        for number in 1...720 {
            log.fails(number, Self.refused)
            log.pass(.seconds(5))
        }
        let lines = log.takeAll()
        #expect(lines.count <= 13 && lines.count >= 9)
        #expect(lines[0].event == "attempt.failed" && lines.dropFirst().allSatisfy { $0.event == "links.unstable" })
        #expect(
            lines[1].message.hasPrefix(
                "1 more attempt failed in 10 s (1 refused); the latest, 5 s ago: attempt 2 to a:1"
            )
        )
        log.becomesReady(800)
        #expect(
            log.takeLines().first?.hasSuffix(
                "ready on a:1 (10.0.0.8:1, session 800) after 720 failed attempts; there was no link for 60 min"
            ) == true
        )
    }

    @Test func aNewKindOfFailureIsWrittenAtOnce() {
        var log = Log()
        log.fails(1, Self.refused)
        log.pass(.seconds(1))
        log.fails(2, Self.refused)
        log.pass(.seconds(1))
        log.fails(3, TransportError(.tls(.expired), "certificate has expired (/CN=a expired on 2026-01-01)"))
        let records = log.takeAll()
        #expect(
            records.map(\.level) == [.warning, .error] && records.map(\.event) == ["attempt.failed", "attempt.failed"]
        )
        #expect(records[1].message.contains("to do: renew the certificate of the server"))
    }

    /// Seven kinds of failure in turn, and more: the number of lines stays bounded.
    @Test func manyKindsOfFailureAreBounded() {
        var log = Log()
        for number in 1...200 {
            log.add(
                .linkEnded(log.report(.ready, DisconnectCause.allCases[number % 16], Self.refused, attempt: number))
            )
        }
        #expect(log.takeAll().count <= 8)
    }

    @Test func aFlappingLinkIsSummarised() {
        var log = Log()
        log.becomesReady(1)
        _ = log.takeAll()
        for session in 2...400 as ClosedRange<UInt64> {
            log.add(
                .linkEnded(log.report(.ready, .reset, TransportError(.reset, "reset"), lifetime: .seconds(1), lost: 2)),
                .attemptPlanned("a:1"),
                .stateChanged(.waiting(delay: .milliseconds(50), attempt: 1, cause: .reset))
            )
            log.pass(.milliseconds(500))
            log.becomesReady(SessionID(session))
            log.pass(.seconds(1))
        }
        let records = log.takeAll()
        #expect(records.count <= 12)
        #expect(records.prefix(3).map(\.event) == ["link.lost", "link.ready", "links.unstable"])
        #expect(records[2].message.contains("requests lost"))
        // What was not said is said a while after the last loss, with the state of then.
        log.pass(.seconds(1200))
        let last = log.takeAll().suffix(2)
        #expect(last.map(\.event) == ["links.unstable", "link.ready"])
        #expect(last.first?.message.contains("is in use") == true)
        #expect(last.last?.message.contains("there was no link for") == true)
        #expect(log.rules.nextFlush == nil)
    }

    /// The sum of all outages looked like one long outage that had just ended.
    @Test func aSummaryTellsOutagesFromTheirSum() throws {
        var log = Log()
        log.becomesReady(1)
        _ = log.takeAll()
        for session in 2...400 as ClosedRange<UInt64> {
            log.add(
                .linkEnded(log.report(.ready, .reset, TransportError(.reset, "reset"), lifetime: .seconds(1))),
                .attemptPlanned("a:1"),
                .stateChanged(.waiting(delay: .milliseconds(50), attempt: 1, cause: .reset))
            )
            log.pass(.milliseconds(100))
            log.becomesReady(SessionID(session))
            log.pass(.milliseconds(900))
        }
        let summaries = log.takeAll().filter { $0.event == "link.ready" }.dropFirst()
        let first = try #require(summaries.first)
        #expect(first.message.hasPrefix("ready again on a:1 (10.0.0.8:1, session 11), for "), "\(first)")
        #expect(first.message.contains(" outages in 10 s: there was no link for "), "\(first)")
        #expect(first.message.hasSuffix(" in all") && first.fields.contains { $0.name == "outages" }, "\(first)")
        // One that was held back has the time at which it ended.
        log = Log()
        log.becomesReady(1)
        for session in [500, 501] as [UInt64] {
            log.add(
                .linkEnded(log.report(.ready, .reset, TransportError(.reset, "reset"))),
                .stateChanged(.waiting(delay: .milliseconds(50), attempt: 1, cause: .reset))
            )
            log.pass(.milliseconds(100))
            log.becomesReady(SessionID(session))
            log.pass(.seconds(1))
        }
        log.pass(.seconds(100))
        let last = try #require(log.takeAll().last { $0.event == "link.ready" })
        #expect(last.message.hasSuffix("session 501); there was no link for 100 ms"), "\(last)")
        #expect(last.time == .milliseconds(1200))
    }

    /// Each was a line: 357 within 400 s, all of them `info`.
    @Test func linksThatAreReplacedAgainAndAgainAreSummarised() {
        var log = Log()
        log.becomesReady(1)
        _ = log.takeAll()
        func replace(_ session: UInt64) {
            let link = ClientEvent.ReadyLink(
                endpoint: "a:1",
                address: nil,
                session: SessionID(session),
                attempt: 1,
                duration: .milliseconds(3),
                tlsVersion: nil
            )
            log.add(
                .linkDraining("a:1", session: SessionID(session - 1), .goAway, reason: nil),
                .linkReady(link),
                .stateChanged(.ready("a:1", session: SessionID(session)))
            )
            log.add(.linkEnded(log.report(.draining, .goAway)))
        }
        for session in 2...358 as ClosedRange<UInt64> {
            replace(session)
            log.pass(.milliseconds(1100))
        }
        log.pass(.seconds(3600))
        let records = log.takeAll()
        #expect(records.count <= 8 && records.allSatisfy { $0.event == "link.replaced" })
        #expect(records.first?.level == .info && records.dropFirst().allSatisfy { $0.level == .warning })
        let second = records.dropFirst().first?.message ?? ""
        #expect(second.hasPrefix("the link was replaced 9 more times in 10 s (9 goAway); the latest: a:1"), "\(second)")
        #expect(second.hasSuffix("; to do: see why the server announces its shutdown again and again"))
        #expect(log.rules.nextFlush == nil)
        // A rollout has a line for each server, with its own time.
        for session in [400, 401] as [UInt64] {
            replace(session)
            log.pass(.seconds(4))
        }
        let time = log.now
        log.pass(.seconds(60))
        let rollout = log.takeAll()
        #expect(rollout.map(\.level) == [.info, .info])
        #expect(rollout.last?.time == .nanoseconds(time.nanoseconds) - .seconds(4))
    }

    /// It had the time of the line, up to 10 min after it had failed.
    @Test func aFailedRequestThatWasHeldBackHasItsOwnTime() {
        var log = Log()
        log.add(failure(.timedOut))
        log.pass(.seconds(4))
        log.add(failure(.timedOut), .limitReached(.retryBudget))
        log.pass(.seconds(5))
        log.add(.limitReached(.retryBudget))
        log.pass(.seconds(60))
        let records = log.takeAll()
        #expect(records.filter { $0.event == "requests.failed" }.map(\.time) == [.zero, .seconds(4)])
        let budget = records.last { $0.event == "limit.reached" }?.message
        #expect(budget?.hasPrefix("1 failed request was not sent again in 25 s: ") == true, "\(budget ?? "")")
    }

    @Test func anOrderlyEndIsNoWarning() throws {
        var log = Log()
        log.becomesReady(1)
        _ = log.takeAll()
        log.add(.linkEnded(log.report(.ready, .closedByServer, lifetime: .seconds(300))), .stateChanged(.idle))
        let record = try #require(log.takeAll().first)
        #expect(record.level == .info && record.event == "link.ended")
        #expect(record.message.contains("nothing lost; no further attempt until a request needs a link"))
    }

    @Test func aRefusedLoginSaysWhatToDo() throws {
        var log = Log()
        log.add(
            .linkEnded(log.report(.handshaking, .handshakeRefused, HandshakeRefusal("unknown user"))),
            .stateChanged(.idle)
        )
        let record = try #require(log.takeAll().first)
        #expect(record.level == .error && record.message.contains("the handshake was refused: unknown user"))
        #expect(record.message.contains("to do: check the credentials"))
    }

    @Test func theFailureOfThePlannedChangeSaysThatTheLinkStays() throws {
        var log = Log()
        log.becomesReady(1)
        _ = log.takeAll()
        log.pass(.seconds(60))
        let error = TransportError(.tls(.alert(45)), "alert certificate expired")
        log.add(.linkEnded(log.report(.securing, .tls, error)))
        let record = try #require(log.takeAll().first)
        #expect(record.level == .error && record.message.contains("the link to a:1 (session 1) is in use, for 60 s"))
        #expect(record.message.hasSuffix("to do: renew the certificate of this client (options.tls.identity)"))
    }

    // MARK: Requests

    private func failure(_ code: ClientError.Code, _ fate: ClientError.Fate = .unknown) -> ClientEvent.Content {
        .requestFailed(id: 7, ClientError(code, fate, "deadline exceeded"), after: .seconds(8))
    }

    @Test func failedRequestsAreSummarisedByCodeAndFate() {
        var log = Log()
        log.add(failure(.timedOut))
        #expect(
            log.takeLines() == [
                "warning gateway requests.failed: request 7 failed: timedOut (fate unknown): deadline exceeded"
            ]
        )
        for _ in 0..<1500 { log.add(failure(.timedOut)) }
        log.add(failure(.timedOut, .notSent), .requestRefused(ClientError(.overloaded, .notSent, "full")))
        #expect(log.takeAll().isEmpty)
        log.pass(.seconds(30))
        #expect(
            log.takeLines() == [
                "warning gateway requests.failed: 1,501 requests failed in 30 s: 1,500 timedOut (fate unknown), 1 timedOut (not sent);"
                    + " 1 request was not accepted in 30 s: 1 overloaded; the latest, 30 s ago: a request: overloaded (not sent):"
                    + " full"
            ]
        )
        #expect(log.rules.nextFlush == nil)
    }

    @Test func summariesOfFailuresBecomeRarerAndStartOverAfterAPause() {
        var log = Log()
        for _ in 0..<3600 {
            log.add(failure(.timedOut))
            log.pass(.seconds(1))
        }
        #expect(log.takeAll().count <= 10)
        log.pass(.seconds(3600))
        _ = log.takeAll()
        log.add(failure(.timedOut))
        log.pass(.seconds(29))
        log.add(failure(.timedOut))
        #expect(log.takeAll().count == 1)
        log.pass(.seconds(1))
        #expect(log.takeAll().count == 1)
    }

    @Test func cancelledRequestsAreNoFailures() {
        var log = Log()
        log.add(failure(.cancelled))
        log.pass(.seconds(60))
        #expect(log.takeAll().isEmpty)
    }

    @Test func errorResponsesAreCountedByTypeAndStatus() {
        var log = Log()
        func reject(_ type: UInt32, _ status: UInt32) {
            log.rules.note(
                ClientEvent(.requestRejected(id: 1, type: type, status: status, nil, name: nil), at: log.now)
            )
        }
        for _ in 0..<3 { reject(0x410, 500) }
        log.flush(ClientLoad(responses: 90))
        for status in 0..<100 { reject(1, UInt32(status)) }
        log.pass(.seconds(30), load: ClientLoad(responses: 90 + 700))
        let records = log.takeAll()
        #expect(
            records[0].message == "the server answered 3 of 90 requests with an error: 3 of type 0x410 with status 500"
        )
        #expect(records[1].message.contains("100 of 700 requests") && records[1].message.contains("84 others"))
        #expect(records.allSatisfy { $0.level == .info })
    }

    /// A service that does nothing but fail is no normal one.
    @Test func errorResponsesAreAWarningIfThereIsLittleElse() {
        var log = Log()
        for _ in 0..<20 {
            log.rules.note(ClientEvent(.requestRejected(id: 1, type: 2, status: 500, nil, name: nil), at: log.now))
        }
        log.flush(ClientLoad(responses: 20))
        let record = log.takeAll().first
        #expect(record?.level == .warning)
        #expect(record?.message.hasPrefix("the server answered all 20 requests with an error") == true)
    }

    @Test func unknownResponsesAreAWarningIfTheyAreMany() {
        for (count, level) in [(4, LogRecord.Level.info), (20, .warning)] {
            var log = Log()
            for _ in 0..<count {
                log.rules.note(ClientEvent(.unknownResponse(serial: 9, type: 2, session: 3), at: log.now))
            }
            log.flush(ClientLoad(responses: 100))
            let record = log.takeAll().first
            #expect(record?.event == "responses.unknown" && record?.level == level)
            #expect(record?.message.contains("the latest: serial 9 on session 3") == true)
        }
    }

    /// The line said that the server answers twice, or with a wrong serial number, and did not have the server's text. Then the
    /// serial 0 meant that no request is named, although every response that is matched in order has it.
    @Test func anErrorThatNamesNoRequestIsShown() {
        var log = Log()
        let reason = ServerReason("ParseError", code: -32700, text: "bad \u{7}byte")
        for _ in 0..<2 {
            let stray = ClientEvent.Content.unknownResponse(
                serial: 0,
                type: 0,
                session: 3,
                reason: reason,
                namesNoRequest: true
            )
            log.rules.note(ClientEvent(stray, at: log.now))
        }
        log.rules.note(ClientEvent(.unknownResponse(serial: 0, type: 0, session: 3, reason: reason), at: log.now))
        log.flush(ClientLoad(responses: 100))
        let records = log.takeAll().filter { $0.event == "responses.unknown" }
        let shown = records.first { $0.level == .warning }
        #expect(records.count == 2 && shown?.message.contains("wrong serial") == false)
        #expect(shown?.message.contains("the latest: ParseError (-32700): bad \\u{7}byte. It may") == true)
        let twice = records.first { $0.level == .info }
        #expect(twice?.message.contains("the latest: serial 0 on session 3, ParseError (-32700): bad") == true)
    }

    /// A few copied or forged answers are part of the work over UDP; datagrams that are no frames are not.
    @Test func datagramsThatAnswerNothingAreAWarningIfTheyAreMany() {
        let mismatch = FrameError(.responseMismatch, "the question differs")
        for (count, level) in [(4, LogRecord.Level.info), (20, .warning)] {
            var log = Log()
            for _ in 0..<count {
                log.rules.note(ClientEvent(.datagramsDropped(1, "udp://a:1", mismatch), at: log.now))
            }
            log.flush(ClientLoad(responses: 100))
            let record = log.takeAll().first
            #expect(record?.event == "datagrams.dropped" && record?.level == level)
            #expect(record?.message.contains("responseMismatch: the question differs") == true)
            #expect(record?.message.contains("go on waiting") == true)
        }
        var log = Log()
        log.add(
            .datagramsDropped(1, "udp://a:1", mismatch),
            .datagramsDropped(2, "udp://a:1", FrameError(.malformed, "x"))
        )
        log.flush(ClientLoad(responses: 100))
        let record = log.takeAll().first
        #expect(record?.level == .warning && record?.message.contains("speaks another protocol") == true)
        #expect(record?.message.contains("3 datagrams from the server were dropped") == true)
    }

    /// A line used to name the endpoint that was in use when it was written.
    @Test func aLineNamesTheEndpointsOfWhatItCounts() {
        var log = Log()
        log.becomesReady(1, at: "a:1")
        log.add(.unknownResponse(serial: 9, type: 2, session: 1), .pushesDropped(3, stream: "all"))
        log.pass(.seconds(1))
        _ = log.takeAll()
        log.add(.unknownResponse(serial: 9, type: 2, session: 1), .pushesDropped(3, stream: "all"))
        log.becomesReady(2, at: "b:2")
        // The link to a:1 is draining.
        log.add(.unknownResponse(serial: 9, type: 2, session: 1), .pushesDropped(3, stream: "all"))
        log.pass(.seconds(40), load: ClientLoad(responses: 100))
        let records = log.takeAll()
        #expect(records.first { $0.event == "responses.unknown" }?.message.hasSuffix("[a:1]") == true)
        #expect(records.first { $0.event == "pushes.dropped" }?.message.hasSuffix("[a:1, b:2]") == true)
    }

    /// The number of responses is not known then: there used to be a warning about all answers.
    @Test func aDeallocatedClientMakesNoClaimAboutAllAnswers() {
        var log = Log()
        log.add(.requestRejected(id: 1, type: 2, status: 500, nil, name: nil))
        log.pass(.seconds(1))
        _ = log.takeAll()
        for _ in 0..<7 { log.add(.requestRejected(id: 1, type: 2, status: 500, nil, name: nil)) }
        log.add(.clientDeallocated(pending: 0))
        let record = log.takeAll().first
        #expect(record?.level == .info)
        #expect(record?.message == "the server answered 7 requests with an error: 7 of type 0x2 with status 500")
    }

    /// The duration used to be missing if the latest loss had a line of its own.
    @Test func theEndOfEachOutageHasItsDuration() {
        var log = Log()
        log.becomesReady(1)
        for (session, cause) in [(2, DisconnectCause.reset), (3, .closedByServer)] {
            let report = log.report(.ready, cause, TransportError(.reset, "reset"), lost: 1)
            log.add(.linkEnded(report), .stateChanged(.waiting(delay: .milliseconds(100), attempt: 1, cause: cause)))
            log.now = log.now.advanced(by: .milliseconds(100))
            log.becomesReady(SessionID(UInt64(session)))
            log.now = log.now.advanced(by: .seconds(5))
        }
        log.pass(.seconds(70))
        let ends = log.takeAll().filter { $0.event == "link.ready" }
        #expect(ends.count == 2)
        for end in ends { #expect(end.message.contains("there was no link for 100 ms"), "\(end)") }
    }

    /// The time of the first attempt counts, too.
    @Test func theFirstOutageBeginsWithTheFirstAttempt() throws {
        var log = Log()
        log.add(.stateChanged(.connecting("a:1", attempt: 1)))
        log.now = log.now.advanced(by: .seconds(3))
        log.fails(1, TransportError(.timedOut, "no answer"), delay: .milliseconds(2))
        log.now = log.now.advanced(by: .milliseconds(2))
        log.add(.stateChanged(.connecting("b:2", attempt: 2)))
        log.becomesReady(2)
        let ready = try #require(log.takeAll().first { $0.event == "client.ready" })
        #expect(ready.message.contains("after 1 failed attempt; there was no link for 3 s"), "\(ready)")
    }

    /// The time in which the client was suspended does not count.
    @Test func anOutageDoesNotBeginBeforeTheClientIsResumed() throws {
        var log = Log()
        log.add(.stateChanged(.connecting("a:1", attempt: 1)), .stateChanged(.suspended))
        log.now = log.now.advanced(by: .seconds(3600))
        log.add(.stateChanged(.connecting("a:1", attempt: 1)))
        log.now = log.now.advanced(by: .seconds(1))
        log.fails(1, Self.refused, delay: .milliseconds(2))
        log.becomesReady(2)
        let ready = try #require(log.takeAll().first { $0.event == "client.ready" })
        #expect(ready.message.contains("there was no link for 1 s"), "\(ready)")
    }

    @Test func aLinkThroughAProxySaysSo() throws {
        var log = Log()
        log.becomesReady(1, tls: "TLSv1.3", through: "socks5://proxy:1080")
        let ready = try #require(log.takeAll().first { $0.event == "client.ready" })
        #expect(ready.message.hasSuffix(" after 12 ms; through socks5://proxy:1080; TLSv1.3"), "\(ready)")
        #expect(ready.fields.contains { $0.name == "proxy" && $0.value == .text("socks5://proxy:1080") })
    }

    /// Whatever is requested meanwhile, a refused login is followed by a pause.
    @Test(arguments: [DisconnectCause.handshakeRefused, .proxy]) func aRefusedLoginIsFollowedByAPause(
        _ cause: DisconnectCause
    ) throws {
        var log = Log()
        var report = log.report(.connecting, cause, TransportError(.proxy(.credentialsRefused), "a wrong password"))
        report.isPermanent = true
        log.add(.linkEnded(report), .stateChanged(.idle))
        let line = try #require(log.takeAll().first { $0.event == "attempt.failed" })
        let next =
            "no further attempt until a request needs a link; a:1 is not tried before options.reconnecting.refusalPause ends"
        #expect(line.message.contains(next), "\(line)")
        // The server may say itself when to come back.
        var other = Log()
        var busy = other.report(.handshaking, cause, HandshakeRefusal("no", retryAfter: .seconds(5)))
        busy.isPermanent = true
        other.add(.linkEnded(busy), .stateChanged(.idle))
        #expect(other.takeAll().first?.message.contains("refusalPause") == false)
    }

    private static func expiry(_ subject: String, in time: Duration) -> ClientEvent.Content {
        let certificate = TLSCertificate(
            subject: subject,
            issuer: "CN=root",
            names: [],
            notBefore: 0,
            notAfter: 1000,
            fingerprint: subject
        )
        return .certificateSeen("tls://a:1", CertificateExpiry(.server, certificate), timeLeft: time)
    }

    /// Two servers of one client, with certificates of their own: each reconnect used to be a line.
    @Test func aCertificateThatIsSeenAgainHasNoSecondLine() {
        var log = Log()
        for _ in 0..<5 {
            log.add(Self.expiry("CN=a", in: .seconds(86_400)))
            log.add(Self.expiry("CN=b", in: .seconds(86_400)))
        }
        #expect(log.takeEvents() == ["certificate.expires", "certificate.expires"])
        log.pass(.seconds(90_000))
        // Only of the one that is in use.
        let lines = log.takeLines()
        #expect(lines.count == 1 && lines.first?.contains("(CN=b) expires in 0 µs") == true, "\(lines)")
    }

    @Test func aLearnedIntervalIsALine() {
        func line(_ change: LearnedInterval.Change, _ path: NetworkPath = .unknown, lost: Duration?) -> LogRecord? {
            var log = Log()
            let learned = LearnedInterval(
                endpoint: "a:1",
                path: path,
                interval: .seconds(190),
                longestSurvived: .seconds(210),
                shortestLost: lost,
                change: change
            )
            log.add(.heartbeatIntervalChanged(learned))
            let records = log.takeAll()
            #expect(records.count == 1 && records.first?.event == "heartbeat.interval")
            return records.first
        }
        let grown = line(.grown, lost: nil)
        #expect(grown?.level == .info)
        #expect(
            grown?.message
                == "the interval of heartbeats to a:1 is now 190 s: links have survived 210 s without traffic"
        )
        let path = NetworkPath.route(NetworkRoute(interface: "eth0", source: nil))
        let shortened = line(.shortened, path, lost: .seconds(270))
        #expect(shortened?.level == .info && shortened?.message.contains("a:1 (eth0) is now 190 s") == true)
        #expect(shortened?.message.contains("after at most 270 s without traffic; a device on the path") == true)
        #expect(shortened?.message.hasSuffix("tried again in 7 days") == true)
        #expect(line(.shortened, lost: nil)?.message.contains("if that happens again") == true)
        #expect(line(.relearning, lost: nil)?.level == .info)
        let minimum = line(.lostAtMinimum, lost: .seconds(190))
        #expect(minimum?.level == .warning && minimum?.message.contains("to do: lower the lower bound") == true)
    }

    private func line(
        _ log: Log,
        _ phase: DisconnectReport.Phase,
        _ cause: DisconnectCause,
        _ error: (any Error)? = nil,
        lost: Int = 0,
        _ details: DisconnectReport.Details?
    ) -> String {
        var (log, report) = (log, log.report(phase, cause, error, lost: lost))
        report.details = details
        report.wasSilent = true
        log.add(.linkEnded(report), .stateChanged(.idle))
        return log.takeLines().first ?? ""
    }

    /// A name that led to a foreign host looked like a slow server: its address was missing.
    @Test func aLineNamesTheAddressAndTheProxy() {
        let address = SocketAddress.ipv4([10, 0, 0, 8], port: 1)
        let error = TransportError(.timedOut, "handshake not completed within 2 s")
        let direct = DisconnectReport.Details(address, through: nil, .none)
        let attempt = line(Log(), .handshaking, .timedOut, error, direct)
        #expect(attempt.contains("attempt 1 to a:1 (10.0.0.8:1) failed while handshaking: timedOut"), "\(attempt)")
        let proxied = DisconnectReport.Details(address, through: .http("proxy", port: 3128), .none)
        let through = line(Log(), .handshaking, .timedOut, error, proxied)
        #expect(through.contains("attempt 1 to a:1 (through http://proxy:3128, 10.0.0.8:1) failed"), "\(through)")
        let lost = line(Log(), .ready, .reset, TransportError(.reset, "reading"), lost: 1, proxied)
        #expect(lost.contains("lost the link to a:1 (through http://proxy:3128, 10.0.0.8:1, session 4)"), "\(lost)")
        var report = Log().report(.handshaking, .timedOut, error)
        report.details = proxied
        #expect("\(report)".contains("attempt 1, 10.0.0.8:1 through http://proxy:3128)"), "\(report)")
    }

    /// "Does this port expect TLS?" was asked about every server whose bytes could not be decoded.
    @Test func whatTheServerAnswersIsNamed() {
        func line(_ firstBytes: FirstBytes, _ phase: DisconnectReport.Phase = .ready, _ cause: DisconnectCause)
            -> String
        {
            let details = DisconnectReport.Details(nil, through: nil, firstBytes)
            return self.line(Log(), phase, cause, FrameError(.malformed, "no frame"), details)
        }
        for phase in [DisconnectReport.Phase.ready, .handshaking] {
            let ssh = line(.service(.ssh), phase, .protocolViolation)
            #expect(ssh.contains("; the server answers with SSH: check the host and the port;"), "\(ssh)")
            let tls = line(.service(.tls), phase, .protocolViolation)
            #expect(tls.contains("; the server answers with TLS: use an endpoint with tls://;"), "\(tls)")
            let other = line(.unknown, phase, .protocolViolation)
            #expect(other.contains("; the server speaks another protocol, or another version of this one;"), "\(other)")
            #expect(!ssh.contains("TLS") && !other.contains("TLS"))
        }
        // It has sent something, waited in vain for more, and closed.
        #expect(line(.service(.http), .ready, .closedByServer).contains("answers with HTTP"))
        // A server that expects TLS and closes without a word.
        #expect(line(.none, .ready, .closedByServer).contains("does this port expect TLS?"))
        // A part of a frame shows nothing.
        for cause in [DisconnectCause.closedByServer, .reset] {
            let cut = line(.unknown, .ready, cause)
            #expect(!cut.contains("TLS") && !cut.contains("another protocol"), "\(cut)")
            let login = line(.unknown, .handshaking, cause)
            #expect(login.contains("may have refused the login") && !login.contains("TLS"), "\(login)")
        }
        #expect(!line(.none, .ready, .limitExceeded).contains("does this port expect TLS?"))
    }

    /// A load balancer that closed idle links was not suspected, and the option that helps not named.
    @Test func aLinkThatWasIdleSaysSo() {
        func details(_ seconds: Double, sendsPings: Bool = true, isUsual: Bool = false) -> DisconnectReport.Details {
            DisconnectReport.Details(
                nil,
                through: nil,
                idleTime: .seconds(seconds),
                sendsPings: sendsPings,
                isIdleTimeUsual: isUsual,
                .none
            )
        }
        func line(_ cause: DisconnectCause, lost: Int = 0, _ details: DisconnectReport.Details) -> String {
            self.line(Log(), .ready, cause, TransportError(.closedByPeer, "the server closed it"), lost: lost, details)
        }
        let first = line(.closedByServer, details(60))
        let guess =
            "it was idle for 60 s: if the server or a load balancer closes idle connections, let options.liveness.interval be"
            + " shorter than that"
        #expect(first.contains(guess), "\(first)")
        let second = line(.reset, lost: 1, details(60, isUsual: true))
        #expect(
            second.contains("it was idle for 60 s, like the link before: the server or a load balancer"),
            "\(second)"
        )
        let mute = line(.closedByServer, details(60, sendsPings: false))
        #expect(mute.contains("there are no pings on this link") && !mute.contains("liveness.interval"), "\(mute)")
        // A link in use, and one whose end has another cause.
        for other in [
            line(.closedByServer, details(1)), line(.closedByServer, lost: 1, details(60)),
            line(.halfOpen, details(60)),
        ] {
            #expect(!other.contains("idle"), "\(other)")
        }
    }

    /// Refused credentials began with "the proxy cannot be reached".
    @Test func theFailureOfAProxyBeginsWithWhatIsWrong() {
        let failures: [(ProxyFailure, String)] = [
            (.credentialsRefused, "proxy: the proxy refused the user name or the password; "),
            (.authenticationRequired, "proxy: the proxy requires a user name and a password, or"),
            (.notAllowed, "proxy: the rules of the proxy do not allow the connection; "),
            (.unreachable, "proxy: the proxy cannot be reached; "), (.refused, "proxy: the proxy found no server"),
        ]
        for (failure, start) in failures {
            let error = TransportError(.proxy(failure), "connecting to a:1 through http://proxy:3128: no")
            let text = line(Log(), .connecting, .proxy, error, nil)
            #expect(text.contains(start) && text.contains("http://proxy:3128"), "\(text)")
        }
    }

    /// The end of a tunnel during the TLS handshake read "the server closed the connection", and the kernel's own timeout of a
    /// link "no answer in time", as if a request had waited.
    @Test func theMeaningOfACauseFollowsItsPhase() {
        let proxy = Proxy.http("proxy", port: 3128)
        let closed = TransportError(.closedByPeer, "the peer closed the connection during the TLS handshake")
        let tunnel = closed.closing(tunnelThrough: proxy, isSecured: false, " to tls://a:1")
        let cut = line(Log(), .securing, .closedByServer, tunnel, nil)
        let says = "while securing: closedByServer: the tunnel to tls://a:1 was closed by the proxy \(proxy), or by the"
        #expect(cut.contains(says) && !cut.contains("the server closed the connection"), "\(cut)")
        // With the end of TLS, the server says that it closes.
        #expect(closed.closing(tunnelThrough: proxy, isSecured: true) == closed)
        // The text of an error decided whether it was that of a tunnel.
        let other = TransportError(.reset, "the tunnel lamp of \(proxy) went out")
        #expect(!other.isOfTunnel && other.closing(tunnelThrough: proxy, isSecured: true).isOfTunnel)
        let system = TransportError(.timedOut, errno: 110, "reading: Connection timed out")
        let given = line(Log(), .ready, .timedOut, system, nil)
        #expect(given.contains("timedOut: the system gave the link up: the server, or the path to it"), "\(given)")
        #expect(line(Log(), .handshaking, .timedOut, system, nil).contains("timedOut: no answer in time; "))
    }

    /// A host that has never had a route read "the network of this host changed: no route, now no route".
    @Test func aNetworkThatStaysAwayHasNotChanged() {
        let error = TransportError(.unreachable, errno: 101, "connecting to 10.0.0.1:1: no route leads there")
        func text(_ before: NetworkPath) -> String {
            DisconnectReport(
                endpoint: "a:1",
                phase: .connecting,
                endedBy: .network,
                cause: .unreachable,
                error: error,
                session: 1,
                attempt: 1,
                lifetime: .zero,
                requestsLost: 0,
                bytesUnsent: 0,
                pathBefore: before,
                pathAfter: .noRoute
            ).explanation
        }
        #expect(text(.noRoute) == "unreachable: the address cannot be reached; \(error.message)")
        #expect(text(.local).contains("the network of this host changed: this host, now no route"))
    }

    /// A stream error with a reason read "the server announced its shutdown".
    @Test func aGoAwayWithAReasonIsNoShutdown() {
        var log = Log()
        log.becomesReady(4)
        _ = log.takeAll()
        log.add(.linkDraining("a:1", session: 4, .goAway, reason: "the server says: conflict"), .stateChanged(.idle))
        let line = log.takeLines().first ?? ""
        #expect(line.contains("takes no more requests: goAway: the server says: conflict;"), "\(line)")
    }

    /// What the error does not say may be guessed from the phase.
    @Test func aLineAsksAboutTLSAndLogins() {
        func line(
            _ endpoint: Endpoint,
            _ phase: DisconnectReport.Phase,
            wasSilent: Bool = false,
            hasSpoken: Bool = true
        ) -> LogRecord? {
            var log = Log()
            let error = TransportError(.closedByPeer, "the peer closed the connection")
            var report = log.report(phase, .closedByServer, error)
            (report.endpoint, report.wasSilent, report.hasSpoken) = (endpoint, wasSilent, hasSpoken)
            log.add(.linkEnded(report), .stateChanged(.idle))
            return log.takeAll().first
        }
        let secured = line("tls://a:1", .securing)
        #expect(secured?.level == .warning && secured?.message.contains("does this port speak TLS?") == true)
        let login = line("tls://a:1", .handshaking)
        #expect(login?.level == .warning && login?.message.contains("may have refused the login") == true)
        #expect(login?.message.contains("TLS") == false)
        #expect(line("a:1", .handshaking)?.message.contains("does this port expect TLS?") == true)
        #expect(line("a:1", .ready, wasSilent: true)?.message.contains("does this port expect TLS?") == true)
        #expect(line("a:1", .ready)?.message.contains("TLS") == false)
        // A server may close a link on which nothing was said.
        #expect(line("a:1", .ready, wasSilent: true, hasSpoken: false)?.message.contains("TLS") == false)
        // Neither a process nor a server of datagrams expects it.
        for endpoint in [Endpoint.command("cat"), "udp://a:1"] {
            #expect(line(endpoint, .handshaking)?.message.contains("may have refused the login") == true)
            #expect(line(endpoint, .handshaking)?.message.contains("TLS") == false)
            #expect(line(endpoint, .ready, wasSilent: true)?.message.contains("TLS") == false)
        }
    }

    /// Two weeks before its end, three days before it, and once a day.
    @Test func aCertificateThatExpiresHasALineADay() {
        var log = Log()
        func see(_ days: Int64, serial: Int64 = 0) {
            let certificate = TLSCertificate(
                subject: "CN=a",
                issuer: "CN=root",
                names: [],
                notBefore: 0,
                notAfter: 1_000_000 + serial,
                fingerprint: ""
            )
            let left = Duration.seconds(days * 86_400)
            log.add(.certificateSeen("tls://a:1", CertificateExpiry(.server, certificate), timeLeft: left))
        }
        see(16)
        #expect(log.takeAll().isEmpty)
        log.pass(.seconds(86_400))
        see(15)  // another link
        log.pass(.seconds(86_400 * 5 + 1))
        let first = log.takeAll()
        #expect(first.map(\.event) == Array(repeating: "certificate.expires", count: 5))
        #expect(first.allSatisfy { $0.level == .warning })
        #expect(first[0].message.hasPrefix("the certificate of tls://a:1 (CN=a) expires in 14 days; to do: "))
        log.pass(.seconds(86_400 * 7))
        #expect(log.takeAll().last?.level == .error)
        log.pass(.seconds(86_400 * 5))
        #expect(log.takeAll().last?.message.contains("expired ") == true)
        // It was renewed.
        see(90, serial: 1)
        log.pass(.seconds(86_400 * 30))
        #expect(log.takeAll().isEmpty)
    }

    /// What the server does in answer to the end of the client is no outage.
    @Test func nothingThatLooksLikeAnOutageIsLoggedWhileClosing() {
        var log = Log()
        log.becomesReady(1)
        _ = log.takeAll()
        log.add(.stateChanged(.draining))
        log.add(.linkEnded(log.report(.draining, .closedByServer)))
        log.add(.linkEnded(log.report(.connecting, .refused, Self.refused)))
        #expect(log.takeAll().isEmpty)
        log.add(.linkEnded(log.report(.draining, .reset, lost: 3)))
        #expect(log.takeEvents() == ["link.lost"])
    }

    @Test func droppedPushesAreSummarised() {
        var log = Log()
        for _ in 0..<100 { log.add(.pushesDropped(5, stream: "all")) }
        log.pass(.seconds(30))
        #expect(log.takeAll().map { "\($0.fields[0].value)" } == ["5", "495"])
    }

    @Test func unservedRequestsOfTheServerAreSummarised() throws {
        var log = Log()
        for _ in 0..<100 { log.add(.serverRequestsRefused(5, because: .overloaded), .serverRequestsDropped(1)) }
        log.pass(.seconds(30))
        let records = log.takeAll()
        #expect(records.map { "\($0.fields[0].value)" } == ["6", "594"])
        let last = try #require(records.last)
        #expect(last.event == "server_requests.unserved" && last.level == .warning)
        #expect(last.message.hasPrefix("594 requests of the server not served in 30 s: "))
        #expect(last.message.contains("495") && last.message.contains("overloaded"))
    }

    // MARK: Limits

    @Test func aLimitIsWrittenWhenRequestsHaveWaitedForASecond() throws {
        var log = Log()
        log.becomesReady(1)
        _ = log.takeAll()
        log.add(.limitReached(.serials))
        log.pass(.milliseconds(300))
        log.add(.limitCleared(.serials))
        log.pass(.seconds(10))
        #expect(log.takeAll().isEmpty)
        log.add(.limitReached(.serials))
        let load = ClientLoad(
            inFlight: 250,
            abandoned: 6,
            waiting: 90,
            oldest: .seconds(5),
            silence: .milliseconds(3)
        )
        log.pass(.seconds(2), load: load)
        let record = try #require(log.takeAll().first)
        #expect(
            record.description
                == "warning gateway limit.reached: requests have waited for 1 s because all serial numbers of the link are in"
                + " use; 250 in flight, the oldest for 5 s; 6 abandoned (timed out or cancelled, and not answered yet); 90"
                + " waiting; the link works, its latest frame came 3 ms ago: the server answers more slowly than requests"
                + " are made [a:1]"
        )
        log.pass(.seconds(30), load: load)
        #expect(log.takeLines().first?.contains("have waited for 30 s of the last 30 s because") == true)
        log.add(.limitCleared(.serials))
        log.pass(.seconds(100))
        #expect(
            log.takeLines() == [
                "info gateway limit.cleared: requests no longer wait because all serial numbers of the link are in use; they"
                    + " waited for 32.3 s in all [a:1]"
            ]
        )
        #expect(log.rules.nextFlush == nil)
    }

    @Test func aLimitThatComesAndGoesForAnHourIsFewLines() {
        var log = Log()
        for _ in 0..<18_000 {
            log.add(.limitReached(.maximumInFlight))
            log.pass(.milliseconds(100))
            log.add(.limitCleared(.maximumInFlight))
            log.pass(.milliseconds(100))
        }
        log.pass(.seconds(2000))
        let records = log.takeAll()
        #expect(records.count <= 12 && records.last?.event == "limit.cleared")
        #expect(log.rules.nextFlush == nil)
    }

    @Test func anExhaustedRetryBudgetIsCounted() {
        var log = Log()
        for _ in 0..<100 { log.add(.limitReached(.retryBudget)) }
        log.pass(.seconds(60))
        #expect(log.takeAll().map { "\($0.fields[1].value)" } == ["1", "99"])
        #expect(log.rules.nextFlush == nil)
    }

    // MARK: Levels and texts

    @Test func atDebugEveryEventIsARecord() {
        var log = Log(.debug)
        log.add(failure(.timedOut), failure(.cancelled), .limitReached(.serials), .stateChanged(.idle))
        #expect(
            log.takeEvents() == [
                "request.failed", "request.cancelled", "limit.reached", "connection.idle", "requests.failed",
            ]
        )
    }

    @Test func recordsBelowTheLevelAreNotMade() {
        var log = Log(.error)
        log.becomesReady(1)
        log.add(failure(.timedOut), .linkEnded(log.report(.ready, .reset)))
        #expect(log.takeAll().isEmpty)
        log.add(.linkEnded(log.report(.securing, .tls, TransportError(.tls(.untrusted), "self-signed"))))
        #expect(log.takeAll().map(\.level) == [.error])
    }

    /// An error of the caller's own may contain anything, such as a token.
    @Test func errorsOfOthersAreNamedByTheirType() {
        struct Own: Error, CustomStringConvertible { let description = "the token is hunter2" }
        for level in [LogRecord.Level.debug, .info] {
            var log = Log(level)
            log.add(
                .requestFailed(
                    id: 1,
                    ClientError(.invalidResponse, .answered, "cannot decode", cause: Own()),
                    after: .zero
                ),
                .requestRefused(
                    ClientError(.closed, .notSent, "closed", cause: ClientError(.closed, .notSent, "", cause: Own()))
                ),
                .linkEnded(log.report(.handshaking, .handshakeRefused, Own())),
                .linkEnded(log.report(.securing, .tls, TransportError(.tls(.noPassphrase), "\(Own())")))
            )
            log.pass(.seconds(60))
            let text = log.takeAll().map { "\($0) \($0.fields)" }.joined(separator: "\n")
            #expect(!text.contains("hunter2") && text.contains("an error of the type Own"))
        }
    }

    @Test func everyRecordIsOneLine() {
        var log = Log()
        log.add(.linkEnded(log.report(.handshaking, .handshakeRefused, HandshakeRefusal("bad\nnews"))))
        #expect(log.takeLines().allSatisfy { !$0.contains("\n") })
        #expect(Quantity.grouped(1_234_567) == "1,234,567" && Quantity.grouped(-12) == "-12")
        #expect(Quantity.time(.seconds(90)) == "90 s" && Quantity.time(.seconds(5400)) == "90 min")
        #expect(LogRecord.Level.debug < .info && LogRecord.Level.warning < .error)
    }

    @Test func whatWasCountedIsWrittenAtTheEnd() {
        var log = Log()
        log.add(failure(.timedOut))
        log.add(failure(.closed))
        log.fails(1, Self.refused)
        log.fails(2, Self.refused)
        _ = log.takeAll()
        log.add(.clientDeallocated(pending: 2), .clientClosed(ClientMetrics()))
        #expect(log.takeEvents() == ["links.unstable", "requests.failed", "client.deallocated"])
    }
}
