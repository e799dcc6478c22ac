import TrunklineCore

/// The report for programs. Members without a value are absent.
extension ProbeReport {
    /// The report as one JSON document. <doc:/Trunkline/Probing> describes its members.
    public var json: String {
        JSONValue.members(
            ("schema", .number("1")),
            ("endpoint", .text(endpoint)),
            ("preset", .text(format)),
            ("began", began.map { .text($0) }),
            ("duration", .number(duration)),
            ("health", .text(health.rawValue)),
            ("problems", .list(problems.map(\.json))),
            ("resolution", .list(resolution.map(\.json))),
            ("addresses", .list(addresses.map(\.json))),
            ("client_certificate", clientCertificate?.json),
            ("handshake", login?.json),
            ("pings", pings?.json),
            ("connections", connections?.json),
            ("link", link?.json)
        ).prettyText
    }
}

extension ProbeReport.Problem {
    fileprivate var json: JSONValue {
        .members(
            ("severity", .text(severity.rawValue)),
            ("code", .text(code)),
            ("message", .text(message)),
            ("address", address.map { .text($0) }),
            ("is_rejection", .flag(isRejection))
        )
    }
}

extension ProbeReport.Failure {
    fileprivate var json: JSONValue { .members(("code", .text(code)), ("message", .text(message))) }
}

extension ProbeReport.Resolution {
    fileprivate var json: JSONValue {
        .members(
            ("family", .text(family)),
            ("duration", .number(duration)),
            ("addresses", .texts(addresses)),
            ("error", error?.json)
        )
    }
}

extension ProbeReport.Address {
    fileprivate var json: JSONValue {
        .members(
            ("address", .text(address)),
            ("result", .text(result.rawValue)),
            ("began", .number(began)),
            ("connect", .number(connect)),
            ("tls", .number(tls)),
            ("error", error?.json),
            ("session", session?.json)
        )
    }
}

extension ProbeReport.Session {
    fileprivate var json: JSONValue {
        .members(
            ("version", .text(version)),
            ("cipher_suite", .text(cipherSuite)),
            ("application_protocol", applicationProtocol.map { .text($0) }),
            ("certificates", .list(certificates.map(\.json)))
        )
    }
}

extension ProbeReport.Certificate {
    fileprivate var json: JSONValue {
        .members(
            ("subject", .text(subject)),
            ("issuer", .text(issuer)),
            ("names", .texts(names)),
            ("not_before", .text(notBefore)),
            ("not_after", .text(notAfter)),
            ("days_left", .number(daysLeft)),
            ("fingerprint", .text(fingerprint))
        )
    }
}

extension ProbeReport.Login {
    fileprivate var json: JSONValue { .members(("duration", .number(duration)), ("error", error?.json)) }
}

extension ProbeReport.Pings {
    fileprivate var json: JSONValue {
        .members(
            ("sent", .number(sent)),
            ("answered", .number(answered)),
            ("times", .list(times.map { .number("\($0)") })),
            ("round_trip", roundTrip?.json),
            ("error", error?.json)
        )
    }
}

extension ProbeReport.Connections {
    fileprivate var json: JSONValue {
        .members(
            ("attempts", .number(attempts)),
            ("succeeded", .number(succeeded)),
            ("resumed", resumed.map { .number($0) }),
            ("connect", connect?.json),
            ("tls", tls?.json),
            ("error", error?.json)
        )
    }
}

extension ProbeReport.Link {
    fileprivate var json: JSONValue {
        let frames = framesReceived.sorted { $0.key < $1.key }.map { (name: $0.key, value: JSONValue.number($0.value)) }
        return .members(
            ("address", .text(address)),
            ("bytes_received", .number(bytesReceived)),
            ("frames_received", .object(frames)),
            ("ending", ending?.json),
            ("lifetime", .number(lifetime)),
            ("malformation", malformation?.json)
        )
    }
}

extension Spread {
    fileprivate var json: JSONValue {
        .members(
            ("min", .number(minimum)),
            ("median", .number(median)),
            ("mean", .number(mean)),
            ("max", .number(maximum)),
            ("stddev", .number(deviation))
        )
    }
}

extension JSONValue {
    fileprivate static func members(_ members: (name: String, value: JSONValue?)...) -> JSONValue {
        .object(members.compactMap { member in member.value.map { (member.name, $0) } })
    }

    fileprivate static func texts(_ texts: [String]) -> JSONValue { .list(texts.map { .text($0) }) }

    fileprivate static func number(_ number: Int) -> JSONValue { .number("\(number)") }

    /// `nil` for a number that JSON does not have.
    fileprivate static func number(_ number: Double?) -> JSONValue? {
        number.flatMap { $0.isFinite ? .number("\($0)") : nil }
    }

    fileprivate var prettyText: String { text(indentedBy: "") }

    private func text(indentedBy indentation: String) -> String {
        let inner = indentation + "  "
        func lines(_ open: String, _ parts: [String], _ close: String) -> String {
            if parts.isEmpty { return open + close }
            return "\(open)\n" + parts.map { inner + $0 }.joined(separator: ",\n") + "\n\(indentation)\(close)"
        }
        return switch self {
        case .null: "null"
        case .flag(let flag): "\(flag)"
        case .number(let number): number
        case .text(let text): JSONText.quoted(text)
        case .list(let elements): lines("[", elements.map { $0.text(indentedBy: inner) }, "]")
        case .object(let members):
            lines("{", members.map { "\(JSONText.quoted($0.name)): \($0.value.text(indentedBy: inner))" }, "}")
        }
    }
}
