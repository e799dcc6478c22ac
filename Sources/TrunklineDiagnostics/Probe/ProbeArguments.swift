import TrunklineCore
import TrunklineLayouts

struct ProbeUsageError: Error {
    let message: String
}

struct ProbeProtocol: Sendable {
    var codec: (any FrameCodec)?
    let name: String
    var ping: (@Sendable (Client) async throws -> Void)?
}

struct ProbeArguments: Sendable {
    enum Preset: String, CaseIterable, Sendable {
        case none, standard, extended, checked
        case checkedHeader = "checked-header"

        /// Throws if the system has no SHA-256.
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

    static func usage(hasFixedProtocol: Bool) -> String {
        let format = """
              --preset NAME        the frames of the server: standard, extended, checked,
                                   checked-header, or none (default). With none, nothing
                                   is sent; the probe measures further connections
                                   instead of pings.
              --layout FILE        the frames of the server, as a layout in JSON

            """
        return """
            USAGE: \(Probe.programName) [OPTIONS] ENDPOINT

            Reports what a server does: how its name resolves, which of its addresses accept
            connections, TLS and its certificates, whether it accepts the login, and how
            long it takes to answer pings. ENDPOINT is host:port, [ipv6]:port or unix:path;
            with TLS, tls://host:port.

            \(hasFixedProtocol ? "" : format)\
              --pings N            the number of pings, or of further connections; 0 for
                                   none (default: 5)
              --interval TIME      the pause between them (default: 100ms)
              --timeout TIME       how long connecting may take, and each answer to a ping
                                   (default: 5s)
              --warn-days N        the health is degraded if a certificate expires within
                                   N days (default: 14)
              --roots FILE         trust the roots in this PEM file instead of those of
                                   the system
              --server-name NAME   the name in the certificate, if it is not the host of
                                   the endpoint
              --alpn NAMES         the application protocols to offer, separated by commas
              --certificate FILE   the client's certificate in PEM, if the server requires
                                   one; also needs --key
              --key FILE           its private key in PEM
              --insecure           report an invalid certificate of the server, but do not
                                   count it as a problem
              --json               print one JSON document instead of text
              --help               print this text

            TIME is a number of seconds, or has a unit: 500ms, 2s.

            EXIT STATUS
              0   healthy: connected, the certificate is valid, every ping was answered
              1   unhealthy: no address can be used, the certificate is not valid, a ping
                  was not answered, or the server ended the connection
              2   degraded: it works, but a certificate expires soon, or some of the
                  addresses fail
              3   unhealthy only because the server did not accept the login or the
                  certificate of this client
              64  the command line, or a file that it names, is not valid
            """
    }

    let endpoint: Endpoint
    private(set) var spoken = ProbeProtocol(name: Preset.none.rawValue)
    private(set) var pings = 5
    private(set) var interval = Duration.milliseconds(100)
    private(set) var timeout = Duration.seconds(5)
    private(set) var warnDays = 14
    private var options: ClientOptions
    private(set) var isJSON = false

    init?(_ words: some Sequence<String>) throws(ProbeUsageError) {
        try self.init(words, ClientOptions(), fixed: nil)
    }

    /// `nil` if the words after the name of the program ask for help. Without `fixed`, they choose the format.
    init?(
        _ words: some Sequence<String>,
        _ options: ClientOptions,
        fixed: ProbeProtocol?
    ) throws(ProbeUsageError) {
        self.options = options
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
                guard parts.count == 1 else { throw ProbeUsageError(message: "\(name) has no value") }
                flags.insert(name)
            } else if Self.valueNames.contains(name) || fixed == nil && Self.formatNames.contains(name) {
                guard let value = parts.count == 2 ? parts[1] : rest.popFirst() else {
                    throw ProbeUsageError(message: "the value after \(name) is missing")
                }
                guard values.updateValue(value, forKey: name) == nil else {
                    throw ProbeUsageError(message: "\(name) is given twice")
                }
            } else {
                throw ProbeUsageError(message: "unknown option \(name.escaped())")
            }
        }
        guard let text = endpoints.first else { throw ProbeUsageError(message: "the endpoint is missing") }
        guard endpoints.count == 1 else {
            throw ProbeUsageError(message: "one endpoint is expected, not \(endpoints.count)")
        }
        do { endpoint = try Endpoint(parsing: text) } catch { throw ProbeUsageError(message: "\(error)") }
        guard !endpoint.usesDatagrams else { throw ProbeUsageError(message: Probe.noDatagrams) }
        if flags.contains("--insecure") { self.options.tls.verification = .insecureNone }
        isJSON = flags.contains("--json")
        if let fixed { spoken = fixed } else { try takeFormat(values) }
        try take(values, isInsecure: flags.contains("--insecure"))
    }

    func probe() -> Probe {
        var probe = Probe(
            of: endpoint,
            speaking: spoken.codec,
            called: spoken.name,
            options: options,
            ping: spoken.ping
        )
        (probe.pings, probe.interval, probe.timeout) = (pings, interval, timeout)
        probe.certificateWarning = .seconds(warnDays * 86_400)
        return probe
    }

    private static let flagNames: Set = ["--insecure", "--json"]
    private static let formatNames: Set = ["--preset", "--layout"]
    private static let valueNames: Set = [
        "--pings", "--interval", "--timeout", "--warn-days", "--roots", "--server-name", "--alpn",
        "--certificate", "--key",
    ]

    private mutating func takeFormat(_ values: [String: String]) throws(ProbeUsageError) {
        if values["--preset"] != nil, values["--layout"] != nil {
            throw ProbeUsageError(message: "--preset and --layout exclude each other")
        }
        if let path = values["--layout"] {
            do throws(LayoutError) {
                spoken = ProbeProtocol(codec: try FrameLayout(json: try Self.text(ofFile: path)), name: "layout")
            } catch {
                throw ProbeUsageError(message: "--layout: \(path.escaped()): \(error)")
            }
        }
        guard let name = values["--preset"] else { return }
        guard let chosen = Preset(rawValue: name) else {
            let names = Preset.allCases.map(\.rawValue).joined(separator: ", ")
            throw ProbeUsageError(message: "unknown preset \(name.escaped()): use one of \(names)")
        }
        do throws(LayoutError) {
            spoken = ProbeProtocol(codec: try chosen.layout(), name: name)
        } catch {
            throw ProbeUsageError(message: "--preset: \(error)")
        }
    }

    private static func text(ofFile path: String) throws(LayoutError) -> String {
        switch contents(ofFile: path, limit: 1 << 20) {
        case .success(let bytes): return String(decoding: bytes, as: UTF8.self)
        case .failure(let error): throw LayoutError("the file", error.message)
        }
    }

    private mutating func take(_ values: [String: String], isInsecure: Bool) throws(ProbeUsageError) {
        pings = try Self.number(values, "--pings", 0...10_000) ?? pings
        warnDays = try Self.number(values, "--warn-days", 0...36_500) ?? warnDays
        interval = try Self.time(values, "--interval", from: .zero) ?? interval
        timeout = try Self.time(values, "--timeout", from: .milliseconds(1)) ?? timeout
        if let roots = try Self.file(values, "--roots") { options.tls.roots = .only(roots) }
        if let name = values["--server-name"] {
            guard !name.isEmpty, !name.utf8.contains(0) else {
                throw ProbeUsageError(message: "the name after --server-name is not valid")
            }
            options.tls.serverName = name
        }
        if let names = values["--alpn"] {
            options.tls.applicationProtocols = names.split(separator: ",").map(String.init)
        }
        switch (try Self.file(values, "--certificate"), try Self.file(values, "--key")) {
        case (nil, nil): break
        case (let certificates?, let key?):
            options.tls.identity = TLSIdentity(certificates: certificates, privateKey: key)
        default: throw ProbeUsageError(message: "--certificate and --key need each other")
        }
        guard !endpoint.isSecured || endpoint.host != nil || options.tls.serverName != nil else {
            throw ProbeUsageError(
                message: "a Unix socket or vsock with TLS needs --server-name, the name in the certificate"
            )
        }
        let ofTLS = ["--roots", "--server-name", "--alpn", "--certificate", "--key"].first { values[$0] != nil }
        guard endpoint.isSecured || ofTLS == nil && !isInsecure else {
            throw ProbeUsageError(message: "\(ofTLS ?? "--insecure") needs an endpoint with tls://")
        }
    }

    private static func number(
        _ values: [String: String],
        _ name: String,
        _ range: ClosedRange<Int>
    ) throws(ProbeUsageError) -> Int? {
        guard let text = values[name] else { return nil }
        guard let number = Int(strict: text), range.contains(number) else {
            throw ProbeUsageError(
                message: "\(name) is not a number from \(range.lowerBound) to \(range.upperBound): \(text.escaped())"
            )
        }
        return number
    }

    private static func time(
        _ values: [String: String],
        _ name: String,
        from minimum: Duration
    ) throws(ProbeUsageError) -> Duration? {
        guard let text = values[name] else { return nil }
        let (digits, unit) =
            text.hasSuffix("ms")
            ? (text.dropLast(2), 0.001) : text.hasSuffix("s") ? (text.dropLast(), 1) : (text[...], 1)
        guard let number = Double(strict: digits), number * unit <= 3_600 else {
            throw ProbeUsageError(
                message: "\(name) is not a time of at most an hour, such as 500ms or 2s: \(text.escaped())"
            )
        }
        let time = Duration.nanoseconds(Int64(number * unit * 1e9))
        guard time >= minimum else { throw ProbeUsageError(message: "\(name) must be positive") }
        return time
    }

    private static func file(_ values: [String: String], _ name: String) throws(ProbeUsageError) -> PEM? {
        guard let path = values[name] else { return nil }
        let file = PEM.file(path)
        do throws(TransportError) { _ = try file.load() } catch {
            throw ProbeUsageError(message: "\(name): \(error.message)")
        }
        return file
    }
}
