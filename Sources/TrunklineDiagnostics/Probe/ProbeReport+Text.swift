import TrunklineCore

extension ProbeReport {
    /// The report for people: a fact a line, in sections, with a line end at the end.
    public var text: String {
        var lines = ["\(endpoint): \(health.rawValue)"]
        lines += problems.map { problem in
            "  \(problem.severity.rawValue): \(problem.message)" + (problem.address.map { " [\($0)]" } ?? "")
        }
        func section(_ title: String, _ rows: [[String]]) {
            guard !rows.isEmpty else { return }
            lines += ["", title] + Self.aligned(rows).map { "  " + $0 }
        }
        section("Name", resolution.map(\.row))
        section("Addresses", addresses.map(\.row))
        for (shown, addresses) in sessions {
            section("TLS with \(addresses.joined(separator: ", "))", shown.rows)
        }
        if let clientCertificate { section("Certificate of this client", clientCertificate.rows) }
        if let login { section("Handshake", login.rows) }
        if let pings { section("Pings (\(format))", pings.rows) }
        if let connections { section("Further connections", connections.rows) }
        if let link { section("Link to \(link.address)", link.rows) }
        return lines.joined(separator: "\n") + "\n"
    }

    /// Servers with the same certificates share a session.
    private var sessions: [(Session, [String])] {
        var found: [(session: Session, addresses: [String])] = []
        for address in addresses {
            guard let session = address.session else { continue }
            if let index = found.firstIndex(where: { $0.session.isLike(session) }) {
                found[index].addresses.append(address.address)
            } else {
                found.append((session, [address.address]))
            }
        }
        return found.map { ($0.session, $0.addresses) }
    }

    private static func aligned(_ rows: [[String]]) -> [String] {
        let count = rows.map(\.count).max() ?? 0
        let widths = (0..<count).map { column in
            rows.filter { $0.count > column + 1 }.map { $0[column].count }.max() ?? 0
        }
        return rows.map { row in
            row.enumerated().map { column, cell in
                let padding = column + 1 < row.count ? max(0, widths[column] - cell.count) : 0
                return cell + String(repeating: " ", count: padding)
            }.joined(separator: "  ")
        }
    }
}

private func text(_ seconds: Double?) -> String { seconds.map { Duration.seconds($0).text } ?? "-" }

extension Spread {
    fileprivate var row: [String] {
        [
            "min \(text(minimum))", "median \(text(median))", "mean \(text(mean))", "max \(text(maximum))",
            "stddev \(text(deviation))",
        ]
    }
}

extension ProbeReport.Resolution {
    fileprivate var row: [String] {
        let found = addresses.isEmpty ? "no address" : addresses.joined(separator: ", ")
        return [family == "ipv6" ? "IPv6" : "IPv4", text(duration), error?.message ?? found]
    }
}

extension ProbeReport.Address {
    fileprivate var row: [String] {
        var times = [connect.map { "connected in \(text($0))" }, tls.map { "TLS in \(text($0))" }].compactMap(\.self)
        if let error { times.append(error.message) }
        return [address, "began at \(text(began))", result.rawValue, times.joined(separator: ", ")]
    }
}

extension ProbeReport.Session {
    fileprivate func isLike(_ other: Self) -> Bool {
        version == other.version && cipherSuite == other.cipherSuite
            && applicationProtocol == other.applicationProtocol
            && certificates.map(\.fingerprint) == other.certificates.map(\.fingerprint)
    }

    fileprivate var rows: [[String]] {
        var rows = [["version", version], ["cipher suite", cipherSuite]]
        rows.append(["application protocol", applicationProtocol ?? "none"])
        for (index, certificate) in certificates.enumerated() {
            rows.append(["certificate \(index + 1)", certificate.subject])
            rows += certificate.rows.dropFirst().map { ["  \($0[0])", $0[1]] }
        }
        return rows
    }
}

extension ProbeReport.Certificate {
    fileprivate var rows: [[String]] {
        var rows = [["subject", subject], ["issuer", issuer]]
        if !names.isEmpty { rows.append(["names", names.joined(separator: ", ")]) }
        let remaining = remaining.map { ", \($0)" } ?? ""
        return rows + [["valid", "\(notBefore) to \(notAfter)\(remaining)"], ["SHA-256", fingerprint]]
    }
}

extension ProbeReport.Login {
    fileprivate var rows: [[String]] {
        if let error { return [["failed", error.message]] }
        return duration.map { [["completed", "in \(text($0))"]] } ?? []
    }
}

extension ProbeReport.Pings {
    fileprivate var rows: [[String]] {
        [["answered", "\(answered) of \(sent)"]] + (roundTrip.map { [["round trip"] + $0.row] } ?? [])
    }
}

extension ProbeReport.Connections {
    fileprivate var rows: [[String]] {
        var rows = [
            ["succeeded", "\(succeeded) of \(attempts)" + (resumed.map { ", \($0) with a resumed session" } ?? "")]
        ]
        if let connect { rows.append(["connect"] + connect.row) }
        if let tls { rows.append(["TLS"] + tls.row) }
        return rows
    }
}

extension ProbeReport.Link {
    fileprivate var rows: [[String]] {
        let frames = framesReceived.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
        var rows = [["received", "\(bytesReceived) bytes"]]
        if !frames.isEmpty { rows.append(["other frames", frames]) }
        if let ending { rows.append(["ended", "after \(text(lifetime)): \(ending.message)"]) }
        return rows
    }
}
