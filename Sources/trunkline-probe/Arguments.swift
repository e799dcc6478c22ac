import Foundation
import Trunkline

/// The error for a command line that cannot be used.
struct UsageError: Error {
    let message: String
}

/// The parsed command line.
struct Arguments: Sendable {
    /// The frames that the server speaks.
    enum Preset: String, CaseIterable, Sendable {
        case none, standard, extended, checked
        case checkedHeader = "checked-header"

        /// The layout; `nil` for `none`. Throws if the system has no SHA-256.
        func layout() throws(LayoutError) -> FrameLayout? {
            switch self {
            case .none: nil
            case .standard: .standard
            case .extended: try .extended
            case .checked: .checked
            case .checkedHeader: .checked(over: .headerAndBody)
            }
        }
    }

    static let usage = """
        USAGE: trunkline-probe [OPTIONS] ENDPOINT

        Reports what a server does: how its name resolves, which of its addresses accept connections, TLS and its
        certificates, and how long it takes to answer pings. ENDPOINT is host:port, [ipv6]:port or unix:path; with TLS,
        tls://host:port.

          --preset NAME        the frames of the server: standard, extended, checked, checked-header, or none (default).
                               With none, nothing is sent; the probe measures further connections instead of pings.
          --pings N            the number of pings, or of further connections; 0 for none (default: 5)
          --interval TIME      the pause between them (default: 100ms)
          --timeout TIME       how long connecting may take, and each answer to a ping (default: 5s)
          --warn-days N        the health is degraded if a certificate expires within N days (default: 14)
          --roots FILE         trust the roots in this PEM file instead of those of the system
          --server-name NAME   the name in the certificate, if it is not the host of the endpoint
          --alpn NAMES         the application protocols to offer, separated by commas
          --certificate FILE   the client's certificate in PEM, if the server requires one; also needs --key
          --key FILE           its private key in PEM
          --insecure           report an invalid certificate, but do not count it as a problem
          --json               print one JSON document instead of text
          --help               print this text

        TIME is a number of seconds, or has a unit: 500ms, 2s.

        EXIT STATUS
          0   healthy: connected, the certificate is valid, every ping was answered
          1   unhealthy: no address can be used, the certificate is not valid, a ping was not answered, or the server
              ended the connection
          2   degraded: it works, but a certificate expires soon, or some of the addresses fail
          64  the command line is not valid
        """

    let endpoint: Endpoint
    private(set) var preset = Preset.none
    private(set) var pings = 5
    private(set) var interval = Duration.milliseconds(100)
    private(set) var timeout = Duration.seconds(5)
    private(set) var warnDays = 14
    private(set) var roots: PEM?
    private(set) var serverName: String?
    private(set) var applicationProtocols: [String] = []
    private(set) var identity: TLSIdentity?
    private(set) var isInsecure = false
    private(set) var isJSON = false

    /// Parses the words after the name of the program. Returns `nil` if they ask for help.
    init?(_ words: some Sequence<String>) throws(UsageError) {
        var rest = Array(words)[...]
        if rest.contains("--help") || rest.contains("-h") { return nil }
        var values: [String: String] = [:]
        var flags: Set<String> = []
        var endpoints: [String] = []
        while let word = rest.popFirst() {
            guard word.hasPrefix("-"), word != "-" else {
                endpoints.append(word)
                continue
            }
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let name = parts[0]
            if Self.flagNames.contains(name) {
                guard parts.count == 1 else { throw UsageError(message: "\(name) has no value") }
                flags.insert(name)
            } else if Self.valueNames.contains(name) {
                guard let value = parts.count == 2 ? parts[1] : rest.popFirst() else {
                    throw UsageError(message: "the value after \(name) is missing")
                }
                guard values.updateValue(value, forKey: name) == nil else {
                    throw UsageError(message: "\(name) is given twice")
                }
            } else {
                throw UsageError(message: "unknown option \(name.escaped())")
            }
        }
        guard let text = endpoints.first else { throw UsageError(message: "the endpoint is missing") }
        guard endpoints.count == 1 else {
            throw UsageError(message: "one endpoint is expected, not \(endpoints.count)")
        }
        do { endpoint = try Endpoint(parsing: text) } catch { throw UsageError(message: "\(error)") }
        isInsecure = flags.contains("--insecure")
        isJSON = flags.contains("--json")
        try take(values)
    }

    private static let flagNames: Set = ["--insecure", "--json"]
    private static let valueNames: Set = [
        "--preset", "--pings", "--interval", "--timeout", "--warn-days", "--roots", "--server-name", "--alpn",
        "--certificate", "--key",
    ]

    private mutating func take(_ values: [String: String]) throws(UsageError) {
        if let name = values["--preset"] {
            guard let chosen = Preset(rawValue: name) else {
                let names = Preset.allCases.map(\.rawValue).joined(separator: ", ")
                throw UsageError(message: "unknown preset \(name.escaped()): use one of \(names)")
            }
            preset = chosen
        }
        pings = try Self.number(values, "--pings", 0...10_000) ?? pings
        warnDays = try Self.number(values, "--warn-days", 0...36_500) ?? warnDays
        interval = try Self.time(values, "--interval", from: .zero) ?? interval
        timeout = try Self.time(values, "--timeout", from: .milliseconds(1)) ?? timeout
        roots = try Self.file(values, "--roots")
        serverName = values["--server-name"]
        if let serverName {
            guard !serverName.isEmpty, !serverName.utf8.contains(0) else {
                throw UsageError(message: "the name after --server-name is not valid")
            }
        }
        applicationProtocols = (values["--alpn"] ?? "").split(separator: ",").map(String.init)
        switch (try Self.file(values, "--certificate"), try Self.file(values, "--key")) {
        case (nil, nil): break
        case (let certificates?, let key?): identity = TLSIdentity(certificates: certificates, privateKey: key)
        default: throw UsageError(message: "--certificate and --key need each other")
        }
        let isUnix = if case .unix = endpoint.target { true } else { false }
        guard !endpoint.isSecured || !isUnix || serverName != nil else {
            throw UsageError(message: "a Unix socket with TLS needs --server-name, the name in the certificate")
        }
        let ofTLS = ["--roots", "--server-name", "--alpn", "--certificate", "--key"].first { values[$0] != nil }
        guard endpoint.isSecured || ofTLS == nil && !isInsecure else {
            throw UsageError(message: "\(ofTLS ?? "--insecure") needs an endpoint with tls://")
        }
    }

    private static func number(
        _ values: [String: String],
        _ name: String,
        _ range: ClosedRange<Int>
    ) throws(UsageError) -> Int? {
        guard let text = values[name] else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw UsageError(
                message: "\(name) is not a number from \(range.lowerBound) to \(range.upperBound): \(text.escaped())"
            )
        }
        return number
    }

    /// A time of at most an hour.
    private static func time(
        _ values: [String: String],
        _ name: String,
        from minimum: Duration
    ) throws(UsageError) -> Duration? {
        guard let text = values[name] else { return nil }
        let (digits, unit) =
            text.hasSuffix("ms")
            ? (text.dropLast(2), 0.001) : text.hasSuffix("s") ? (text.dropLast(), 1) : (text[...], 1)
        guard let number = Double(digits), number.isFinite, number >= 0, number * unit <= 3_600 else {
            throw UsageError(
                message: "\(name) is not a time of at most an hour, such as 500ms or 2s: \(text.escaped())"
            )
        }
        let time = Duration.nanoseconds(Int64(number * unit * 1e9))
        guard time >= minimum else { throw UsageError(message: "\(name) must be positive") }
        return time
    }

    /// Checks that the file can be read.
    private static func file(_ values: [String: String], _ name: String) throws(UsageError) -> PEM? {
        guard let path = values[name] else { return nil }
        let file = PEM.file(path)
        do throws(TransportError) { _ = try file.load() } catch {
            throw UsageError(message: "\(name): \(error.message)")
        }
        return file
    }
}
