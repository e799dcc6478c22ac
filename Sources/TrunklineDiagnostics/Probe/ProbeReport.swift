import TrunklineCore

/// What a server did when it was probed: the result of ``Probe``.
public struct ProbeReport: Sendable {
    /// Whether a client can use the server.
    @nonexhaustive
    public enum Health: String, Sendable, Hashable {
        /// It works.
        case healthy
        /// It works, but a problem may become worse, such as a certificate that expires soon.
        case degraded
        /// A client cannot use it.
        case unhealthy
    }

    /// Something that makes the server less than healthy.
    public struct Problem: Sendable, Hashable {
        /// The health that the problem leaves: `degraded` or `unhealthy`.
        public let severity: Health
        /// The name of the problem, which does not change between versions. <doc:/Trunkline/Probing> lists the names.
        public let code: String
        /// The problem in one line.
        public let message: String
        /// The address of the server that has the problem; `nil` if it concerns no single address.
        public let address: String?
        /// Whether the server works, but did not accept the login or the certificate of this client.
        public let isRejection: Bool
    }

    /// The health: that of the worst problem.
    public private(set) var health = Health.healthy
    /// Everything that is not healthy, in the order in which it was found.
    public private(set) var problems: [Problem] = []
    /// The exit code of a program that reports this: 0 healthy, 1 unhealthy, 2 degraded, 3 unhealthy only because the
    /// server did not accept the login or the certificate of this client.
    public var exitCode: Int32 {
        switch health {
        case .healthy: 0
        case .degraded: 2
        default: problems.contains { $0.severity == .unhealthy && !$0.isRejection } ? 1 : 3
        }
    }

    let endpoint: String
    private let endpointWithTLS: String
    let began: String?
    let format: String
    var resolution: [Resolution] = []
    var addresses: [Address] = []
    var login: Login?
    var pings: Pings?
    var connections: Connections?
    var link: Link?
    var duration = 0.0
    var clientCertificate: Certificate?
    /// `nil` if the probe did not find out.
    var speaksTLS: Bool?
    /// A problem says already that the certificate of this client is not valid.
    private var hasNamedCertificate = false

    init(_ probe: Probe, at time: Duration?) {
        endpoint = probe.endpoint.description
        endpointWithTLS = probe.endpoint.secured().description
        began = time.map { CalendarTime($0).text(decimals: 0) }
        format = probe.format
    }
}

extension ProbeReport {
    var mayExpectTLS: Bool { (login?.clue ?? link?.clue)?.mayExpectTLS ?? false }

    mutating func judge(certificateWarning: Duration, isInsecure: Bool) {
        let warnDays = certificateWarning.inSeconds / 86_400
        let winner = addresses.first { $0.result == .won }
        if addresses.isEmpty {
            let errors = resolution.compactMap(\.error)
            let message = errors.first?.message ?? "the name has no address"
            add(.unhealthy, errors.first?.code ?? "no_address", message)
        }
        for address in addresses {
            judge(address, hasWinner: winner != nil, warnDays: warnDays, isInsecure: isInsecure)
        }
        if let login, let error = login.error { add(.unhealthy, error, login.clue, winner?.address) }
        if let link { judge(link) }
        if let pings { judge(pings) }
        if let connections, let error = connections.error {
            let severity: Health = connections.succeeded == 0 ? .unhealthy : .degraded
            add(severity, error.code, "a further connection failed: \(error.message)", link?.address)
        }
        if let clientCertificate { judge(clientCertificate, warnDays: warnDays) }
    }

    private mutating func judge(_ address: Address, hasWinner: Bool, warnDays: Double, isInsecure: Bool) {
        switch address.result {
        case .failed, .untrusted:
            guard let error = address.error else { break }
            // No route to an address says something about this host; often it has no IPv6.
            let isOurs = error.code == "unreachable" || error.code == "invalid_address"
            if address.result == .untrusted, isInsecure { break }
            if hasWinner, isOurs { break }
            add(hasWinner ? .degraded : .unhealthy, error, address.clue, address.address)
        case .won, .usable: break
        }
        // Servers may also present an expired certificate that no client needs, such as a cross-signed root.
        let known = (address.session?.certificates ?? []).compactMap { certificate in
            certificate.daysLeft.map { (certificate: certificate, daysLeft: $0) }
        }
        let first = known.filter { $0.daysLeft >= 0 }.min { $0.daysLeft < $1.daysLeft }
        guard let (certificate, daysLeft) = first, !isInsecure, daysLeft < warnDays else { return }
        let message = "the certificate \(certificate.subject) \(certificate.expiry)"
        add(.degraded, "certificate_expires_soon", message, address.address)
    }

    private mutating func judge(_ link: Link) {
        if let malformation = link.malformation {
            let what = "the server does not send frames of the format \(format)"
            add(.unhealthy, malformation.prefixed(what), link.clue, link.address)
        }
        if link.framesReceived["go_away"] != nil {
            add(.degraded, "go_away", "the server has announced its shutdown", link.address)
        }
        if let ending = link.ending {
            let after = link.lifetime.map { " after \(Duration.seconds($0).text)" } ?? ""
            add(.unhealthy, ending.suffixed(after), link.clue, link.address)
        }
    }

    private mutating func judge(_ pings: Pings) {
        guard link?.malformation == nil, link?.ending == nil else { return }
        if let error = pings.error, error.code != "timed_out" {
            add(.unhealthy, error.prefixed("ping \(pings.sent) failed"), nil, link?.address)
        } else if pings.answered < pings.sent, let stray = pings.stray {
            let what =
                "no answer to ping \(pings.sent) with its serial number, \(stray.ping); one came with \(stray.pong)"
            add(.unhealthy, "wrong_serial", what, link?.address)
        } else if pings.answered < pings.sent {
            add(.unhealthy, "no_pong", "no answer to ping \(pings.sent)", link?.address)
        }
    }

    private mutating func judge(_ own: Certificate, warnDays: Double) {
        if let problem = own.problem {
            // Already named as the likely reason of a failure.
            if hasNamedCertificate { return }
            add(.degraded, "client_certificate_invalid", "the certificate of this client is not valid: \(problem)")
        } else if let daysLeft = own.daysLeft, daysLeft < warnDays {
            let message = "the certificate of this client, \(own.subject), \(own.expiry)"
            add(.degraded, "client_certificate_expires_soon", message)
        }
    }

    private mutating func add(_ severity: Health, _ code: String, _ message: String, _ address: String? = nil) {
        add(Problem(severity: severity, code: code, message: message, address: address, isRejection: false))
    }

    private mutating func add(_ severity: Health, _ failure: Failure, _ clue: LinkEndClue?, _ address: String?) {
        var (code, message, isRejection) = (failure.code, failure.message, failure.isRejection)
        if failure.isOfClientCertificate {
            // The server says what it refuses, but not always why.
            if let problem = clientCertificate?.problem {
                message += "; the certificate of this client is not valid: \(problem)"
                hasNamedCertificate = true
            }
        } else if let suspicion = clue?.suspicion {
            message += "; \(suspicion)"
            (code, isRejection) = ("client_certificate_refused", true)
            hasNamedCertificate = true
        } else if clue?.mayExpectTLS == true, speaksTLS == true {
            message += "; the port speaks TLS: use \(endpointWithTLS)"
            (code, isRejection) = ("tls_expected", false)
        } else if clue?.mayExpectTLS != true || speaksTLS == nil, let guess = clue?.guess {
            message += "; \(guess)"
        } else if failure.code == "tls_not_tls" {
            message += "; does this port speak TLS?"
        } else if failure.code == "handshake_closed" {
            message += "; the server may have refused the login without saying so"
        }
        add(
            Problem(
                severity: severity,
                code: code,
                message: message,
                address: address,
                isRejection: isRejection && severity == .unhealthy
            )
        )
    }

    private mutating func add(_ problem: Problem) {
        problems.append(problem)
        if problem.severity == .unhealthy || health == .healthy { health = problem.severity }
    }
}
