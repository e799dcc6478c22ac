import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLogging

/// Errors as text: each thing is said once, whatever the cause says.
struct MessageTests {
    private static let codes: [ClientError.Code] = [
        .cancelled, .timedOut, .connectionLost, .unavailable, .closed, .rejected, .protocolViolation, .invalidRequest,
        .invalidResponse, .invalidArgument, .overloaded, .tlsFailed, .notCached, .sessionLost, .interrupted,
    ]
    private static let transportCodes: [TransportError.Code] = [
        .nameResolutionFailed, .refused, .unreachable, .pathLost, .timedOut, .reset, .closedByPeer, .closedLocally,
        .halfOpen, .invalidAddress, .tls(.untrusted), .tls(.alert(42)), .exited(.status(3)), .system,
    ]
    private static let frameCodes: [FrameError.Code] = [
        .illegalLength, .missingBody, .unexpectedBytes, .checksumMismatch, .repetitionMismatch, .responseMismatch,
        .unrelatedResponse, .unknownType, .malformed,
    ]

    /// Every cause with a message of its own, with `message`, with the meaning of its code, and with only its code.
    private static func causes(_ message: String) -> [any Error] {
        var causes: [any Error] = [HandshakeRefusal("wrong password")]
        for code in transportCodes {
            let meaning = DisconnectCause(TransportError(code, "")).meaning
            causes += [message, meaning, "\(code)", "\(code): \(message)", "details"].map { TransportError(code, $0) }
        }
        for code in frameCodes {
            causes += [message, "\(code)", "\(code): \(message)", "details"].map { FrameError(code, $0) }
        }
        for code in codes {
            causes.append(ClientError(code, .unknown, message, cause: TransportError(.reset, message)))
            causes.append(ClientError(code, .notSent, "other", cause: TransportError(.reset, "reset")))
        }
        return causes
    }

    /// What a text says more than once: the parts between semicolons and colons, without endpoints, numbers of tries, and
    /// the codes of errors, which a cause may share with its error.
    private func repetitions(in text: String) -> [String] {
        var parts: [String] = []
        for phrase in split(text, at: "; ") {
            for part in split(phrase, at: ": ") {
                let statement = split(split(part, at: " [")[0], at: " (try")[0]
                let isCode = statement.hasSuffix(")") && Self.codes.contains { statement.hasPrefix("\($0) (") }
                if !isCode { parts.append(statement) }
            }
        }
        return parts.indices.filter { parts[..<$0].contains(parts[$0]) }.map { parts[$0] }
    }

    /// A new code must be known, or its errors repeat themselves.
    @Test func everyCodeIsALabel() {
        let names =
            Self.codes.map { "\($0)" } + Self.frameCodes.map { "\($0)" } + DisconnectCause.allCases.map { "\($0)" }
            + Self.transportCodes.map { String("\($0)".prefix { $0 != "(" }) }
        for name in names { #expect(Phrases.codes.contains(name), "\(name)") }
    }

    @Test func phrasesAboutDifferentThingsAreKept() {
        for text in [
            "refused by a (quota): x; refused by b (quota): x", "user: missing; password: missing",
            "a.example:7000: refused; b.example:7000: refused",
            "connecting to [fe80::1]:7000: refused [a:7000]; connecting to [fe80::2]:7000: reset [a:7000]",
        ] {
            #expect([text].joinedPhrases == text)
        }
        #expect(["no server", "refused: no server [[fe80::1]:7000]"].joinedPhrases == "no server")
    }

    private func split(_ text: String, at separator: String) -> [String] {
        var (parts, rest) = ([String](), Array(text.unicodeScalars)[...])
        let pattern = Array(separator.unicodeScalars)
        var part = String.UnicodeScalarView()
        while let scalar = rest.first {
            if rest.starts(with: pattern) {
                parts.append(String(part))
                part = .init()
                rest = rest.dropFirst(pattern.count)
            } else {
                part.append(scalar)
                rest = rest.dropFirst()
            }
        }
        return parts + [String(part)]
    }

    @Test func noErrorRepeatsItsCause() {
        let message = "the server closed the connection"
        for code in Self.codes {
            for cause in Self.causes(message) {
                for tries in [1, 3] {
                    let error = ClientError(code, .unknown, message, endpoint: "db:7000", cause: cause).changed {
                        $0.tries = tries
                    }
                    for text in ["\(error)", ErrorText.of(error)] { #expect(repetitions(in: text) == [], "\(text)") }
                    // Nothing is lost.
                    #expect("\(error)".hasPrefix("\(code) (fate unknown): \(message)"))
                    if let cause = cause as? TransportError, cause.message == "details" {
                        // Without the names of modules and types. How a process ended is in its message.
                        let label =
                            switch cause.code {
                            case .tls(let failure): "tls(\(failure))"
                            case .proxy(let failure): "proxy(\(failure))"
                            case .exited: "exited"
                            default: "\(cause.code)"
                            }
                        #expect("\(error)".hasSuffix("; \(label): details") && !"\(error)".contains("Trunkline."))
                    }
                }
            }
        }
    }

    /// The cause of the last attempt was there twice: in the list of the endpoints, and behind it. And the log showed the text
    /// of an error that the caller's code had thrown.
    @Test func theLastCauseIsNotRepeatedBehindTheListOfEndpoints() {
        struct Own: Error, CustomStringConvertible { let description = "the token is hunter2" }
        var history = AttemptHistory()
        history.attemptFailed("a:1", Own())
        let last = TransportError(.refused, errno: 111, "connecting to 10.0.0.2:2: Connection refused")
        history.attemptFailed("b:2", last)
        history.lastCause = last
        let error = history.unavailable(hasEndpoints: true)
        for text in ["\(error)", ErrorText.of(error)] {
            #expect(
                text
                    == "unavailable (not sent): no endpoint could be reached; a:1: an error of the type Own; b:2: refused:"
                    + " connecting to 10.0.0.2:2: Connection refused [b:2]"
            )
        }
    }

    /// What is wrong with a request came after how long it had taken, that it was on no link, and where.
    @Test func aMistakeIsNamedBeforeWhenAndWhere() {
        let cause = FrameError(.malformed, "the body has 5 bytes, not 4")
        let now = Instant(nanoseconds: 0)
        var error = ClientError(
            .invalidRequest,
            .notSent,
            "the request of type 0x10 cannot be encoded",
            endpoint: "a:1",
            cause: cause
        )
        error = error.changed {
            let unsent = Timeline.Try(
                now,
                started: now,
                rested: nil,
                withoutLink: 0,
                admitted: nil,
                nil,
                firstPart: nil,
                ended: now,
                nil
            )
            $0.timeline = Timeline(id: 1, type: 16, tryCount: 1, tries: [unsent])
        }
        #expect(
            "\(error)"
                == "invalidRequest (not sent): the request of type 0x10 cannot be encoded; malformed: the body has 5 bytes, not 4"
                + " [a:1]"
        )
    }

    @Test func noReportRepeatsItsCause() {
        let message = "the server closed the connection"
        for error in Self.causes(message) {
            let cause = DisconnectCause(error)
            let report = DisconnectReport(
                endpoint: "db:7000",
                phase: .ready,
                endedBy: cause.party,
                cause: cause,
                error: error,
                session: 1,
                attempt: 1,
                lifetime: .seconds(1),
                requestsLost: 1,
                bytesUnsent: 0,
                pathBefore: .unknown,
                pathAfter: .unknown
            )
            for text in ["\(report)", report.explanation] { #expect(repetitions(in: text) == [], "\(text)") }
        }
    }

    @Test func theFateIsInWords() {
        #expect("\(ClientError(.timedOut, .unknown, "late"))" == "timedOut (fate unknown): late")
        #expect("\(ClientError(.timedOut, .notSent, "late"))" == "timedOut (not sent): late")
        #expect("\(ClientError(.rejected, .answered, "no"))" == "rejected (answered): no")
        #expect("\(ClientMetrics.Failure(.timedOut, .unknown))" == "timedOut (fate unknown)")
        // Exporters label their series with the names.
        #expect("\(ClientError.Fate.unknown)" == "unknown")
    }

    @Test func joinedPhrasesKeepTheirOrder() {
        #expect(["a; b", "reset: b", "d", "closed (not sent): a [db:1]"].joinedPhrases == "a; b; d")
        #expect(["", "a", ""].joinedPhrases == "a")
        #expect(
            ["connecting to db:1: refused", "connecting to db:2: refused"].joinedPhrases.hasSuffix("db:2: refused")
        )
        #expect([String]().joinedPhrases == "")
    }
}
