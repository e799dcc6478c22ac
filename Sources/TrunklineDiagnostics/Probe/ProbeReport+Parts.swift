import TrunklineCore

/// What the probe found, step by step. Durations are in seconds.
extension ProbeReport {
    package struct Failure: Sendable {
        let code: String
        let message: String
        /// The server works, but did not accept this client.
        private(set) var isRejection = false
        private(set) var isOfClientCertificate = false

        init(code: String, _ message: String, isRejection: Bool = false) {
            (self.code, self.message, self.isRejection) = (code, message, isRejection)
        }

        init(_ error: TransportError) {
            (code, message) = (error.code.name, error.message)
            // Alerts about the certificate of the client (RFC 8446 §6.2).
            if case .tls(.alert(let number)) = error.code, (42...49).contains(number) || number == 116 {
                (isRejection, isOfClientCertificate) = (true, true)
            }
        }

        init(_ error: FrameError) {
            (code, message) = ("malformed_frame", "\(error)")
        }

        init(any error: any Error) {
            switch error {
            case let error as TransportError: self.init(error)
            case let error as FrameError: self.init(error)
            case let error as ClientError: self.init(code: "\(error.code)".snakeCase, "\(error)")
            default: self.init(code: "failed", "\(error)".asMessage)
            }
        }

        func prefixed(_ text: String) -> Failure { changed { "\(text): \($0)" } }

        func suffixed(_ text: String) -> Failure { changed { $0 + text } }

        private func changed(_ change: (String) -> String) -> Failure {
            var failure = Failure(code: code, change(message), isRejection: isRejection)
            failure.isOfClientCertificate = isOfClientCertificate
            return failure
        }
    }

    struct Resolution: Sendable {
        let family: String
        let duration: Double
        private(set) var addresses: [String] = []
        private(set) var error: Failure?

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

    package struct Address: Sendable {
        package enum Outcome: String, Sendable {
            case won
            case usable
            /// The certificate is not valid, so a client would not use the link.
            case untrusted
            case failed
        }

        let address: String
        let result: Outcome
        /// Since the start of the probe.
        let began: Double
        let connect: Double?
        /// Without `connect`.
        let tls: Double?
        let error: Failure?
        let session: Session?
        let clue: LinkEndClue?

        init(_ link: ProbedLink, since start: Instant, isWinner: Bool) {
            address = link.address.description
            began = link.begun.since(start).inSeconds
            connect = link.connectTime?.inSeconds
            tls = link.securingTime?.inSeconds
            error = (link.failure ?? link.distrust).map { Failure($0) }
            session = link.session.map { Session($0, at: link.loop.unixTime) }
            result = link.failure != nil ? .failed : isWinner ? .won : link.distrust != nil ? .untrusted : .usable
            clue = link.failure.map { link.clue(of: $0, in: link.connected == nil ? .connecting : .securing) }
        }
    }

    struct Session: Sendable {
        let version: String
        let cipherSuite: String
        let applicationProtocol: String?
        let certificates: [Certificate]

        init(_ session: TLSSession, at time: Duration?) {
            version = session.version
            cipherSuite = session.cipherSuite
            applicationProtocol = session.applicationProtocol?.escaped()
            certificates = session.certificates.map { Certificate($0, at: time) }
        }
    }

    struct Certificate: Sendable {
        let subject: String
        let issuer: String
        let names: [String]
        let notBefore: String
        let notAfter: String
        /// Rounded down to tenths; negative if expired; `nil` if the time is unknown.
        let daysLeft: Double?
        /// In seconds; negative if expired; `nil` if the time is unknown.
        let timeLeft: Double?
        let fingerprint: String
        let problem: String?

        /// - Parameter time: Since 1970; with `nil`, nothing is expired.
        init(_ certificate: TLSCertificate, at time: Duration?) {
            (subject, issuer, names) = (certificate.subject, certificate.issuer, certificate.names)
            notBefore = CalendarTime(seconds: certificate.notBefore).text(decimals: 0)
            notAfter = CalendarTime(seconds: certificate.notAfter).text(decimals: 0)
            timeLeft = time.map { Double(certificate.notAfter) - $0.inSeconds }
            daysLeft = timeLeft.map { ($0 / 86_400 * 10).rounded(.down) / 10 }
            fingerprint = certificate.fingerprint
            problem = time.flatMap { CertificateExpiry(.client, certificate).problem(at: $0) }
        }

        var expiry: String {
            "expires \(timeLeft.map { "in \(Self.text($0)), " } ?? "")at \(notAfter)"
        }

        var remaining: String? {
            timeLeft.map { $0 < 0 ? "expired \(Self.text(-$0)) ago" : "\(Self.text($0)) left" }
        }

        /// The seconds in whole days, or in the largest unit of which there is one: `4 days`, `1 hour`.
        static func text(_ seconds: Double) -> String {
            let units: [(name: String, seconds: Double)] = [("day", 86_400), ("hour", 3600), ("minute", 60)]
            for unit in units where seconds >= unit.seconds {
                let count = Int(exactly: (seconds / unit.seconds).rounded(.down)) ?? Int.max
                return "\(count) \(unit.name)\(count == 1 ? "" : "s")"
            }
            return "less than a minute"
        }
    }

    struct Login: Sendable {
        let duration: Double?
        let error: Failure?
        let clue: LinkEndClue?

        /// `failure` is `nil` if a link became ready. `attempt` is the one that failed.
        init(_ failure: ClientError?, _ attempt: DisconnectReport?, duration: Duration?) {
            self.duration = duration?.inSeconds
            guard let failure else {
                (error, clue) = (nil, nil)
                return
            }
            clue = attempt.map { LinkEndClue($0) }
            error = attempt.map { Self.failure(of: $0) } ?? Failure(any: failure)
        }

        private static func failure(of report: DisconnectReport) -> Failure {
            let cause = report.error.map { Failure(any: $0) } ?? Failure(code: report.cause.rawValue.snakeCase, "")
            guard report.phase == .handshaking else { return cause }
            let (code, isRejection): (String, Bool) =
                switch report.cause {
                case .handshakeRefused where isMistake(report.error): ("handshake_failed", false)
                case .handshakeRefused: ("handshake_refused", true)
                // Perhaps it refused the login, and perhaps there is no server behind a load balancer.
                case .closedByServer, .reset: ("handshake_closed", false)
                case .timedOut: ("handshake_timed_out", false)
                default: (cause.code, cause.isRejection)
                }
            return Failure(code: code, "the login failed: \(cause.message)", isRejection: isRejection)
        }

        /// The closure of the handshake has a mistake: the server refused nothing.
        private static func isMistake(_ error: (any Error)?) -> Bool {
            switch (error as? ClientError)?.code {
            case .invalidRequest, .invalidResponse, .invalidArgument: true
            default: false
            }
        }
    }

    struct Pings: Sendable {
        var sent = 0
        private(set) var answered = 0
        private(set) var times: [Double] = []
        private(set) var roundTrip: Spread?
        private(set) var error: Failure?
        private var durations: [Duration] = []
        var stray: (ping: SerialNumber, pong: SerialNumber)?

        mutating func add(_ time: Duration) {
            answered += 1
            times.append(time.inSeconds)
            durations.append(time)
            roundTrip = Spread(durations)
        }

        mutating func fail(_ error: any Error) { self.error = Failure(any: error) }
    }

    struct Connections: Sendable {
        private(set) var attempts = 0
        private(set) var succeeded = 0
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
    }

    /// The link on which pings were sent, or that was kept open without sending anything.
    struct Link: Sendable {
        let address: String
        let bytesReceived: Int
        /// By kind, without answers to pings. Of the link of a client, only `go_away`.
        let framesReceived: [String: Int]
        let ending: Failure?
        let lifetime: Double?
        let malformation: Failure?
        let clue: LinkEndClue?

        init(_ link: ProbedLink) {
            address = link.address.description
            bytesReceived = link.exchange.bytesReceived
            framesReceived = link.exchange.frames
            ending = link.exchange.ending.map { Failure($0.error) }
            lifetime = link.exchange.ending.flatMap { end in link.usable.map { end.at.since($0).inSeconds } }
            malformation = link.exchange.malformation.map { Failure($0) }
            let error: (any Error)? = link.exchange.malformation ?? link.exchange.ending?.error
            clue = error.map { link.clue(of: $0, in: .ready) }
        }

        /// The link of a client, which is known only by its metrics and by the report of its end.
        init(_ address: String, _ metrics: ConnectionMetrics, _ end: DisconnectReport?) {
            self.address = address
            bytesReceived = metrics.bytesReceived
            framesReceived = end?.cause == .goAway ? ["go_away": 1] : [:]
            lifetime = end?.lifetime.inSeconds
            clue = end.map { LinkEndClue($0) }
            guard let end, end.cause != .goAway else {
                (ending, malformation) = (nil, nil)
                return
            }
            if let error = end.error as? FrameError {
                (ending, malformation) = (nil, Failure(error))
            } else {
                ending = end.error.map { Failure(any: $0) } ?? Failure(code: end.cause.rawValue.snakeCase, "\(end)")
                malformation = nil
            }
        }
    }
}

extension ProbedLink {
    var connectTime: Duration? { connected?.since(begun) }

    var securingTime: Duration? {
        guard session != nil, let connected, let usable else { return nil }
        return usable.since(connected)
    }

    fileprivate func clue(of error: any Error, in phase: DisconnectReport.Phase) -> LinkEndClue {
        let problem = loop.unixTime.flatMap { now in
            security?.ownCertificate.flatMap { CertificateExpiry(.client, $0).problem(at: now) }
        }
        return LinkEndClue(
            phase: phase,
            cause: DisconnectCause(error),
            mayLackTLS: security == nil && address.mayUseTLS,
            wasSilent: !exchange.hasHeard,
            certificateProblem: phase == .connecting ? nil : problem
        )
    }
}

extension SocketAddress {
    fileprivate var mayUseTLS: Bool {
        switch self {
        case .ipv4, .ipv6, .unix, .vsock: true
        case .command, .descriptors: false
        }
    }
}

extension String {
    fileprivate var snakeCase: String {
        reduce(into: "") { text, character in
            if character.isUppercase { text += "_" }
            text += character.lowercased()
        }
    }
}

extension TransportError.Code {
    /// Part of the JSON document: the names do not change between versions.
    fileprivate var name: String {
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
        case .proxy: "proxy"
        case .exited: "exited"
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
