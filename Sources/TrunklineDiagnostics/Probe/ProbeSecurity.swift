import TrunklineCore

struct ProbeSecurity: Sendable {
    let context: any TLSContext
    let name: String

    private init(_ settings: TLSSettings, name: String) throws(TransportError) {
        (context, self.name) = (try OpenSSLContext(settings), name)
    }

    init(for endpoint: Endpoint, _ options: ClientOptions.TLS) async throws(TransportError) {
        var settings = try await options.settings()
        if options.pins.isEmpty {
            // The handshake goes on with an invalid certificate, so that the report has it and what follows.
            settings.role = .client(verifies: false)
            settings.examines = true
        }
        guard let name = options.serverName ?? endpoint.hostName else {
            let message = "\(endpoint) has no host name to verify; set options.tls.serverName"
            throw TransportError(.tls(.configuration), message)
        }
        try self.init(settings, name: name)
    }

    /// To find out whether a server speaks TLS: any certificate will do.
    init(ofAnyServerAt endpoint: Endpoint) throws(TransportError) {
        try self.init(TLSSettings(.client(verifies: false)), name: endpoint.hostName ?? "")
    }

    var ownCertificate: TLSCertificate? { context.ownCertificate }
}

extension Endpoint {
    fileprivate var hostName: String? { if case .host(let host, _) = target { host } else { nil } }
}
