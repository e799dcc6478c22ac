import Foundation
import Trunkline

/// What the server did. The JSON document has the same structure; durations are in seconds.
struct ProbeReport: Encodable, Sendable {
    enum Health: String, Encodable, Sendable {
        case healthy, degraded, unhealthy

        var exitCode: Int32 {
            switch self {
            case .healthy: 0
            case .unhealthy: 1
            case .degraded: 2
            }
        }
    }

    /// Something that makes the server less than healthy.
    struct Problem: Encodable, Sendable {
        let severity: Health
        /// A stable name: that of an error, or `certificate_expires_soon`, `no_pong`, `no_address` or `go_away`.
        let code: String
        let message: String
        var address: String?
    }

    struct Failure: Encodable, Sendable {
        let code: String
        let message: String

        init(_ error: TransportError) { (code, message) = (error.code.name, error.message) }
        init(_ error: FrameError) { (code, message) = ("malformed_frame", "\(error)") }
    }

    /// The lookup of one family of addresses.
    struct Resolution: Encodable, Sendable {
        let family: String
        let duration: Double
        var addresses: [String] = []
        var error: Failure?

        init(_ family: AddressFamily, _ answer: NameLookup.Answer?, _ duration: Duration) {
            self.family = family == .ipv6 ? "ipv6" : "ipv4"
            self.duration = duration.inSeconds
            switch answer {
            case .success(let found)?: addresses = found.map(\.host)
            case .failure(let failure)?: error = Failure(failure)
            case nil: break
            }
        }
    }

    /// An attempt at one address.
    struct Address: Encodable, Sendable {
        enum Outcome: String, Encodable, Sendable {
            /// The link that a client would use.
            case won
            /// The link was usable, but later than that of another address.
            case usable
            /// The certificate is not valid, so a client would not use the link.
            case untrusted
            case failed
        }

        let address: String
        let result: Outcome
        /// When the attempt began, counted from the start of the probe.
        let began: Double
        /// How long it took until the socket was connected.
        let connect: Double?
        /// How long the TLS handshake took after that.
        let tls: Double?
        let error: Failure?
        let session: Session?

        init(_ link: ProbedLink, since start: Instant, isWinner: Bool) {
            address = link.address.description
            began = link.begun.since(start).inSeconds
            connect = link.connectTime?.inSeconds
            tls = link.securingTime?.inSeconds
            error = (link.failure ?? link.distrust).map { Failure($0) }
            session = link.session.map { Session($0) }
            result = link.failure != nil ? .failed : isWinner ? .won : link.distrust != nil ? .untrusted : .usable
        }
    }

    /// The agreed parameters of TLS.
    struct Session: Encodable, Sendable {
        let version: String
        let cipherSuite: String
        let applicationProtocol: String?
        let certificates: [Certificate]

        init(_ session: TLSSession) {
            version = session.version
            cipherSuite = session.cipherSuite
            applicationProtocol = session.applicationProtocol?.escaped()
            let now = Int64(Date().timeIntervalSince1970)
            certificates = session.certificates.map { Certificate($0, at: now) }
        }
    }

    struct Certificate: Encodable, Sendable {
        let subject: String
        let issuer: String
        let names: [String]
        let notBefore: String
        let notAfter: String
        /// The time until it expires, rounded down; negative if it has expired.
        let daysLeft: Double
        let fingerprint: String

        init(_ certificate: TLSCertificate, at now: Int64) {
            (subject, issuer, names) = (certificate.subject, certificate.issuer, certificate.names)
            notBefore = Self.text(certificate.notBefore)
            notAfter = Self.text(certificate.notAfter)
            daysLeft = (Double(certificate.notAfter - now) / 86_400 * 10).rounded(.down) / 10
            fingerprint = certificate.fingerprint
        }

        private static func text(_ seconds: Int64) -> String {
            Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601)
        }
    }

    struct Pings: Encodable, Sendable {
        var sent = 0
        private(set) var answered = 0
        private(set) var times: [Double] = []
        private(set) var roundTrip: Spread?
        private var durations: [Duration] = []

        mutating func add(_ time: Duration) {
            answered += 1
            times.append(time.inSeconds)
            durations.append(time)
            roundTrip = Spread(durations)
        }

        private enum CodingKeys: CodingKey { case sent, answered, times, roundTrip }
    }

    /// Further connections to the same address.
    struct Connections: Encodable, Sendable {
        private(set) var attempts = 0
        private(set) var succeeded = 0
        /// How many of them resumed the TLS session of an earlier one.
        private(set) var resumed: Int?
        private(set) var connect: Spread?
        private(set) var tls: Spread?
        private(set) var error: Failure?
        private var connectTimes: [Duration] = []
        private var tlsTimes: [Duration] = []

        mutating func add(_ link: ProbedLink) {
            attempts += 1
            if let failure = link.failure {
                error = Failure(failure)
                return
            }
            succeeded += 1
            if let session = link.session { resumed = (resumed ?? 0) + (session.isResumed ? 1 : 0) }
            if let time = link.connectTime { connectTimes.append(time) }
            if let time = link.securingTime { tlsTimes.append(time) }
            (connect, tls) = (Spread(connectTimes), Spread(tlsTimes))
        }

        private enum CodingKeys: CodingKey { case attempts, succeeded, resumed, connect, tls, error }
    }

    /// The link on which the probe sent its pings, or that it kept open without sending anything.
    struct Link: Encodable, Sendable {
        let address: String
        let bytesReceived: Int
        /// The number of received frames by kind, without the answers to pings.
        let framesReceived: [String: Int]
        /// How the link ended, unless the probe closed it.
        let ending: Failure?
        /// How long it was usable before it ended.
        let lifetime: Double?
        /// Why the bytes that the server sent are not frames of the preset.
        let malformation: Failure?

        init(_ link: ProbedLink) {
            address = link.address.description
            bytesReceived = link.exchange.bytesReceived
            framesReceived = link.exchange.frames
            ending = link.exchange.ending.map { Failure($0.error) }
            lifetime = link.exchange.ending.flatMap { end in link.usable.map { end.at.since($0).inSeconds } }
            malformation = link.exchange.malformation.map { Failure($0) }
        }
    }

    /// The version of the document. It grows if the meaning of a name changes; new names may appear at any time.
    let schema = 1
    let endpoint: String
    let began: String
    private(set) var health = Health.healthy
    private(set) var problems: [Problem] = []
    let preset: String
    var resolution: [Resolution] = []
    var addresses: [Address] = []
    var pings: Pings?
    var connections: Connections?
    var link: Link?
    var duration = 0.0
    private let isInsecure: Bool
    private let warnDays: Int

    init(_ arguments: Arguments, begun: Date) {
        endpoint = arguments.endpoint.description
        began = begun.formatted(.iso8601)
        preset = arguments.preset.rawValue
        isInsecure = arguments.isInsecure
        warnDays = arguments.warnDays
    }

    private enum CodingKeys: CodingKey {
        case schema, endpoint, began, health, problems, preset, resolution, addresses, pings, connections, link,
            duration
    }

    var json: String {
        get throws {
            let encoder = JSONEncoder()
            encoder.keyEncodingStrategy = .convertToSnakeCase
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
            return String(decoding: try encoder.encode(self), as: UTF8.self)
        }
    }
}

// MARK: - Health

extension ProbeReport {
    /// Sets `problems` and `health` by what was found.
    mutating func judge() {
        let winner = addresses.first { $0.result == .won }
        if addresses.isEmpty {
            let errors = resolution.compactMap(\.error)
            let message = errors.first?.message ?? "the name has no address"
            add(.unhealthy, errors.first?.code ?? "no_address", message)
        }
        for address in addresses { judge(address, hasWinner: winner != nil) }
        if let link { judge(link) }
        if let pings, pings.answered < pings.sent, link?.malformation == nil, link?.ending == nil {
            add(.unhealthy, "no_pong", "no answer to ping \(pings.sent)", link?.address)
        }
        if let connections, let error = connections.error {
            let severity: Health = connections.succeeded == 0 ? .unhealthy : .degraded
            add(severity, error.code, "a further connection failed: \(error.message)", link?.address)
        }
    }

    private mutating func judge(_ address: Address, hasWinner: Bool) {
        switch address.result {
        case .failed, .untrusted:
            guard let error = address.error else { break }
            // No route to an address says something about this host; often it has no IPv6.
            let isOurs = error.code == "unreachable" || error.code == "invalid_address"
            if address.result == .untrusted, isInsecure { break }
            if hasWinner, isOurs { break }
            add(hasWinner ? .degraded : .unhealthy, error.code, error.message, address.address)
        case .won, .usable: break
        }
        // Servers may also present an expired certificate that no client needs, such as a cross-signed root.
        let unexpired = address.session?.certificates.filter { $0.daysLeft >= 0 } ?? []
        guard let certificate = unexpired.min(by: { $0.daysLeft < $1.daysLeft }), !isInsecure,
            certificate.daysLeft < Double(warnDays)
        else { return }
        let days = "\(Int(certificate.daysLeft)) \(Int(certificate.daysLeft) == 1 ? "day" : "days")"
        let message = "the certificate \(certificate.subject) expires in \(days), at \(certificate.notAfter)"
        add(.degraded, "certificate_expires_soon", message, address.address)
    }

    private mutating func judge(_ link: Link) {
        if let malformation = link.malformation {
            let message = "the server does not send frames of the preset \(preset): \(malformation.message)"
            add(.unhealthy, malformation.code, message, link.address)
        }
        if link.framesReceived["go_away"] != nil {
            add(.degraded, "go_away", "the server has announced its shutdown", link.address)
        }
        if let ending = link.ending {
            let after = link.lifetime.map { " after \(Duration.seconds($0).text)" } ?? ""
            add(.unhealthy, ending.code, "\(ending.message)\(after)", link.address)
        }
    }

    private mutating func add(_ severity: Health, _ code: String, _ message: String, _ address: String? = nil) {
        problems.append(Problem(severity: severity, code: code, message: message, address: address))
        if severity == .unhealthy || health == .healthy { health = severity }
    }
}

extension ProbedLink {
    var connectTime: Duration? { connected?.since(begun) }

    /// How long the TLS handshake took; `nil` without one.
    var securingTime: Duration? {
        guard session != nil, let connected, let usable else { return nil }
        return usable.since(connected)
    }
}

// MARK: - Names

extension TransportError.Code {
    /// The name of the code in the document. It does not change between versions.
    var name: String {
        switch self {
        case .nameResolutionFailed: "name_resolution_failed"
        case .refused: "refused"
        case .unreachable: "unreachable"
        case .pathLost: "path_lost"
        case .timedOut: "timed_out"
        case .reset: "reset"
        case .closedByPeer: "closed_by_peer"
        case .closedLocally: "closed_locally"
        case .halfOpen: "half_open"
        case .invalidAddress: "invalid_address"
        case .system: "system"
        case .tls(let failure): "tls_\(failure.name)"
        }
    }
}

extension TLSFailure {
    fileprivate var name: String {
        switch self {
        case .libraryMissing: "library_missing"
        case .configuration: "configuration"
        case .noPassphrase: "no_passphrase"
        case .untrusted: "untrusted"
        case .expired: "expired"
        case .notYetValid: "not_yet_valid"
        case .nameMismatch: "name_mismatch"
        case .wrongPurpose: "wrong_purpose"
        case .revoked: "revoked"
        case .pinMismatch: "pin_mismatch"
        case .protocolVersion: "protocol_version"
        case .noApplicationProtocol: "no_application_protocol"
        case .alert: "alert"
        case .notTLS: "not_tls"
        case .truncated: "truncated"
        case .protocolViolation: "protocol_violation"
        }
    }
}
